"""What a command writes over: results of the same configuration, and else nothing unless forced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandits.schedules import public_name

if TYPE_CHECKING:
    from .experiment import Experiment

FIX = "choose another --out, or --force to replace it"


def refuse_present(paths: Iterable[Path]) -> None:
    """Refuse files that are there already."""
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} is there already; {FIX}")


def refuse_other(paths: Sequence[Path], experiment: Experiment) -> None:
    """Refuse files that are not of this experiment.

    Args:
        paths: where its result and, after that, what is drawn of it will be written.
        experiment: what will be played. Its result would have the same numbers again.
    """
    from fedbandits.results.result import load

    result = paths[0]
    if not result.exists():
        refuse_present(paths)
        return
    try:
        found = load(result)
    except (ValueError, OSError) as error:
        raise FileExistsError(f"{error}; {FIX}") from error
    there = {**found.config, "against": found.dataset.attrs["against"]}
    here = json.loads(
        json.dumps({**experiment.simulation.describe(), "against": experiment.against})
    )
    if there != here:
        raise FileExistsError(
            f"{result} is of another configuration: {_difference(there, here)}; {FIX}"
        )


def _difference(there: Mapping[str, Any], here: Mapping[str, Any], within: str = "") -> str:
    """The first key, in the order of a configuration, that differs.

    Example:
        >>> _difference({"runs": 2, "network": {"rows": 2}}, {"runs": 2, "network": {"rows": 3}})
        'network.rows is 2 there and 3 here'
        >>> _difference({"name": "from_table", "sha256": "5e"}, {"name": "from_table"})
        'the contents of the table differ'
    """
    for key in {**there, **here}:
        old, new = (side.get(key) for side in (there, here))
        if old == new:
            continue
        if key == "own":
            changed = [
                name for name in {**(old or {}), **(new or {})} if _of(old, name) != _of(new, name)
            ]
            return f"the source of {', '.join(changed)} differs"
        if key == "sha256":
            kind = there["name"].removeprefix("from_") if "name" in there else within.strip(".")
            return f"the contents of the {kind} differ"
        if isinstance(old, dict) and isinstance(new, dict) and old.get("name") == new.get("name"):
            return _difference(old, new, f"{within}{key}.")
        return f"{within}{key} is {_shown(old)} there and {_shown(new)} here"
    raise ValueError("the two are the same")


def _of(sources: Mapping[str, Any] | None, name: str) -> Any:
    return (sources or {}).get(name)


def _shown(value: Any) -> str:
    """Plain data in a few words."""
    if isinstance(value, dict) and "name" in value:
        if value["name"] == "Constant":  # a rate
            return _shown(value["value"])
        return public_name(str(value["name"]))
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."

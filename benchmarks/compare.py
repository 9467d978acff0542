"""Two saved tables, row by row: what got slower by more than the noise of either measurement?

    python benchmarks/compare.py OLD.json NEW.json

Ends with 1 where a row got worse, failed or is missing, else with 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import table

# Two measurements of one program on one machine differ by this much whatever the repeats say.
_NOISE = 0.1


class Change(NamedTuple):
    """One row of both tables.

    Attributes:
        name: of the row.
        old: the value, or None where it was not measured.
        new: likewise.
        unit: of both.
        noise: the larger spread of the two, at least 10%.
        verdict: `same`, `better`, `WORSE`, `MISSING`, `FAILED`, `new`, or `not installed`.
    """

    name: str
    old: float | None
    new: float | None
    unit: str
    noise: float
    verdict: str

    @property
    def bad(self) -> bool:
        """Whether somebody should look at it."""
        return self.verdict.isupper()


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Every row of either table, in the order of the new one, those it lacks at the end."""
    before = {row["name"]: row for row in old["rows"]}
    after = {row["name"]: row for row in new["rows"]}
    names = [*after, *(name for name in before if name not in after)]
    return [_change(name, before.get(name), after.get(name)) for name in names]


def _change(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Change:
    known = new or old or {}
    noise = max(_NOISE, *((row or {}).get("spread") or 0.0 for row in (old, new)))
    was, now = ((row or {}).get("value") for row in (old, new))
    if new is None:
        verdict = "MISSING"
    elif now is None:
        verdict = "FAILED" if new["status"] == "failed" else str(new["status"])
    elif was is None:
        verdict = "new"
    elif (old or {}).get("unit") != new["unit"]:
        verdict = "another unit"
    elif now > was * (1 + noise):
        verdict = "WORSE"
    else:
        verdict = "better" if now * (1 + noise) < was else "same"
    return Change(name, was, now, str(known["unit"]), noise, verdict)


def warnings(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What makes the two tables hard to compare."""
    apart = [
        f"{fact}: {old['machine'].get(fact)} and {new['machine'].get(fact)}"
        for fact in ("backend", "device", "cpu", "cores", "python", "jax", "numpy")
        if old["machine"].get(fact) != new["machine"].get(fact)
    ]
    if old["quick"] != new["quick"]:
        apart.append("only one of them is --quick")
    return apart


def main(arguments: Sequence[str]) -> int:
    """The command."""
    if len(arguments) != 2:
        sys.stderr.write("usage: compare.py OLD.json NEW.json\n")
        return 2
    for path in map(Path, arguments):
        if not path.exists():
            sys.stderr.write(f"{path} is not there; `make bench` writes a table\n")
            return 2
    old, new = (json.loads(Path(path).read_text(encoding="utf-8")) for path in arguments)
    found = changes(old, new)
    lines = [
        (
            change.name,
            table.number(change.old),
            table.number(change.new),
            change.unit,
            "-" if not change.old or change.new is None else f"{change.new / change.old:.2f}",
            f"{change.noise:.0%}",
            change.verdict,
        )
        for change in found
    ]
    columns = ("row", "old", "new", "unit", "new / old", "noise", "verdict")
    sys.stdout.write(table.markdown(columns, lines) + "\n")
    sys.stdout.writelines(f"not the same machine: {fact}\n" for fact in warnings(old, new))
    return int(any(change.bad for change in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

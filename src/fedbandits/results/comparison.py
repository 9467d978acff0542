"""Several results: names that tell them apart, and their paired differences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common.describe import label as in_words
from fedbandits.common.statistics import ONE_RUN, Band, band
from fedbandits.schedules import public_name

from .result import Result

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


NAMES = 4
"""Of agents or arms that the name of a result lists."""


def named(
    results: Sequence[Result | Mapping[str, Result]],
    label: str | Sequence[str] | None = None,
    otherwise: Sequence[str] | None = None,
) -> dict[str, Result]:
    """Return results by distinct names.

    Args:
        results: one by one, or one mapping from names to results.
        label: their names, one for each.
        otherwise: what tells those apart that are alike; their places by default.
    """
    if len(results) == 1 and isinstance(results[0], Mapping):
        named_already = results[0]
        results = [*named_already.values()]
        label = [*named_already] if label is None else label
    each = [result for result in results if isinstance(result, Result)]
    if not each or len(each) < len(results):
        others = [type(other).__name__ for other in results if not isinstance(other, Result)]
        raise TypeError(
            f"give results one by one, as in fb.plot(a, b), or by name, as in "
            f"fb.plot({{'ours': a, 'theirs': b}}), not {', '.join(others) or 'nothing'}"
        )
    names = [label] if isinstance(label, str) else list(label or told_apart(each, otherwise))
    if len(names) != len(each) or len({*names}) != len(each):
        raise ValueError(
            f"{len(each)} results need as many different labels, not {', '.join(names)}; give one "
            "for each"
        )
    return dict(zip(names, each, strict=True))


def told_apart(results: Sequence[Result], otherwise: Sequence[str] | None = None) -> list[str]:
    """Return distinct names: the algorithm, and as much of the configuration as is needed.

    What the algorithm's parameters tell apart needs no word about the network, what the network
    does no word about the problem, and so on. Results that are alike in everything get a word of
    `otherwise` each. Losses that are blurred are no small matter, nor is what regret is against:
    where one of them differs all say theirs.
    """
    names = [result.label for result in results]
    otherwise = otherwise or [f"result {place}" for place in range(1, len(results) + 1)]
    epsilons = [result.epsilon for result in results]
    parts = [
        [name] if epsilon is None or len({*epsilons}) == 1 else [name, f"ε={epsilon:g}"]
        for name, epsilon in zip(names, epsilons, strict=True)
    ]
    for name in dict.fromkeys(names):
        alike = {i: _configuration(results[i]) for i, other in enumerate(names) if other == name}
        keys = dict.fromkeys(key for words in alike.values() for key in words)
        # A parameter that the first of them leaves out comes before the network all the same.
        for key in sorted(keys, key=lambda key: not key.startswith("algorithm.")):
            more = {
                i: [*parts[i], words[key]] if key in words else parts[i]
                for i, words in alike.items()
            }
            if _kinds(more.values()) > _kinds(parts[i] for i in alike):
                for i, longer in more.items():
                    parts[i] = longer
    yardsticks = [_compared_with(result.dataset) for result in results]
    if len({*yardsticks}) > 1:
        parts = [[*part, f"against {arms}"] for part, arms in zip(parts, yardsticks, strict=True)]
    return [
        ", ".join(part if parts.count(part) == 1 else [*part, word])
        for part, word in zip(parts, otherwise, strict=True)
    ]


def _kinds(parts: Iterable[list[str]]) -> int:
    return len({tuple(part) for part in parts})


def _configuration(result: Result) -> dict[str, str]:
    """Return the configuration in words, in the order in which names use it."""
    config = result.config
    config.pop("privacy", None)  # said already
    sections = {key: config.pop(key) or {} for key in ("algorithm", "network", "gossip", "problem")}
    kind, problem = _unwrapped(sections["problem"])
    version = config.pop("version", "unknown")
    words = {
        f"algorithm.{key}": f"{key}={_short(value)}"
        for key, value in sections["algorithm"].items()
        if key != "name"
    }
    words |= {key: _short(sections[key] or f"no {key}") for key in ("network", "gossip")}
    words["problem"] = kind
    contents = kind.removeprefix("from_")  # a table or tensor is known by its hash
    words |= {
        f"problem.{key}": f"{contents} {_short(value)}"
        if key == "sha256"
        else f"problem.{key}={_short(value)}"
        for key, value in problem.items()
    }
    words |= {key: f"{key}={_short(value)}" for key, value in config.items()}
    return words | {"version": f"version {version}"}


def _unwrapped(problem: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a problem, and its other keys with those of an inner problem."""
    keys = {key: value for key, value in problem.items() if key not in ("name", "problem")}
    if "problem" not in problem:
        return str(problem.get("name")), keys
    name, inside = _unwrapped(problem["problem"])
    return name, inside | keys


def _short(value: Any) -> str:
    """Return a value of a configuration in few words."""
    return in_words(_shortened(value))


def _shortened(value: Any) -> Any:
    """Return a short form: the first digits of hashes and numbers, the first names of lists.

    Constant rates are their values.
    """
    if isinstance(value, Mapping):
        if value.get("name") == "Constant":
            return _shortened(value["value"])
        short = {key: _shortened(item) for key, item in value.items()}
        return short | ({"name": public_name(value["name"])} if "name" in value else {})
    if isinstance(value, list):
        long = len(value) > NAMES and isinstance(value[0], str)
        return [*map(_shortened, value[:NAMES] if long else value), *(["..."] if long else [])]
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value):
        return value[:8]
    return f"{value:g}" if isinstance(value, float) else value


@dataclass(frozen=True, eq=False)
class Comparison:
    """The paired differences of results on the same losses: each other's from the first.

    Attributes:
        first: what is compared.
        others: what it is compared with.
        difference: first minus other, negative where the first is better: `[run, time]` for two
            results, `[other, run, time]` for more.
    """

    first: str
    others: tuple[str, ...]
    difference: xr.DataArray

    @property
    def second(self) -> str:
        """What the first is compared with, in words."""
        return ", ".join(self.others)

    def band(self) -> Band:
        """Return the mean difference over runs and its 95% interval, over time."""
        return band(self.difference)

    def summary(self) -> pd.DataFrame:
        """Return the differences at T with their 95% intervals, a row for each of the others."""
        import pandas as pd

        at_end = [np.atleast_1d(part.isel(time=-1)) for part in self.band()]
        return pd.DataFrame(
            np.stack(at_end, axis=1),
            index=[f"{self.first} - {other}" for other in self.others],
            columns=["difference", "low 95%", "high 95%"],
        )

    def __repr__(self) -> str:
        shown = self.summary().rename(columns={"difference": "regret difference"}).round(2)
        over = "draw" if "draw" in self.difference.dims else "run"
        if self.difference.sizes[over] == 1:
            return f"{shown[['regret difference']].to_string()}\n{ONE_RUN}"
        return shown.to_string()  # pandas' own would cut off long names


def compare(*results: Result | Mapping[str, Result]) -> Comparison:
    """Run by run, the regret of the first minus that of each other, with its interval.

    All must have faced the same losses, at the same times, in as many runs. With the same seed the
    agents' randomness is shared too, which is what makes the interval narrow.

    Of a problem that watches it is enough that it is the same: each regret is then against the
    losses that came of its own arms, and a smaller regret may go with a larger loss. The loss is
    `result.dataset.regret + result.dataset.arm_loss.min("arm")`.

    Args:
        results: two or more, the one in question first; or a mapping from names to results.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> ours, *others = (fb.simulate(problem, fb.Exp3(eta), runs=2) for eta in (1.0, 0.1, 0.01))
        >>> fb.compare(ours, *others).summary().index.tolist()
        ['Exp3, learning_rate=1 - Exp3, learning_rate=0.1',
         'Exp3, learning_rate=1 - Exp3, learning_rate=0.01']
    """
    import pandas as pd
    import xarray as xr

    (first, ours), *others = named(results).items()
    if not others:
        raise ValueError("compare needs two results or more, not 1")
    for second, theirs in others:
        _check_comparable(f"{first} and {second}", ours.dataset, theirs.dataset)
    differences = [ours.dataset["regret"] - theirs.dataset["regret"] for _, theirs in others]
    names = tuple(name for name, _ in others)
    if len(others) == 1:
        return Comparison(first, names, differences[0])
    return Comparison(first, names, xr.concat(differences, pd.Index(names, name="other")))


def _compared_with(data: xr.Dataset) -> str:
    """Return what regret is against, in words."""
    against: str = data.attrs["against"]
    return f"the {against} best arm" if against in ("current", "final") else against


def _check_comparable(both: str, a: xr.Dataset, b: xr.Dataset) -> None:
    for dimension in ("draw", "run", "time"):
        ours, theirs = (data.sizes.get(dimension, 1) for data in (a, b))
        if ours != theirs:
            raise ValueError(
                f"{both} have {ours} and {theirs} entries along {dimension}; compare needs as many"
            )
    if a.attrs["against"] != b.attrs["against"]:
        raise ValueError(
            f"{both} cannot be compared: one regret is against {_compared_with(a)}, the other "
            f"against {_compared_with(b)}; call regret_against with the same changes or parts on "
            "both, or on neither"
        )
    if all("run" in data["arm_loss"].dims for data in (a, b)):
        # They watch: the same problem, though what came of it depends on who played.
        ours, theirs = (json.loads(data.attrs["config"])["problem"] for data in (a, b))
        if ours != theirs:
            raise ValueError(f"{both} did not face the same problem, but {ours} and {theirs}")
        return
    first, second = (sorted(json.loads(data.attrs["config"]).get("liars", ())) for data in (a, b))
    if first != second:
        lying = " and ".join(", ".join(map(str, who)) or "nobody" for who in (first, second))
        raise ValueError(
            f"{both} are of different agents, the honest ones, and against the arm best for them: "
            f"liars are {lying}. Look at both summaries instead"
        )
    x, y = a["arm_loss"], b["arm_loss"]
    # Sums of the same losses, up to the rounding of another dtype or chunk length.
    if x.shape != y.shape or not np.allclose(x, y, rtol=1e-5, atol=1e-5):
        raise ValueError(
            f"{both} did not face the same losses: simulate them with one problem and its seed"
        )

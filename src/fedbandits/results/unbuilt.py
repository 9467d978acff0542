"""A result's arrays before xarray has them: enough to print it.

xarray, pandas and what they load where it is installed take longer than many a simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandits.common.statistics import interval

from .best_arm import BestArm

if TYPE_CHECKING:
    import xarray as xr

Values = np.ndarray[Any, Any]

_LARGE = 1e5
"""From here on pandas may write numbers otherwise than with two digits."""


@dataclass(frozen=True)
class Unbuilt:
    """A dataset to come, of one draw of the losses that is the same for all runs.

    Attributes:
        variables: dimensions and values by name, as `xarray.Dataset` takes them.
        coords: the same of the coordinates.
        attrs: the attributes.
    """

    variables: Mapping[str, Any]
    coords: Mapping[str, Any]
    attrs: dict[str, Any]

    def build(self) -> xr.Dataset:
        """The dataset."""
        import xarray as xr

        return xr.Dataset(self.variables, self.coords, self.attrs)

    @property
    def sizes(self) -> dict[str, int]:
        """Of the dimensions that every result has."""
        return {name: len(self.coords[name]) for name in ("run", "time", "agent", "arm")}

    @property
    def printable(self) -> bool:
        """Whether `table` and `best_arm` say what the dataset would."""
        regret = self._values("regret")
        return self._values("arm_loss").ndim == 2 and float(np.abs(regret).max()) < _LARGE

    def rows(self) -> dict[str, tuple[float, ...]]:
        """The rows of `Result.summary`."""
        by_agent, loss = self._values("agent_expected_regret"), self._values("arm_loss")[-1]
        heard = np.where(np.isnan(by_agent).any(axis=0), -np.inf, by_agent.mean(axis=0))
        worst = int(heard.argmax())  # not a liar, whose regret is no number
        uniform = float(loss.mean() - loss.min())
        return {
            "mean agent": interval(self._values("regret")[:, -1]),
            "mean agent, expected": interval(self._values("expected_regret")[:, -1]),
            f"worst agent ({self.coords['agent'][worst]}), expected": interval(by_agent[:, worst]),
            "uniform play, exact": (uniform,) * 3,
        }

    def best_arm(self) -> BestArm:
        """As `Result.best_arm`."""
        mean = self._values("arm_loss")[-1] / int(self.coords["time"][-1])
        best, second = (int(arm) for arm in mean.argsort(kind="stable")[:2])
        chosen = self._values("recommended_arm")
        honest = ~np.isnan(self._values("agent_expected_regret"))
        names = np.asarray(self.coords["arm"])
        return BestArm(
            names[best].item(),
            names[second].item(),
            float(mean[second] - mean[best]),
            float((chosen == best)[honest].mean()),
        )

    def _values(self, name: str) -> Values:
        values: Values = self.variables[name][1]
        return values


def table(rows: Mapping[str, tuple[float, ...]]) -> str:
    """Rows as pandas prints them, rounded to two digits.

    Example:
        >>> print(table({"mean agent": (4.193, 4.02, 4.347), "worst": (5.0, -0.1, float("nan"))}))
                    regret  low 95%  high 95%
        mean agent    4.19     4.02      4.35
        worst         5.00    -0.10       NaN
    """
    shown = HEADER[: min(map(len, rows.values()))]  # of one run, no limits
    lines = [[f" {name}", *_column([row[place] for row in rows.values()])] for place, name in shown]
    widths = [max(map(len, column)) for column in lines]
    names = ["", *rows]
    first = max(map(len, names))
    return "\n".join(
        name.ljust(first)
        + "".join(f" {column[i].rjust(width)}" for column, width in zip(lines, widths, strict=True))
        for i, name in enumerate(names)
    )


HEADER = tuple(enumerate(("regret", "low 95%", "high 95%")))


def _column(values: list[float]) -> list[str]:
    """Numbers with as many digits, at most two, as one of them needs."""
    rounded = np.round(values, 2)
    digits = 1 if all(np.isnan(x) or round(x, 1) == x for x in rounded) else 2
    return ["NaN" if np.isnan(x) else f"{x: .{digits}f}" for x in rounded]

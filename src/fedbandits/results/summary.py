"""A result at T: its table, its best arm, and how both are printed.

It needs NumPy alone. xarray and pandas take longer to load than many a simulation takes to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedbandits.common.statistics import Interval, interval

Values = np.ndarray[Any, Any]

COLUMNS = ("regret", "low 95%", "high 95%")


class BestArm(NamedTuple):
    """The arm with the least loss in hindsight, averaged over all rounds and agents.

    Attributes:
        arm: its name, or its number if arms have no names.
        second: the next best.
        gap: the mean loss of the second minus that of the best; 0 if they are equal.
        agreement: the share of agents, in all runs, that recommend it.
    """

    arm: str | int
    second: str | int
    gap: float
    agreement: float

    @property
    def lead(self) -> str:
        """Its distance to the second, in words."""
        if self.gap == 0:
            return f"as good as {_called(self.second)}"
        return f"its mean loss {self.gap:.3g} below {_called(self.second)}'s"

    def __str__(self) -> str:
        return (
            f"{_called(self.arm)}, {self.lead}; recommended by {self.agreement:.0%} of agents and "
            "runs"
        )

    def __repr__(self) -> str:
        return f"BestArm({self})"


def _called(arm: str | int) -> str:
    return f"arm {arm}" if isinstance(arm, int) else arm


class RegretSummary(NamedTuple):
    """A result at T as arrays, with a first axis of draws if there are several.

    Attributes:
        regret: mean over agents, `[run]`.
        expected: the same from the distributions, `[run]`.
        agent_expected: expected regret of each agent, `[run, agent]`; NaN for liars.
        arm_loss: mean loss of each arm, `[arm]`; `[run, arm]` if every run has its own losses.
        compared: mean loss of what regret is measured against, as `arm_loss` without arms.
        recommended: the arm that each agent would most likely play, `[run, agent]`.
        rounds: T.
        names: names of the agents and of the arms.
        draws: whether there are several draws.
    """

    regret: Values
    expected: Values
    agent_expected: Values
    arm_loss: Values
    compared: Values
    recommended: Values
    rounds: int
    names: tuple[Values, Values]
    draws: bool

    @classmethod
    def of(
        cls,
        values: Callable[[str], Values],
        coords: Mapping[str, Any],
        compared: Values | None = None,
        draws: bool = False,
    ) -> RegretSummary:
        """Return the summary of a dataset.

        Args:
            values: gives a variable by name.
            coords: gives a coordinate by name.
            compared: what regret is against at T; the best fixed arm by default.
            draws: whether there are several draws.
        """
        arm_loss = values("arm_loss")[..., -1, :]
        return cls(
            values("regret")[..., -1],
            values("expected_regret")[..., -1],
            values("agent_expected_regret"),
            arm_loss,
            arm_loss.min(axis=-1) if compared is None else compared,
            values("recommended_arm"),
            int(coords["time"][-1]),
            (np.asarray(coords["agent"]), np.asarray(coords["arm"])),
            draws,
        )

    @property
    def uniform(self) -> Values:
        """Regret of uniform play on these losses, of each draw and of runs with their own."""
        regret: Values = self.arm_loss.mean(axis=-1) - self.compared
        return regret

    @property
    def own_losses(self) -> bool:
        """Whether every run has its own losses."""
        return self.arm_loss.ndim - self.draws == 2

    @property
    def worst(self) -> int:
        """The agent with the largest expected regret, mean over runs and draws."""
        by_agent = self.agent_expected.reshape(-1, self.agent_expected.shape[-1])
        honest = ~np.isnan(by_agent).any(axis=0)
        return int(np.where(honest, by_agent.mean(axis=0), -np.inf).argmax())

    @property
    def worst_agent(self) -> str | int:
        """Its name, or its number if agents have no names."""
        name: str | int = self.names[0][self.worst].item()
        return name

    def rows(self) -> dict[str, Interval]:
        """Return the rows of `Result.summary` by name."""
        rows = {
            "mean agent": self._interval(self.regret),
            "mean agent, expected": self._interval(self.expected),
            f"worst agent ({self.worst_agent}), expected": self._interval(
                self.agent_expected[..., self.worst]
            ),
        }
        if self.own_losses:
            rows["uniform play, on these losses"] = self._interval(self.uniform)
        elif self.draws:
            rows["uniform play"] = interval(self.uniform)
        else:
            rows["uniform play, exact"] = Interval(*(float(self.uniform),) * 3)
        return rows

    def best_arm(self) -> BestArm:
        """Return the best arm in hindsight, on average over runs and draws."""
        arms = self.names[1]
        mean = self.arm_loss.reshape(-1, len(arms)).mean(axis=0) / self.rounds
        best, second = (int(arm) for arm in mean.argsort(kind="stable")[:2])
        honest = ~np.isnan(self.agent_expected)
        return BestArm(
            arms[best].item(),
            arms[second].item(),
            float(mean[second] - mean[best]),
            float((self.recommended == best)[honest].mean()),
        )

    def _interval(self, by_run: Values) -> Interval:
        """Return the interval over draws of the mean over runs, or over runs."""
        return interval(by_run.mean(axis=-1) if self.draws else by_run)


def text_table(rows: Mapping[str, tuple[float, ...]]) -> str:
    """Return rows as pandas prints them, rounded to two digits.

    Example:
        >>> print(text_table({"a": (4.193, 4.02, 4.347), "b": (5.0, -0.1, float("nan"))}))
           regret  low 95%  high 95%
        a    4.19     4.02      4.35
        b    5.00    -0.10       NaN
    """
    shown = COLUMNS[: min(map(len, rows.values()))]  # one run has no limits
    lines = [
        [f" {name}", *_column([row[place] for row in rows.values()])]
        for place, name in enumerate(shown)
    ]
    widths = [max(map(len, column)) for column in lines]
    names = ["", *rows]
    first = max(map(len, names))
    return "\n".join(
        name.ljust(first)
        + "".join(f" {column[i].rjust(width)}" for column, width in zip(lines, widths, strict=True))
        for i, name in enumerate(names)
    )


def _column(values: list[float]) -> list[str]:
    """Return numbers with as many digits, at most two, as one of them needs."""
    rounded = np.round(values, 2)
    digits = 1 if all(np.isnan(x) or round(x, 1) == x for x in rounded) else 2
    return ["NaN" if np.isnan(x) else f"{x: .{digits}f}" for x in rounded]

"""Problems that contain another problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .base import Problem, Sized


@dataclass(frozen=True, eq=False, repr=False)
class Inside(Sized):
    """A problem with an inner problem, whose names, dates and seed it has.

    Attributes:
        problem: the inner problem.
    """

    problem: Problem

    @property
    def agent_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.agent_names

    @property
    def arm_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.arm_names

    @property
    def dates(self) -> np.ndarray[Any, Any] | None:  # type: ignore[override]
        """That of the inner problem."""
        return self.problem.dates

    @property
    def filled(self) -> float:  # type: ignore[override]
        """The share of filled losses of the inner problem."""
        return self.problem.filled

    @property
    def loss_seed(self) -> int | None:
        """That of the inner problem."""
        return self.problem.loss_seed

    def redraw(self, seed: int) -> Self:
        """Return the problem with the inner problem drawn again, if it is drawn."""
        inside = self.problem.redraw(seed)
        return self if inside is self.problem else replace(self, problem=inside)

    def cell(self, t: int, v: int, i: int) -> str:
        """Return the name that the inner problem has for a cell."""
        return self.problem.cell(t, v, i)

"""What a simulation tells its caller while it runs, for a log or a tracker of experiments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.engine.preparation import Game


@dataclass(frozen=True, eq=False)
class Milestone:
    """Where a simulation stands after a chunk of rounds.

    Attributes:
        round: the last that is done.
        horizon: T.
        seconds: since this call began to play.
        regret: of each run so far, mean over agents, `[R]`, against the arm best so far.
        expected_regret: the same from the distributions, with less noise.
        draw: which draw of the losses is played; None without draws.
    """

    round: int
    horizon: int
    seconds: float
    regret: np.ndarray[Any, np.dtype[np.float64]]
    expected_regret: np.ndarray[Any, np.dtype[np.float64]]
    draw: int | None = None


Callback = Callable[[Milestone], object]


def check_callback(callback: Any) -> None:
    """Refuse what cannot be called, before anything is played."""
    if callback is not None and not callable(callback):
        raise TypeError(
            "callback must be a function of one milestone, such as "
            f"lambda m: print(m.round), not {callback!r}"
        )


def teller(callback: Callback | None, game: Game, draw: int | None) -> Callable[[int], None] | None:
    """Calls back, given the last round of a game that is recorded; None where nobody listens."""
    if callback is None:
        return None
    begun, record = time.monotonic(), game.record

    def tell(done: int) -> None:
        best = record.arm_loss_so_far.min(axis=0)
        callback(
            Milestone(
                done,
                game.problem.horizon,
                time.monotonic() - begun,
                record.incurred_so_far - best,
                record.expected_so_far - best,
                draw,
            )
        )

    return tell

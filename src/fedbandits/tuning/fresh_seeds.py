"""The winner beside what was given, on fresh seeds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common.describe import describe
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems import Problem
from fedbandits.simulation.simulation import DType, Simulation, conditions_of

from .play import at_end, play_each
from .seeds import draws_losses, in_words, stage_seeds

if TYPE_CHECKING:
    import pandas as pd

    from fedbandits.common.statistics import Interval
    from fedbandits.results.result import Result

logger = logging.getLogger("fedbandits")

FRESH = 10
"""Draws of the losses on which the winner is judged; intervals are over these."""


AGENTS = ("mean agent", "worst agent")


@dataclass(frozen=True, eq=False)
class Report:
    """The winner and what was given, on seeds that tuning has not seen.

    Attributes:
        tuned: the winner's results, one for each fresh seed.
        given: the same for what was given.
        seeds: of the results.
        redrawn: whether the losses are fresh too.
    """

    tuned: tuple[Result, ...]
    given: tuple[Result, ...]
    seeds: tuple[int, ...]
    redrawn: bool

    @property
    def unit(self) -> str:
        """What intervals are over: `draw` of losses and agents' randomness, or `run`."""
        return "draw" if len(self.seeds) > 1 else "run"

    def summary(self) -> pd.DataFrame:
        """Expected regret at T with 95% intervals, and the paired differences.

        The worst agent is that of each draw.
        """
        import pandas as pd

        from fedbandits.common.statistics import interval

        rows = {}
        for agent in AGENTS:
            tuned, given = (_values(r, agent, self.unit) for r in (self.tuned, self.given))
            rows[f"tuned, {agent}"] = interval(tuned)
            rows[f"given, {agent}"] = interval(given)
            rows[f"tuned - given, {agent}"] = interval(tuned - given)
        return pd.DataFrame.from_dict(
            rows, orient="index", columns=["regret", "low 95%", "high 95%"]
        )

    def difference(self) -> Interval:
        """Regret of the mean agent, tuned minus given, with its 95% interval."""
        from fedbandits.common.statistics import interval

        tuned, given = (_values(r, "mean agent", self.unit) for r in (self.tuned, self.given))
        return interval(tuned - given)

    @property
    def wins(self) -> bool:
        """Whether the tuned setting is better: the whole interval of `difference` is below 0.

        A single run of stored losses has no interval, and nobody wins.
        """
        return self.difference().high < 0

    def table(self) -> pd.DataFrame:
        """Expected regret at T of the mean and of the worst agent, for every fresh seed."""
        import pandas as pd

        columns: dict[str, Any] = {"seed": self.seeds}
        for name, results in (("tuned", self.tuned), ("given", self.given)):
            for agent in AGENTS:
                columns[f"{name}, {agent}"] = _values(results, agent, "draw")
            columns[f"{name}, worst agent is"] = [result.worst_agent for result in results]
        return pd.DataFrame(columns)


def report(
    problem: Problem,
    tuned: AnyAlgorithm,
    given: AnyAlgorithm,
    gossip: Gossip | None = None,
    *,
    runs: int = 10,
    draws: int = FRESH,
    seed: int = 0,
    dtype: DType = "float32",
    progress: bool | None = None,
    privacy: RandomisedResponse | None = None,
) -> Report:
    """Both algorithms on fresh seeds, paired: on the same losses with the same randomness.

    Arguments as those of `choose`, with which no seed is shared, whatever `seed` is.
    """
    conditions = conditions_of(privacy)
    simulation = Simulation(problem, tuned, gossip, runs, dtype=dtype, conditions=conditions)
    runs, redrawn = simulation.runs, draws_losses(problem)
    seeds = stage_seeds("fresh", draws if redrawn else 1, seed, problem)
    if progress is not False:
        logger.info("report: %d runs, on %s", runs, in_words(len(seeds), redrawn))
    # Where nothing was better than what was given, once is enough.
    both = [tuned] if describe(tuned) == describe(given) else [tuned, given]
    pairs = []
    for drawn in seeds:
        played = play_each(simulation, both, drawn, progress)
        pairs.append((played[0], played[-1]))
    return Report(tuple(a for a, _ in pairs), tuple(b for _, b in pairs), seeds, redrawn)


def _values(results: Sequence[Result], agent: str, unit: str) -> npt.NDArray[np.float64]:
    """Independent values of the regret at T: one for each draw, or for each run of the only one."""
    by_run = [
        at_end(result)
        if agent == "mean agent"
        else result.dataset["agent_expected_regret"].to_numpy()[:, result.worst_index]
        for result in results
    ]
    return by_run[0] if unit == "run" else np.array([values.mean() for values in by_run])

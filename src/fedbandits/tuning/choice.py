"""The best of many candidates, on tuning seeds."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common import checks
from fedbandits.common.describe import describe
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems import Problem
from fedbandits.simulation.simulation import DType, Simulation, conditions_of, rounding_doubts

from . import knobs
from .knobs import Edge
from .names import asked_for, differences
from .play import at_end, play_each
from .seeds import draws_losses, in_words, stage_seeds

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("fedbandits")

MOST = 10_000
"""Candidates that a grid may have."""

DRAWS = 3
"""Draws of the losses on which candidates are compared, so that no single one chooses."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What was tried and what came of it.

    Attributes:
        winner: the candidate of the smallest mean regret.
        candidates: all of them, in the order of the grid.
        settings: each of them as plain data, with what it took from the network filled in.
        given: which of them was given; None if `candidates` are without it.
        regret: at T, expected, the mean over agents and runs: `[candidate, draw]`.
        seeds: of the draws.
        edges: parameters of which the winner has the smallest or largest value tried.
        redrawn: whether each draw had losses of its own.
    """

    winner: AnyAlgorithm
    candidates: tuple[AnyAlgorithm, ...]
    settings: tuple[dict[str, Any], ...]
    given: int | None
    regret: npt.NDArray[np.float64]
    seeds: tuple[int, ...]
    edges: tuple[Edge, ...]
    redrawn: bool

    def table(self) -> pd.DataFrame:
        """A row for each candidate: what it differs in, its regret, and that of every draw."""
        import pandas as pd

        both = zip(self.candidates, self.settings, strict=True)
        columns = differences([asked_for(candidate, setting) for candidate, setting in both])
        return pd.DataFrame(
            {
                **{
                    name: pd.Series(values, dtype=_dtype(values))
                    for name, values in columns.items()
                },
                "regret": self.regret.mean(axis=1),
                **{f"regret, seed {seed}": self.regret[:, d] for d, seed in enumerate(self.seeds)},
                "given": [h == self.given for h in range(len(self.candidates))],
            }
        )


def choose(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None = None,
    *,
    candidates: Sequence[AnyAlgorithm] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    budget: int = 25,
    runs: int = 10,
    draws: int = DRAWS,
    seed: int = 0,
    dtype: DType = "float32",
    progress: bool | None = None,
    privacy: RandomisedResponse | None = None,
) -> Choice:
    """The candidate of the smallest expected regret at T, the mean over agents, runs and draws.

    All candidates face the same losses with the same randomness, in one compiled program; in
    several calls of it only where they are too large for one. What is tuned is a candidate too; if
    it is of another kind than the grid (its learning rate is a schedule, say) by a program of its
    own.

    Args:
        problem: the losses.
        algorithm: what is tuned.
        gossip: the network and its matrix.
        candidates: exactly these instead of a grid.
        ranges: of the grid, by parameter, instead of the declared ones.
        budget: the most candidates, what was given included.
        runs: of each candidate on each draw.
        draws: how many draws of the losses; stored losses are played once, with all runs.
        seed: of everything; the seeds of the draws are derived from it.
        dtype: `float32` or `float64`.
        progress: show progress bars; by default on a terminal only.
        privacy: as in `fb.simulate`.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> rates = [fb.FedExp3(rate) for rate in (0.01, 0.3)]
        >>> choice = choose(problem, fb.FedExp3(), gossip, candidates=rates, runs=2, draws=2)
        >>> choice.winner.learning_rate
        constant(value=0.3)
        >>> choice.regret.shape
        (2, 2)
    """
    budget = checks.whole(budget, "budget", least=2, most=MOST)
    runs = checks.whole(runs, "runs", least=1)
    simulation = Simulation(
        problem, algorithm, gossip, runs, dtype=dtype, conditions=conditions_of(privacy)
    )
    for doubt in rounding_doubts(problem, dtype):
        warnings.warn(doubt, stacklevel=2)
    if candidates is not None and ranges:
        raise ValueError("candidates stand instead of a grid with ranges; leave one of the two out")
    tried: list[knobs.Knob] = []
    if candidates is None:
        tried = knobs.grid(algorithm, simulation.setting, problem.horizon, budget - 1, ranges)
        played = knobs.combinations(algorithm, tried)
        given = _place(played, algorithm)
        if given is None:
            given = len(played)
            played.append(algorithm)
    else:
        played = list(candidates)
        given = _place(played, algorithm)
    if not played:
        raise ValueError("there are no candidates to choose from; give at least one")
    redrawn = draws_losses(problem)
    seeds = stage_seeds("tuning", draws if redrawn else 1, seed, problem)
    if progress is not False:
        logger.info(
            "tuning: %d candidates, %d runs, on %s",
            len(played),
            runs,
            in_words(len(seeds), redrawn),
        )
    regret = np.empty((len(played), len(seeds)))
    for d, drawn in enumerate(seeds):
        results = play_each(simulation, played, drawn, progress)
        regret[:, d] = [at_end(result).mean() for result in results]
    means = regret.mean(axis=1)
    best = int(means.argmin())
    if given is not None and means[given] <= means[best]:  # of equals, what was given
        best = given
    on_grid = bool(tried) and best < np.prod([len(knob.numbers) for knob in tried])
    edges = knobs.edges(tried, best) if on_grid else ()
    settings = tuple(result.config["algorithm"] for result in results)
    return Choice(played[best], tuple(played), settings, given, regret, seeds, edges, redrawn)


def _place(algorithms: Sequence[AnyAlgorithm], wanted: AnyAlgorithm) -> int | None:
    described = describe(wanted)
    places = [h for h, each in enumerate(algorithms) if describe(each) == described]
    return places[0] if places else None


def _dtype(values: Sequence[Any]) -> str | None:
    """As pandas chooses it, but what is mixed stays as it is."""
    return None if all(isinstance(value, int | float) for value in values) else "object"

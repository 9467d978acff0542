"""A simulation as a value: what is asked for, and nothing about how it is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from fedbandits.algorithms.base import AnyAlgorithm, Setting
from fedbandits.common import checks, version
from fedbandits.common.describe import describe
from fedbandits.common.own_modules import sources_of
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem, loss_seeds
from fedbandits.results.record import check_runs

from .condition import Condition
from .liars import Liars
from .validation import check_arguments, check_links

DType = Literal["float32", "float64"]
Bound = TypeVar("Bound", bound=Condition)

MOST_DRAWS = 10_000
"""The largest number of draws; each keeps curves of its own."""

FLOAT32_ROUNDS = 1_000_000
"""The longest horizon at which float32 was measured against float64: benchmarks/RESULTS.md."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A problem, an algorithm and a gossip, to be played `runs` times.

    Construction validates what needs no device: types, sizes, names, and whether the parts fit
    each other. Memory, tracing and losses are checked on the machine that plays.

    Attributes:
        problem: the losses.
        algorithm: the behaviour of each agent, as given; `ready` is set up.
        gossip: the network and its matrix; None for algorithms that send nothing.
        runs: R.
        seed: the seed of the agents' randomness.
        dtype: `float32` or `float64`.
        draws: the number of draws of the losses; None for the problem's own losses alone.
        conditions: what changes a plain round, such as private losses or liars.
    """

    problem: Problem
    algorithm: AnyAlgorithm
    gossip: Gossip | None = None
    runs: int = 10
    seed: int = 0
    dtype: DType = "float32"
    draws: int | None = None
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        check_arguments(self.problem, self.algorithm, self.gossip, self.dtype)
        check_links(self.algorithm, self.gossip)
        _check_conditions(self.conditions)
        self._set(conditions=tuple(condition.bind(self) for condition in self.conditions))
        self._set(runs=check_runs(self.runs, self.problem), seed=checks.seed32(self.seed))
        if self.draws is not None:
            self._set(draws=checks.whole(self.draws, "draws", least=2, most=MOST_DRAWS))
            checks.seed32(self.seed + self.draws - 1, "seed + draws - 1")
            check_runs(self.runs * len(self.loss_seeds), self.problem)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def setting(self) -> Setting:
        """The settings that every agent receives before round 1."""
        return Setting(self.problem.arms, self.problem.agents, self.gossip, self.problem.actions)

    @cached_property
    def ready(self) -> AnyAlgorithm:
        """The algorithm, set up for this problem and network."""
        return self.algorithm.set_up(self.setting)

    @cached_property
    def loss_seeds(self) -> tuple[int, ...]:
        """The seed of the losses in each draw; empty without draws."""
        return () if self.draws is None else loss_seeds(self.problem, self.draws)

    def condition(self, kind: type[Bound]) -> Bound | None:
        """Return the condition of this type, or None."""
        return next((each for each in self.conditions if isinstance(each, kind)), None)

    def under(self, condition: Condition) -> Simulation:
        """Return the simulation under one more condition."""
        return replace(self, conditions=(*self.conditions, condition))

    def draw(self, d: int) -> Simulation:
        """Return the simulation on draw d of the losses.

        Draw 0 has the problem as it is and the agents' randomness of `seed`; draw d has other
        losses and the randomness of `seed + d`.

        Example:
            >>> import fedbandits as fb
            >>> problem = fb.problems.bernoulli([0.2, 0.8], horizon=10, agents=3, seed=7)
            >>> simulation = Simulation(problem, fb.Exp3(), draws=3, seed=40)
            >>> simulation.draw(0).problem is problem, simulation.draw(2).seed
            (True, 42)
        """
        problem = self.problem.redraw(self.loss_seeds[d]) if d else self.problem
        return replace(self, problem=problem, seed=self.seed + d, draws=None)

    def on(self, problems: Sequence[Problem]) -> list[Simulation]:
        """Return one simulation of each problem; number d has this one's seed, plus d."""
        return [replace(self, problem=p, seed=self.seed + d) for d, p in enumerate(problems)]

    def describe(self) -> dict[str, Any]:
        """Return everything that decides the numbers, as plain data.

        Every result holds it as its configuration, and a checkpoint is known by it.

        Example:
            >>> import fedbandits as fb
            >>> problem = fb.problems.bernoulli([0.2, 0.8], horizon=10, agents=3)
            >>> Simulation(problem, fb.Exp3(), runs=2).describe()["runs"]
            2
        """
        return dict(self._described)

    @cached_property
    def _described(self) -> dict[str, Any]:
        """The description; a problem on the host is asked for losses to describe it."""
        gossip = self.gossip
        network = gossip and gossip.network
        found = {
            "version": version.__version__,
            "problem": self.problem.describe(),
            "network": network and {"name": network.family, **describe(network.parameters)},
            "gossip": gossip and {"name": gossip.rule, **describe(gossip.parameters)},
            "algorithm": describe(self.ready),
            "runs": self.runs,
            "seed": self.seed,
            "dtype": self.dtype,
        }
        own = sources_of(self.problem, self.ready, *self.conditions)
        if own:  # modules that a configuration names
            found["own"] = own
        found |= {condition.name: condition.describe() for condition in self.conditions}
        if self.draws is not None:
            found |= {"draws": self.draws, "loss_seeds": list(self.loss_seeds)}
        return found

    def doubts(self) -> list[str]:
        """Return warnings about a simulation that is valid but hardly useful."""
        found = []
        unheard, horizon = self.ready.rounds_before_learning, self.problem.horizon
        if unheard >= horizon:
            found.append(
                f"{type(self.algorithm).__name__} learns nothing in its first {unheard:,} rounds, "
                f"and the problem has {horizon:,}; a shorter block, or a longer horizon, helps"
            )
        return found + rounding_doubts(self.problem, self.dtype)


CONDITIONS: tuple[type[Condition], ...] = (RandomisedResponse, Liars)
"""The conditions that `fb.simulate` and configuration files know by name."""


def conditions_of(privacy: Any = None, liars: Any = None) -> tuple[Condition, ...]:
    """Return the conditions that users give by name; those that are None or empty are left out."""
    found: list[Condition] = []
    if privacy is not None:
        found.append(RandomisedResponse.of(privacy))
    if liars is not None and liars != {}:
        found.append(Liars.of(liars))
    return tuple(found)


RESERVED: tuple[str, ...] = (
    *("version", "problem", "network", "gossip", "algorithm", "runs", "seed", "dtype"),
    *("own", "draws", "loss_seeds", "snapshots", "live"),
)
"""Keys of a description that are not conditions."""


def _check_conditions(conditions: Sequence[Any]) -> None:
    """Reject values that are not conditions, and conditions that share a name."""
    names: set[str] = set(RESERVED)
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise TypeError(f"conditions must be of type Condition, not {condition!r}")
        checks.frozen_dataclass(type(condition))
        if condition.name in names:
            raise ValueError(
                f"the condition name {condition.name!r} is taken; give each condition another name"
            )
        names.add(condition.name)


def rounding_doubts(problem: Problem, dtype: DType) -> list[str]:
    """Return a warning if the horizon is longer than those at which float32 was measured."""
    if dtype != "float32" or problem.horizon <= FLOAT32_ROUNDS:
        return []
    return [
        f"in float32 sums lose digits, and {problem.horizon:,} rounds are more than the "
        f"{FLOAT32_ROUNDS:,} up to which it was measured beside float64; pass "
        'dtype="float64", which takes up to twice as long'
    ]

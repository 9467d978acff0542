"""FedFTRL: a hybrid regulariser on gossiped estimates, for random and adversarial losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from fedbandits.arrays import Array, played, taken
from fedbandits.common.checks import nonnegative

from .base import Algorithm, Leaf, Setting
from .regularisers import regularised_leader
from .tunable import Tunable

Constants = Literal["experimental", "published"]

PRESETS: dict[str, dict[str, float]] = {
    "experimental": {
        "tsallis_scale": 0.1,
        "tsallis_start": 0.0,
        "entropy_scale": 8.0,
        "entropy_start": 0.0,
        "truncation": 12.0,
    },
    "published": {
        "tsallis_scale": 4.0,
        "tsallis_start": 1.0,
        "entropy_scale": 8.0,
        "entropy_start": 1.0,
        "truncation": 12.0,
    },
}


class FedFTRLState(NamedTuple):
    """The state of an agent.

    Attributes:
        total: L̂, estimates of the arms' losses summed over all agents, `[K, *batch]`.
        difference: ℓ̂ - ℓ̃ of the previous round, at the arm played, `[K, *batch]`.
    """

    total: Array
    difference: Array


class Rates(NamedTuple):
    """1/η_t, 1/γ_t and 12 N C_t γ_t."""

    tsallis: Array
    entropy: Array
    least: Array


@dataclass(frozen=True, init=False)
class FedFTRL(Algorithm[FedFTRLState]):
    """Follow the regularised leader on truncated gossiped estimates, with flooded corrections.

    x_t minimises ⟨x, L̂_t⟩ - (2/η_t) Σ sqrt(x_k) + (1/γ_t) Σ x_k ln x_k. The agent sees ℓ of its
    arm. It adds ℓ̃ = ℓ/max{x, 12 N C_t γ_t} in L̂ ← Σ_u W_uv L̂^u + N ℓ̃, so that every L̂ estimates
    the sum over agents. The difference ℓ/x - ℓ̃ is flooded, and all agents add it D rounds later.
    C_t = min{ln(N t), sqrt(N)}/(1 - σ2) + 2 + D, D the diameter, and

    1/η_t = a sqrt(N t) + a₀ 169 N² D,
    1/γ_t = b N sqrt(C_t t / ln K) + b₀ (36 D² (K-1)^(2/3) + 4 C_t²).

    The constants are unverified: they are from notes on the paper, not from the paper. `published`
    is a = 4, b = 8, a₀ = b₀ = 1. `experimental`, used in the experiments of the paper by the same
    notes, is a = 0.1, b = 8, a₀ = b₀ = 0. With either it learns slowly.

    The flooded record contains the arm played and its loss: it is `raw`. One agent, or
    `gossip.none`, is a network of one: N = 1, D = 0, σ2 = 0, and the difference is a round late.

    Args:
        constants: the preset of all numbers not given, `experimental` or `published`.
        tsallis_scale: a.
        tsallis_start: a₀.
        entropy_scale: b, above 0.
        entropy_start: b₀.
        truncation: the 12 of the truncated estimator; 0 truncates nothing.

    Example:
        >>> import fedbandits as fb
        >>> fb.FedFTRL("published", tsallis_start=0).tsallis_scale
        4.0

    Reference:
        Hu, Wang and Chen, ICLR 2026.
    """

    tsallis_scale: float
    tsallis_start: float
    entropy_scale: float
    entropy_start: float
    truncation: float
    # `set_up` takes these from the network; before that, they are those of one agent.
    size: float = field(default=1.0, repr=False)
    gap: float = field(default=1.0, repr=False)
    diameter: float = field(default=0.0, repr=False)
    hops: int = field(default=1, repr=False, metadata={"static": True})

    leaves: ClassVar[Mapping[str, Leaf]] = {
        "total": Leaf(kind="estimate", combine="average"),
        "difference": Leaf(kind="raw", combine="flood", one_hot=True),
    }
    # The scales are of 1/rates.
    tunable: ClassVar[Mapping[str, Tunable]] = {
        "entropy_scale": Tunable(0.0001, 10.0),
        "tsallis_scale": Tunable(0.0001, 10.0),
    }

    def __init__(
        self,
        constants: Constants = "experimental",
        *,
        tsallis_scale: float | None = None,
        tsallis_start: float | None = None,
        entropy_scale: float | None = None,
        entropy_start: float | None = None,
        truncation: float | None = None,
    ) -> None:
        if constants not in PRESETS:
            raise ValueError(
                f"constants must be 'experimental' or 'published', not {constants!r}; single ones "
                "can be given by name"
            )
        given = {
            "tsallis_scale": tsallis_scale,
            "tsallis_start": tsallis_start,
            "entropy_scale": entropy_scale,
            "entropy_start": entropy_start,
            "truncation": truncation,
        }
        for name, value in given.items():
            chosen = PRESETS[constants][name] if value is None else nonnegative(value, name)
            self._assign(**{name: chosen})
        if self.entropy_scale == 0:
            raise ValueError("entropy_scale must be above 0, since γ_t divides by it; not 0")

    def set_up(self, setting: Setting) -> Self:
        """Fill in N, 1 - σ2 and D of the network; without gossip they are those of one agent."""
        gossip = setting.gossip
        if gossip is None or gossip.silent or setting.agents == 1:
            return self.with_values(size=1.0, gap=1.0, diameter=0.0, hops=1)
        if gossip.gap == 0:
            raise ValueError(
                f"FedFTRL divides by the spectral gap 1 - σ2, which is 0 for {gossip.name}; take "
                "fb.gossip.max_degree(network)"
            )
        size, diameter = float(setting.agents), gossip.network.diameter
        hops = max(int(diameter), 1)
        return self.with_values(
            size=size, gap=float(gossip.gap), diameter=float(diameter), hops=hops
        )

    def rates(self, t: Array, like: Array) -> Rates:
        """Return 1/η_t, 1/γ_t and the smallest divisor of the estimator, for the arms of `like`."""
        xp = like.__array_namespace__()
        arms, size, diameter = like.shape[0], self.size, self.diameter
        t = xp.asarray(t, dtype=like.dtype)
        mixing = xp.minimum(xp.log(size * t), size**0.5) / self.gap + 2.0 + diameter
        tsallis = self.tsallis_scale * (size * t) ** 0.5
        tsallis = tsallis + self.tsallis_start * 169.0 * size**2 * diameter
        entropy = self.entropy_scale * size * (mixing * t / math.log(max(arms, 2))) ** 0.5
        start = 36.0 * diameter**2 * (arms - 1) ** (2 / 3) + 4.0 * mixing**2
        entropy = entropy + self.entropy_start * start
        return Rates(tsallis, entropy, self.truncation * size * mixing / entropy)

    def init(
        self,
        arms: int,
        agents: int,  # noqa: ARG002
        batch: tuple[int, ...] = (),
        dtype: DTypeLike = np.float32,
    ) -> FedFTRLState:
        """Return L̂_1 = 0."""
        zeros = np.zeros((arms, *batch), dtype)
        return FedFTRLState(zeros, zeros)

    def distribution(self, state: FedFTRLState, t: Array) -> Array:
        """Return the regularised leader with the rates of round t."""
        rates = self.rates(t, state.total)
        return regularised_leader(state.total, tsallis=rates.tsallis, entropy=rates.entropy)

    def update(
        self,
        state: FedFTRLState,  # noqa: ARG002
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> FedFTRLState:
        """Return L̂ ← Σ_u W_uv L̂^u + N ℓ̃ + the differences of D rounds ago."""
        xp = p.__array_namespace__()
        chosen = played(action, like=p)
        x = taken(p, action)
        cut = feedback / xp.maximum(x, self.rates(t, p).least)
        estimate = xp.where(chosen, self.size * cut, 0.0)
        return FedFTRLState(
            (received["total"] + estimate + received["difference"]).astype(p.dtype),
            xp.where(chosen, feedback / x - cut, 0.0).astype(p.dtype),
        )

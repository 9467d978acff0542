"""Randomised response: one noisy bit in place of a loss.

Everything that other agents see of an agent's losses is computed from one bit a round. The bit is
1 with a probability in [f, 1 - f], whatever the loss, so no loss makes any of it more than
(1 - f)/f times as likely as another loss does. f is never smaller than 1/(1 + e^ε) *as computed*:
it is a fraction of the numbers that can be drawn, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, ClassVar

from fedbandits.arrays import Array
from fedbandits.common import checks, streams
from fedbandits.simulation.condition import Condition

BITS = 23
"""Of a uniform number of the simulator in float32; those of float64 have more."""

LEAST = 1e-6
"""Of ε; f is below 1/2 then."""

_EXACTLY = Context(prec=60, Emin=-999_999_999, Emax=999_999_999)
"""Digits enough to know on which side of a whole number 2^64 / (1 + e^ε) lies."""


def flips(epsilon: float, bits: int) -> int:
    """Return the number of 2^bits equal cases in which a bit flips: 2^bits / (1 + e^ε), rounded up.

    Example:
        >>> flips(1.0, 8), 2**8 / (1 + math.e)
        (69, 68.8...)
        >>> flips(100.0, 8), flips(math.inf, 8)
        (1, 0)
    """
    if epsilon == math.inf:
        return 0
    odds = _EXACTLY.exp(Decimal(min(epsilon, 1e6)))  # 1e6 leaves one case, as all larger do
    share = _EXACTLY.divide(Decimal(2**bits), _EXACTLY.add(1, odds))
    return int(share.to_integral_value(ROUND_CEILING))


@dataclass(frozen=True)
class RandomisedResponse(Condition):
    """One bit in place of each loss: ε per round for the losses of one agent; arms are public.

    The algorithm sees b = Bernoulli(ℓ), flipped with probability f = 1/(1 + e^ε), and not ℓ.
    E b = f + ℓ/c with c = (e^ε + 1)/(e^ε - 1): differences of losses, and regret, shrink by c.

    The privacy is event level: it protects the loss of one agent in one round against all other
    agents together, who see all messages and arms. m rounds of one person have mε, so a whole
    history is practically unprotected. It works with every algorithm that learns from the arm it
    played.

    Args:
        epsilon: ε, 1e-6 or more; infinite for no guarantee.

    Attributes:
        flip: f, rounded up to a multiple of 2^-23, so that the odds of a bit never change by more
            than e^ε in float32 or float64.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.bernoulli([0.0, 1.0], horizon=100, agents=3)
        >>> blurred = fb.privacy.randomised_response(1.0)
        >>> fb.simulate(problem, fb.Exp3(), runs=2, privacy=blurred).guarantee
        'ε = 1 per round for the losses of one agent (event level); arms are public; holds even if
        all other agents collude'
    """

    name: ClassVar[str] = "privacy"

    epsilon: float
    flip: float = field(init=False, repr=False)

    @staticmethod
    def of(privacy: Any) -> RandomisedResponse:
        """Return the condition that a user gives as `privacy`; reject all other values."""
        if not isinstance(privacy, RandomisedResponse):
            raise TypeError(
                f"privacy must be one such as fb.privacy.randomised_response(1.0), not {privacy!r}"
            )
        return privacy

    def bind(self, simulation: Any) -> RandomisedResponse:
        """Return the condition; reject algorithms that see more than a bit can hide."""
        if simulation.algorithm.feedback == "full":
            raise ValueError(
                f"{type(simulation.algorithm).__name__} sees the losses of all arms, and one noisy "
                "bit a round cannot stand for them; take an algorithm with bandit feedback, such "
                "as fb.FedExp3()"
            )
        return self

    def __post_init__(self) -> None:
        if not checks.number(self.epsilon, "epsilon") >= LEAST:
            raise ValueError(
                f"epsilon must be at least {LEAST:g}, not {self.epsilon}: with less the bit is a "
                "fair coin, and nothing is learnt"
            )
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "flip", flips(self.epsilon, BITS) / 2**BITS)

    @property
    def cost(self) -> float:
        """The factor c: regret on the bits is regret on the losses divided by c."""
        return 1 / (1 - 2 * self.flip)

    def respond(self, loss: Array, uniform: Array) -> Array:
        """Return the bit: 1 where `uniform` is below f + ℓ/c.

        That is f for ℓ = 0 and 1 - f for ℓ = 1 without rounding, both being multiples of 2^-23;
        in between rounding keeps the order, so that no loss has a threshold outside of these.
        """
        xp = loss.__array_namespace__()
        flip = xp.asarray(self.flip, dtype=loss.dtype)
        return (uniform < flip + (1 - 2 * flip) * loss).astype(loss.dtype)

    def draw(self, seed: Array, t: Array, shape: tuple[int, int], dtype: Any) -> Array:
        """Return the uniforms behind the bits of round t, `[R, N]`."""
        return streams.uniforms(streams.round_key(streams.RESPONSES, seed, t), shape, dtype)

    def feedback(self, loss: Array, drawn: Array) -> Array:
        """Return a bit instead of each loss."""
        return self.respond(loss, drawn)

    def describe(self) -> dict[str, str | float]:
        """Return the entry in the configuration of a result."""
        return {"name": "randomised_response", "epsilon": self.epsilon}


randomised_response = RandomisedResponse
"""What users write."""

_MEANING = (
    "per round for the losses of one agent (event level); arms are public; holds even if all other "
    "agents collude"
)


def guarantee(epsilon: float | None) -> str:
    """Return the guarantee for an agent's losses, with ε, unit and adversary.

    Example:
        >>> guarantee(None)
        'no guarantee'
    """
    if epsilon is None or epsilon == math.inf:
        return "no guarantee"
    return f"ε = {epsilon:g} {_MEANING}"


def guarantees(epsilons: Iterable[float | None]) -> str | None:
    """Return what ε means for several results that name theirs; None if none has an ε.

    Example:
        >>> guarantees([0.1, 1.0, None])
        'ε per round for the losses of one agent (event level); arms are public; holds even if all
        other agents collude'
    """
    found = {epsilon for epsilon in epsilons if epsilon is not None}
    if len(found) > 1:
        return f"ε {_MEANING}"
    return guarantee(found.pop()) if found else None

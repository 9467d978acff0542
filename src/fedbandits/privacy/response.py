"""Randomised response: one noisy bit instead of a loss."""

from __future__ import annotations

from dataclasses import dataclass

from fedbandits.arrays import Array
from fedbandits.common import checks

_GRID = 2.0**-23
"""Between two uniform numbers of the simulator in float32."""


@dataclass(frozen=True)
class RandomisedResponse:
    """b = Bernoulli(ℓ), flipped with probability 1/(1 + e^ε): all that an algorithm sees of ℓ.

    E b = 1/(e^ε + 1) + ℓ/c with c = (e^ε + 1)/(e^ε - 1), so differences of losses shrink by c.

    Attributes:
        epsilon: ε.
    """

    epsilon: float

    def respond(self, loss: Array, uniform: Array) -> Array:
        """The bit: 1 where `uniform` is below 1/(e^ε + 1) + ℓ/c."""
        xp = loss.__array_namespace__()
        flip = 1 / (1 + xp.exp(xp.asarray(self.epsilon, dtype=loss.dtype)))
        flip = xp.ceil(flip / _GRID) * _GRID  # upwards: never less noise than ε asks for
        return (uniform < flip + (1 - 2 * flip) * loss).astype(loss.dtype)


def randomised_response(epsilon: float) -> RandomisedResponse:
    """ε-differential privacy for the losses of one agent in one round; arms stay public.

    Args:
        epsilon: ε, positive; infinite for none.
    """
    if not checks.number(epsilon, "epsilon") > 0:
        raise ValueError(f"epsilon must be positive, not {epsilon}")
    return RandomisedResponse(float(epsilon))

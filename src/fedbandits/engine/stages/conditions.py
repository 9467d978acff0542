"""What agents meet beside the losses: their links, liars among them, losses that are blurred."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedbandits.algorithms.base import Leaf
from fedbandits.arrays import Array
from fedbandits.attacks import Attack, lie_about
from fedbandits.engine.mixing.mixer import Mixer
from fedbandits.privacy.response import RandomisedResponse


@dataclass(frozen=True)
class Conditions:
    """What holds in every round.

    Attributes:
        mixer: how messages are combined.
        privacy: how losses are blurred before an algorithm sees them; None where they are not.
        liars: who sends something else than it should, in order.
        attacks: what each of them sends instead.
    """

    mixer: Mixer
    privacy: RandomisedResponse | None = None
    liars: tuple[int, ...] = field(default=(), metadata={"static": True})
    attacks: tuple[Attack, ...] = ()

    def told(self, leaf: Leaf, x: Array, t: Array) -> Array:
        """What agents tell their neighbours of a leaf that is x, `[M, R, N]`."""
        for v, attack in zip(self.liars, self.attacks, strict=True):
            x = x.at[..., v].set(lie_about(attack, leaf.attracts, x[..., v], t))
        return x

    def honest(self, x: Array) -> Array:
        """The honest agents' part of x, agents being its last axis."""
        if not self.liars:
            return x
        return x[..., np.setdiff1d(np.arange(x.shape[-1]), self.liars)]

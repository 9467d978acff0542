"""The stages of a round that stand between an agent and the others: exchange and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbandits.algorithms.base import AnyAlgorithm, Leaf
from fedbandits.arrays import Array
from fedbandits.engine.mixing.mixer import Mixer
from fedbandits.simulation.condition import HOOKS, Condition, overrides


@dataclass(frozen=True)
class Stages:
    """The exchange of messages and the conditions that wrap it, in every round.

    Attributes:
        mixer: the exchange: how messages are combined.
        conditions: the conditions, the first one innermost.
    """

    mixer: Mixer
    conditions: tuple[Condition, ...] = ()

    @property
    def hooks(self) -> frozenset[str]:
        """The hooks that some condition overrides: executors compare them with what they play."""
        return frozenset(hook for hook in HOOKS if self._with(hook))

    @property
    def excluded(self) -> tuple[int, ...]:
        """The agents that are left out of everything recorded, in order."""
        return tuple(sorted({v for _, each in self._with("excluded") for v in each.excluded}))

    def _with(self, hook: str) -> list[tuple[int, Condition]]:
        """Return the conditions that override a hook, with their places."""
        return [(j, each) for j, each in enumerate(self.conditions) if overrides(each, hook)]

    def draw(self, seed: Array, t: Array, shape: tuple[int, int], dtype: Any) -> tuple[Any, ...]:
        """Return the randomness of each condition in round t."""
        return tuple(each.draw(seed, t, shape, dtype) for each in self.conditions)

    def outgoing(self, leaf: Leaf, message: Array, t: Array) -> Array:
        """Return what agents send of a leaf; the very same array if no condition changes it."""
        for _, condition in self._with("outgoing"):
            message = condition.outgoing(leaf, message, t)
        return message

    def feedback(self, loss: Array, drawn: tuple[Any, ...]) -> Array:
        """Return the losses that algorithms see."""
        for place, condition in self._with("feedback"):
            loss = condition.feedback(loss, drawn[place])
        return loss

    def learned(
        self,
        algorithm: AnyAlgorithm,
        before: Any,
        received: dict[str, Array],
        after: Any,
        drawn: tuple[Any, ...],
    ) -> Any:
        """Return the state after the round."""
        for place, condition in self._with("learned"):
            heard = algorithm.hear(before, received)
            after = condition.learned(algorithm, heard, after, drawn[place])
        return after

    def recorded(self, x: Array) -> Array:
        """Return the part of x of agents that are recorded, agents being its last axis."""
        excluded = self.excluded
        if not excluded:
            return x
        return x[..., np.setdiff1d(np.arange(x.shape[-1]), excluded)]

"""Conditions: what changes a plain round, such as private losses or agents that lie.

A condition wraps stages of the round through hooks. The engine leaves a hook that a condition does
not override out of the compiled program, so a plain round pays for none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from fedbandits.arrays import Array
from fedbandits.common.describe import describe

HOOKS = ("draw", "outgoing", "feedback", "learned", "excluded")
"""The methods of a condition that the engine calls in a round."""


class Condition:
    """Base class of conditions: frozen dataclasses whose numbers JAX can trace.

    A new condition is a subclass that overrides some hooks. `Simulation(conditions=...)` takes it
    as it is.

    Attributes:
        name: the condition's key in a configuration file and in the description of a result.
    """

    name: ClassVar[str]

    def bind(self, simulation: Any) -> Self:  # noqa: ARG002
        """Return the condition for a `Simulation`; reject simulations that it does not fit."""
        return self

    def check_messages(self, message: Mapping[str, Array]) -> None:
        """Reject messages that the condition does not fit, `[M, R, N]` by leaf."""

    def describe(self) -> Any:
        """Return the condition as plain data that JSON can hold: its fields by default."""
        return describe(self)

    def draw(self, seed: Array, t: Array, shape: tuple[int, int], dtype: Any) -> Any:
        """Return the condition's randomness of round t: a function of these arguments alone.

        Take the key `streams.round_key(streams.named(self.name), seed, t)`, so that no other part
        of the round draws the same numbers.

        Args:
            seed: the seed of the agents' randomness.
            t: the round.
            shape: R and N.
            dtype: the type of the state.
        """

    def outgoing(self, leaf: Any, message: Array, t: Array) -> Array:  # noqa: ARG002
        """Return what agents send of a `Leaf` whose true value is `message`, `[M, R, N]`."""
        return message

    def feedback(self, loss: Array, drawn: Any) -> Array:  # noqa: ARG002
        """Return the losses that algorithms see, `[R, N]`; `drawn` is from `draw`."""
        return loss

    def learned(
        self,
        algorithm: Any,  # noqa: ARG002
        heard: Any,  # noqa: ARG002
        after: Any,
        drawn: Any,  # noqa: ARG002
    ) -> Any:
        """Return the state after the round.

        Args:
            algorithm: the algorithm, set up.
            heard: the state of agents that heard their neighbours and learned nothing else.
            after: the state after the algorithm's update.
            drawn: the randomness from `draw`.
        """
        return after

    @property
    def excluded(self) -> tuple[int, ...]:
        """The agents that are left out of everything recorded."""
        return ()


def overrides(condition: Condition, hook: str) -> bool:
    """Return whether a condition overrides a hook."""
    return getattr(type(condition), hook) is not getattr(Condition, hook)

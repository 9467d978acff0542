"""Conditions: what changes a plain round, such as private losses or agents that lie.

A condition wraps stages of the round. Each hook has a default that changes nothing, and the engine
leaves a hook that a condition does not override out of the compiled program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from .simulation import Simulation


class Condition:
    """Base class of conditions: frozen dataclasses whose numbers JAX can trace.

    Attributes:
        name: the condition's key in a configuration file and in the description of a result.
    """

    name: ClassVar[str]

    def bind(self, simulation: Simulation) -> Self:  # noqa: ARG002
        """Return the condition for this simulation; reject simulations that it does not fit."""
        return self

    def describe(self) -> Any:
        """Return the condition as plain data."""
        raise NotImplementedError

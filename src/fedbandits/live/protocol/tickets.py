"""A choice that waits for its loss, and the number it was drawn with."""

from __future__ import annotations

import hashlib

import msgspec

EVENT_LENGTH = 200
"""Letters that an application's own name for a choice may have."""


class ChoiceError(ValueError):
    """A choice that cannot be made as it is asked for; says why."""


class ConflictingChoiceError(ChoiceError):
    """The same event was chosen for before, among other arms."""


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """What `choose` gives.

    Attributes:
        id: names the choice when its loss is observed.
        arm: what to play.
        probability: with which it was drawn.
        event: the application's own name for the choice, if it gave one.
        would: the arm that was drawn, where a baseline is played instead.
    """

    id: str
    arm: str
    probability: float
    event: str | None = None
    would: str | None = None


class OpenTicket(msgspec.Struct, frozen=True, gc=False):
    """A choice that waits for its loss.

    Attributes:
        id: names the choice when its loss is observed.
        arm: what was to be played.
        probability: with which it was drawn.
        age: seconds since then.
    """

    id: str
    arm: str
    probability: float
    age: float


def uniform(seed: bytes, t: int) -> float:
    """The number in [0, 1) from which the arm of round t is drawn: a keyed hash of t.

    So a choice is a function of the seed and its number: after a crash the agent plays what it
    would have played. Who has not the seed cannot foresee it.

    Example:
        >>> uniform(b"seed", 1) == uniform(b"seed", 1) != uniform(b"seed", 2)
        True
    """
    digest = hashlib.blake2b(t.to_bytes(8, "little"), key=seed, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

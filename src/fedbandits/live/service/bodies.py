"""What is sent to the service and what it answers; anything else is refused."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from fedbandits.live.tickets import EVENT_LENGTH

from .refusals import RefusalError

T = TypeVar("T")

Event = Annotated[str, msgspec.Meta(min_length=1, max_length=EVENT_LENGTH)]
"""An application's own name for a choice."""

Values = float | list[float] | dict[str, float]
"""Of the arm played; of all arms, in order or by name, where the algorithm learns from all."""


class Choose(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to choose from.

    Attributes:
        allowed: the arms that can be played now; all if left out.
        event: a name of your own: the same again gives the same ticket.
    """

    allowed: list[str] | None = None
    event: Event | None = None


class Chosen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A choice, which is on disk.

    Attributes:
        ticket: names the choice when its loss is observed.
        arm: what to play.
        probability: with which it was drawn.
        event: your own name for it, if you gave one.
        would: what the agent would have played, where a baseline is played instead.
    """

    ticket: str
    arm: str
    probability: float
    event: str | None = None
    would: str | None = None


class Observe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a choice has led to: of one ticket or event, one loss or reward.

    Attributes:
        ticket: as it was given out.
        event: instead of the ticket.
        loss: smaller is better.
        reward: larger is better.
    """

    ticket: str | None = None
    event: Event | None = None
    loss: Values | None = None
    reward: Values | None = None

    def __post_init__(self) -> None:
        if (self.ticket is None) == (self.event is None):
            raise ValueError("give `ticket` or `event`, one of the two")
        if (self.loss is None) == (self.reward is None):
            raise ValueError("give `loss` or `reward`, one of the two")


class Observed(msgspec.Struct, frozen=True):
    """The observation is on disk, and counts once."""

    counted: bool = True


class Health(msgspec.Struct, frozen=True):
    """The agent runs, and its store works."""

    running: bool = True


encode = msgspec.json.Encoder().encode


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """A body, checked."""
    if not body:
        raise RefusalError("malformed", "the body is empty; send JSON, such as {}")
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise RefusalError("malformed", str(error)) from None


def plain(body: Any) -> bytes:
    """An answer as it is sent."""
    return encode(body)

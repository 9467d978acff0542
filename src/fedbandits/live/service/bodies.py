"""The bodies of requests and responses; every other body is rejected."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from fedbandits.live.protocol.tickets import EVENT_LENGTH

from .refusals import RefusalError

T = TypeVar("T")

Event = Annotated[str, msgspec.Meta(min_length=1, max_length=EVENT_LENGTH)]
"""An application's own identifier of a choice."""

Values = float | list[float] | dict[str, float]
"""The played arm's value; all values, in order or by name, if the algorithm learns from all."""


class Choose(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for an arm.

    Attributes:
        allowed: Names of the arms that may be played now; all arms if absent.
        event: Your own identifier of the choice. Repeating it returns the same ticket.
    """

    allowed: list[str] | None = None
    event: Event | None = None


class Chosen(msgspec.Struct, frozen=True):
    """A choice. It was on disk before this response.

    Attributes:
        ticket: The identifier that `observe` takes.
        arm: The arm to play.
        probability: The probability with which the arm was drawn.
        event: Your own identifier, if the request contained one.
        would: The arm that the agent drew. Present only if the agent plays a baseline instead.
    """

    ticket: str
    arm: str
    probability: float
    event: str | msgspec.UnsetType = msgspec.UNSET
    would: str | msgspec.UnsetType = msgspec.UNSET


class Observe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An observation: one ticket or event, with one loss or reward.

    Attributes:
        ticket: The ticket from the response of `choose`.
        event: Your own identifier of the choice, instead of the ticket.
        loss: The loss; smaller is better.
        reward: The reward, instead of the loss; larger is better.
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
    """An observation was accepted. It was on disk before this response.

    Attributes:
        counted: Always true. The agent counts repeated observations once.
    """

    counted: bool


class Health(msgspec.Struct, frozen=True):
    """The agent is healthy: it runs, and its store works.

    Attributes:
        running: Always true. An agent that does not run responds with status 503.
    """

    running: bool


encode = msgspec.json.Encoder().encode


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode and validate a body."""
    if not body:
        raise RefusalError("malformed", "the body is empty; send JSON, such as {}")
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise RefusalError("malformed", str(error)) from None

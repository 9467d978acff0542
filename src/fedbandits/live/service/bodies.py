"""Bodies of requests and responses: their schemas, and how they are read and sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from fedbandits.live.protocol.tickets import EVENT_LENGTH

from .refusals import RefusalError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

T = TypeVar("T")

BODY_BYTES = 65_536
"""The largest body that the service reads."""

Headers = list[tuple[bytes, bytes]]

ALWAYS: Headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
JSON: Headers = [(b"content-type", b"application/json"), *ALWAYS]

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


class DisconnectedError(Exception):
    """The client closed the connection before the end of its request."""


def header(scope: Scope, name: bytes) -> bytes:
    """Return the first header of this name; empty if there is none."""
    return next((value for each, value in scope["headers"] if each == name), b"")


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Return the whole body, which must be declared as JSON: HTML forms cannot do that."""
    declared = header(scope, b"content-type").partition(b";")[0].strip().lower()
    if declared != b"application/json":
        raise RefusalError("content_type", "send the header Content-Type: application/json")
    length = header(scope, b"content-length")
    size = int(length) if length.isdigit() else 0
    body = b""
    more = True
    while True:
        # A body that declares a size over the limit is rejected before it arrives.
        if max(size, len(body)) > BODY_BYTES:
            raise RefusalError("too_large", f"a body has at most {BODY_BYTES:,} bytes")
        if not more:
            return body
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        body += message.get("body", b"")
        more = message.get("more_body", False)


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode and validate a body."""
    if not body:
        raise RefusalError("malformed", "the body is empty; send JSON, such as {}")
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise RefusalError("malformed", str(error)) from None


async def respond(send: Send, body: bytes, headers: Headers = JSON, status: int = 200) -> None:
    """Send a whole response."""
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers + length})
    await send({"type": "http.response.body", "body": body})

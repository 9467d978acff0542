"""Refusals of requests: a status, a kind for programs and a sentence for people."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fedbandits.live.agent.group_commit import StoppedError
from fedbandits.live.protocol.observations import (
    ConflictingObservationError,
    ExpiredTicketError,
    ObservationError,
    UnknownTicketError,
)
from fedbandits.live.protocol.tickets import ChoiceError, ConflictingChoiceError


class RefusalKind(NamedTuple):
    """A kind of refusal.

    Attributes:
        status: the HTTP status.
        meaning: the description in the OpenAPI document.
    """

    status: int
    meaning: str


KINDS = {
    "malformed": RefusalKind(400, "The body is not the JSON that is asked for."),
    "unauthorised": RefusalKind(401, "The token is missing or wrong."),
    "cross_site": RefusalKind(403, "The request comes from another site's page."),
    "read_only": RefusalKind(403, "The token is read-only."),
    "not_found": RefusalKind(404, "There is nothing under this path."),
    "unknown_ticket": RefusalKind(404, "No such ticket or event, or it was closed long ago."),
    "method": RefusalKind(405, "The path takes another method."),
    "conflict": RefusalKind(
        409, "Another observation, or another choice, was made under this name."
    ),
    "expired": RefusalKind(410, "The loss came after the ticket's time, and is not counted."),
    "too_large": RefusalKind(413, "The body is over the limit."),
    "content_type": RefusalKind(415, "The body is not declared as application/json."),
    "misdirected": RefusalKind(421, "The Host header names another server."),
    "refused": RefusalKind(422, "An unknown arm, or a value out of range."),
    "too_many": RefusalKind(429, "More requests, or listeners, than the limit."),
    "internal": RefusalKind(500, "A mistake of the service; its log says more."),
    "stopped": RefusalKind(503, "The agent does not run, or could not save; nothing was counted."),
}


class RefusalError(Exception):
    """A request that the service refuses.

    Args:
        kind: one of `KINDS`.
        message: the reason, for people.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = KINDS[kind].status


class Failure(msgspec.Struct, frozen=True):
    """The body of every refusal.

    Attributes:
        error: The reason, as a sentence for people.
        kind: The kind of the refusal, for programs.
    """

    error: str
    kind: str


_OF_ERRORS: tuple[tuple[type[Exception], str], ...] = (
    (UnknownTicketError, "unknown_ticket"),
    (ExpiredTicketError, "expired"),
    (ConflictingObservationError, "conflict"),
    (ConflictingChoiceError, "conflict"),
    (ObservationError, "refused"),
    (ChoiceError, "refused"),
    (StoppedError, "stopped"),
)
"""Kinds of the agent's errors; subclasses come before their base classes."""


def refusal_of(error: Exception) -> RefusalError | None:
    """Return the refusal that reports an error of the agent; None for a mistake of the service."""
    return next(
        (RefusalError(kind, str(error)) for cls, kind in _OF_ERRORS if isinstance(error, cls)), None
    )

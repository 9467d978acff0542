"""What a request is refused for: a status, a kind for programs and a sentence for people."""

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


class Kind(NamedTuple):
    """A kind of refusal.

    Attributes:
        status: of HTTP.
        meaning: in the OpenAPI document.
    """

    status: int
    meaning: str


KINDS = {
    "malformed": Kind(400, "The body is not the JSON that is asked for."),
    "unauthorised": Kind(401, "The token is missing or wrong."),
    "cross_site": Kind(403, "The request comes from another site's page."),
    "read_only": Kind(403, "The token is read-only."),
    "not_found": Kind(404, "There is nothing under this path."),
    "unknown_ticket": Kind(404, "No such ticket or event, or it was closed long ago."),
    "method": Kind(405, "The path takes another method."),
    "conflict": Kind(409, "Another observation, or another choice, was made under this name."),
    "expired": Kind(410, "The loss came after the ticket's time, and is not counted."),
    "too_large": Kind(413, "The body is over the limit."),
    "content_type": Kind(415, "The body is not declared as application/json."),
    "misdirected": Kind(421, "The Host header names another server."),
    "refused": Kind(422, "An unknown arm, or a value out of range."),
    "too_many": Kind(429, "More requests, or listeners, than the limit."),
    "internal": Kind(500, "A mistake of the service; its log says more."),
    "stopped": Kind(503, "The agent does not run, or could not save; nothing was counted."),
}


class RefusalError(Exception):
    """A request that is not done.

    Args:
        kind: one of `KINDS`.
        message: for people.
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
"""From the particular to the general."""


def refusal(error: Exception) -> RefusalError | None:
    """What an error of the agent is to a client; None for one that is nobody's but ours."""
    for kind, name in _OF_ERRORS:
        if isinstance(error, kind):
            return RefusalError(name, str(error))
    return None

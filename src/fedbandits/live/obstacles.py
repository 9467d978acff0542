"""Why there is no link to a neighbour: logged once of each kind, and kept for whoever asks."""

from __future__ import annotations

import logging

_log = logging.getLogger("fedbandits.live")

MOST_TOLD = 200
"""Kinds that are logged: who knocks under ever new names or addresses fills no disk."""


class Obstacles:
    """What stands between one member and its neighbours.

    Args:
        name: of the member.

    Attributes:
        last: the last that was met.
        of: the last by neighbour, where it is known whose link it concerns.
    """

    def __init__(self, name: str) -> None:
        self.last: str | None = None
        self.of: dict[str, str] = {}
        self._name = name
        self._told: set[str] = set()

    def warn(self, what: str) -> None:
        """Log it, unless that was done before."""
        if what not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(what)
            _log.warning("%s: %s", self._name, what)

    def refused(self, what: str, neighbour: str | None = None) -> None:
        """A handshake has failed, here or at the other end."""
        self.last = what
        if neighbour is not None:
            self.of[neighbour] = what

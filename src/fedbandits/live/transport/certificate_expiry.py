"""When certificates expire: looked at while an agent runs, and warned of a month ahead."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.federation.keys import (
    KeysError,
    check_member,
    read_authorities,
    read_certificate,
    signer_of,
    stamp,
)

_log = limited_logger("fedbandits.live")

MONTH = 30 * 86_400.0
"""Seconds before the end from which on it is warned of."""

DAY = 86_400.0
"""Seconds between two warnings."""


class Expiries(NamedTuple):
    """When certificates cease to be valid, in seconds since 1970.

    Attributes:
        member: the agent's own.
        authority: that of the federation, without which no other counts.
    """

    member: float
    authority: float


class ExpiryWatch:
    """Looks at the certificates of one member.

    Args:
        keys: the folder with ca.pem, cert.pem and key.pem.
        name: of the member.
    """

    def __init__(self, keys: Path, name: str) -> None:
        self._keys = keys
        self._name = name
        self._seen: list[tuple[int, ...]] = []
        self._warned: dict[str, float] = {}
        self.expiries: Expiries | None = None
        """As of the last look; None before, and while there are no certificates to look at."""

    def look(self, now: float) -> Expiries | None:
        """Read what is new, and warn, once a day, of what expires within a month.

        Args:
            now: seconds since 1970.
        """
        self._read()
        for what, end in (self.expiries._asdict() if self.expiries else {}).items():
            if end - now < MONTH and now - self._warned.get(what, -DAY) >= DAY:
                self._warned[what] = now
                _log.warning("%s: %s", self._name, _warning(what, end, end - now))
        return self.expiries

    def _read(self) -> None:
        """Certificates that do not fit are not taken by agents, which go on with those before."""
        seen = stamp(self._keys)
        if seen == self._seen:
            return
        self._seen = seen
        with suppress(KeysError):
            if self.expiries is not None:
                check_member(self._keys, self._name)
            member = read_certificate(self._keys / "cert.pem")
            if (authority := signer_of(member, read_authorities(self._keys))) is not None:
                ends = (each.not_valid_after_utc.timestamp() for each in (member, authority))
                self.expiries = Expiries(*ends)


def day(time: float) -> str:
    """The day of a time, in UTC.

    Example:
        >>> day(86_400)
        '1970-01-02'
    """
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}"


def _warning(what: str, end: float, left: float) -> str:
    whose = "its certificate" if what == "member" else "the certificate of the authority"
    when = f"expires on {day(end)}, in {left / DAY:.0f} days"
    if left <= 0:
        when = f"expired on {day(end)}"
    remedy = (
        "renew it with fedbandits live keys --renew"
        if what == "member"
        else "make a new authority, and give all members new keys"
    )
    return f"{whose} {when}; {remedy}"

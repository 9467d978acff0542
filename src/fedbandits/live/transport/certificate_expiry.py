"""The expiry of certificates, and warnings a month ahead."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fedbandits.common.log_limit import limited_logger

_log = limited_logger("fedbandits.live")

DAY = 86_400.0
"""Seconds between two warnings."""

MONTH = 30 * DAY
"""Seconds before the expiry when warnings begin."""


class Expiries(NamedTuple):
    """When certificates expire, in seconds since 1970.

    Attributes:
        member: the agent's own certificate.
        authority: the certificate of the authority that signed it.
    """

    member: float
    authority: float


class ExpiryWatch:
    """Reads the expiry of one member's certificates, and logs warnings.

    Args:
        keys: the folder with ca.pem, cert.pem and key.pem.
        name: of the member.
    """

    def __init__(self, keys: Path, name: str) -> None:
        self._keys = keys
        self._name = name
        self._states: list[tuple[int, ...]] = []
        self._warned: dict[str, float] = {}
        self.expiries: Expiries | None = None
        """As of the last check; None before, and while there are no certificates."""

    def check(self, now: float) -> Expiries | None:
        """Read files that changed, and warn once a day within the last month.

        Args:
            now: seconds since 1970.
        """
        self._read()
        for what, end in (self.expiries._asdict() if self.expiries else {}).items():
            if end - now < MONTH and now - self._warned.get(what, -DAY) >= DAY:
                self._warned[what] = now
                _log.warning("%s: %s", self._name, _warning(what, end, now))
        return self.expiries

    def _read(self) -> None:
        """Read new certificates. Agents keep the previous ones if the new ones do not fit."""
        # Here, so that agents without keys do not need the package cryptography.
        from fedbandits.live.federation.certificates import KeysError, read_certificate, signer_of
        from fedbandits.live.federation.keys import check_member, file_states, read_authorities

        states = file_states(self._keys)
        if states == self._states:
            return
        self._states = states
        with suppress(KeysError):
            if self.expiries is not None:
                check_member(self._keys, self._name)
            member = read_certificate(self._keys / "cert.pem")
            if (authority := signer_of(member, read_authorities(self._keys))) is not None:
                ends = (each.not_valid_after_utc.timestamp() for each in (member, authority))
                self.expiries = Expiries(*ends)


def expiry_text(end: float, now: float) -> str:
    """Return when a certificate expires, as words that follow its name.

    Example:
        >>> expiry_text(3 * DAY, DAY), expiry_text(DAY, DAY)
        ('expires on 1970-01-04, in 2 days', 'expired on 1970-01-02')
    """
    day = f"{datetime.fromtimestamp(end, UTC):%Y-%m-%d}"
    return (
        f"expired on {day}" if end <= now else f"expires on {day}, in {(end - now) / DAY:,.0f} days"
    )


def _warning(what: str, end: float, now: float) -> str:
    whose, remedy = "its certificate", "renew it with fedbandits live keys --renew"
    if what == "authority":
        whose = "the certificate of the authority"
        remedy = "make a new authority, and give all members new keys"
    return f"{whose} {expiry_text(end, now)}; {remedy}"

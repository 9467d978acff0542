"""The credentials of one member: its certificate, its key and the authorities that it trusts."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.live.federation.certificates import read_certificate
from fedbandits.live.federation.keys import check_member, file_states, read_authorities

if TYPE_CHECKING:
    from cryptography import x509


class Credentials:
    """The files in a member's folder of keys, and the TLS contexts made of them.

    Args:
        folder: with ca.pem, cert.pem and key.pem.
        name: of the member.

    Attributes:
        authorities: the certificates in ca.pem.
        certificate: the member's own.
        server: the TLS context of links that neighbours open.
        client: the TLS context of links that this member opens.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.authorities: list[x509.Certificate] = []
        self.certificate: x509.Certificate | None = None
        self.server: ssl.SSLContext
        self.client: ssl.SSLContext
        self._loaded: list[tuple[int, ...]] = []
        self._seen: list[tuple[int, ...]] = []

    def load(self) -> None:
        """Read all files. Authorities take effect even if another file does not fit.

        Raises:
            KeysError: if a file is missing, malformed, expired or of another member.
        """
        states = file_states(self.folder)  # first: a later change then causes another reload
        self.authorities = read_authorities(self.folder)
        check_member(self.folder, self.name)
        self.server = _context(self.folder, ssl.PROTOCOL_TLS_SERVER)
        self.client = _context(self.folder, ssl.PROTOCOL_TLS_CLIENT)
        self.certificate = read_certificate(self.folder / "cert.pem")
        self._loaded = self._seen = states

    def changed(self) -> bool:
        """Return whether the files changed since they were loaded, and stayed so for two calls.

        A change between two calls may be an operator who is still copying files.
        """
        before, self._seen = self._seen, file_states(self.folder)
        return before == self._seen != self._loaded


def _context(keys: Path, side: int) -> ssl.SSLContext:
    """Return a context of TLS 1.3 that requires a certificate of a trusted authority."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(keys / "ca.pem")
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # a resumed session would not show its certificate again
    return context

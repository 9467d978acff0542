"""One connection between two neighbours: messages in a TLS stream, in both directions.

A message is its length in four bytes, then its content. An empty message is a heartbeat.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING

from fedbandits.live.federation.certificates import decode_certificate, holder_of, trusted_until

if TYPE_CHECKING:
    from cryptography import x509

    from .tls_transport import TlsTransport

MOST_BYTES = 2**19
"""The largest message. A link that announces a larger one is cut before the message is read."""

MOST_UNSENT = 2**20
"""The most bytes that wait on a link; further messages are dropped."""

MOST_TAKEN = 20_000
MOST_TAKEN_BYTES = 2**25
"""The most messages, heartbeats included, and bytes that are read from a link within a second.

Beyond it the link is not read for a second, which bounds the time that a flood costs.
"""

CUT_OFF = (
    "it closed the link before the first message: its file does not have this member, or it does "
    "not trust the certificate"
)


class Link(asyncio.Protocol):
    """One connection, opened by either end.

    Args:
        owner: the transport that receives the messages.
        expected: the member that must be at the other end; None for any neighbour.

    Attributes:
        peer: the member that the certificate of the other end names.
        heard: whether any bytes were received.
        gone: set when the link is closed.
    """

    def __init__(self, owner: TlsTransport, expected: str | None = None) -> None:
        self.expected = expected
        self.peer: str | None = None
        self.heard = False
        self.gone = asyncio.Event()
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._heard_at = time.monotonic()
        self._own_certificate = owner.credentials.certificate
        self._certificate: x509.Certificate | None = None
        self._distrusted: str | None = None
        self._expires = 0.0
        self._taken = self._taken_bytes = 0
        self._since = self._heard_at
        self._paused: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Identify the other end, after the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self._certificate = decode_certificate(certificate)
        self.peer = holder_of(self._certificate)
        self.verify()
        if self._owner.opened(self):
            self.send(b"")
        else:
            self.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the link to the transport."""
        if self.expected is not None and not self.heard and self._transport is not None:
            # With TLS 1.3, the handshake of the opening end succeeds before the other end has
            # verified its certificate.
            error = exc if isinstance(exc, ssl.SSLError) else ConnectionError(CUT_OFF)
            self._owner.refuse(error, self.expected)
        if self._paused is not None:
            self._paused.cancel()
        elif self._received:
            self._owner.counts["half"] += 1
        self._owner.closed(self)
        self._transport = None
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        """Put complete messages into the inbox."""
        if self._transport is None:  # the link was cut in the meantime
            return
        self._heard_at = time.monotonic()
        self.heard = True
        self._received += data
        if self._heard_at - self._since > 1:
            self._reset_counts()
        self._take()

    def _take(self) -> None:
        inbox, received, start = self._owner.inbox, self._received, 0
        while len(received) - start >= 4 and inbox is not None:
            size = int.from_bytes(received[start : start + 4], "big")
            if size > MOST_BYTES:
                self._owner.counts["oversized"] += 1
                self.cut()
                received.clear()
                return
            end = start + 4 + size
            if len(received) < end:
                break
            if self._taken >= MOST_TAKEN or self._taken_bytes >= MOST_TAKEN_BYTES:
                self._pause()
                break
            self._taken += 1
            self._taken_bytes += size
            if size:
                inbox.put(str(self.peer), bytes(received[start + 4 : end]))
            start = end
        del received[:start]

    def _pause(self) -> None:
        """Stop reading for a second."""
        if self._transport is not None and self._paused is None:
            self._owner.counts["paused"] += 1
            self._transport.pause_reading()
            self._paused = asyncio.get_running_loop().call_later(1.0, self._resume)

    def _reset_counts(self) -> None:
        self._since, self._taken, self._taken_bytes = time.monotonic(), 0, 0

    def _resume(self) -> None:
        self._paused = None
        if self._transport is not None:
            self._reset_counts()
            self._take()
            if self._paused is None and self._transport is not None:
                self._transport.resume_reading()

    def send(self, message: bytes) -> bool:
        """Send a message; return False if too many bytes already wait."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > MOST_UNSENT:
            return False
        transport.write(len(message).to_bytes(4, "big") + message)
        return True

    def verify(self) -> None:
        """Check the certificates of both ends against the authorities that are trusted now."""
        authorities, self._distrusted = self._owner.credentials.authorities, None
        assert self._own_certificate is not None
        assert self._certificate is not None
        if trusted_until(self._own_certificate, authorities) is None:
            self._distrusted = f"the certificate that {self._owner.name} showed"
        until = trusted_until(self._certificate, authorities)
        if until is None:
            self._distrusted = "its certificate"
        else:
            self._expires = until

    def must_end(self) -> tuple[str, str] | None:
        """Return why the link must end, as a name in COUNTS and in words; None if it may stay."""
        if self._distrusted is not None:
            return "untrusted", f"no authority in ca.pem has signed {self._distrusted}"
        if time.time() > self._expires:
            return "expired", "its certificate, or that of its authority, has expired"
        if time.monotonic() - self._heard_at > self._owner.silence:
            return "silent", f"no message for {self._owner.silence:g} s"
        return None

    def cut(self) -> None:
        """Close the link at once."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

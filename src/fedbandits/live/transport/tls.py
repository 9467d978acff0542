"""Messages over TLS 1.3, from peer to peer: no broker, no discovery, nobody but neighbours.

Both ends of a link show a certificate of the federation's authority, and no other authority is
believed. A message is from whom the certificate of its link names. Who is no neighbour is cut off
as soon as its certificate is seen, and every refusal is counted.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.federation.keys import (
    KeysError,
    check_member,
    read_authorities,
    read_certificate,
    stamp,
)
from fedbandits.live.protocol.edge import owns
from fedbandits.live.transport.inbox import Inbox

from .interface import Receive
from .link import MOST_BYTES, Link
from .listener import Door

if TYPE_CHECKING:
    from cryptography import x509

_log = limited_logger("fedbandits.live")

HANDSHAKE = 5.0
"""Seconds for a handshake."""

CONNECT = 10.0
"""Seconds for a link to be opened, handshake and all. Left to TCP alone, one to a machine that was
away for long is tried again after a minute."""

HEARTBEAT = 2.0
SILENCE = 10.0
"""Seconds between two signs of life, and without one until a link counts as broken."""

RETRY = (0.2, 4.0)
"""Seconds between two attempts to open a link, at first and at most."""

CHECK = 5.0
"""Seconds between two looks at the certificate."""

MISSED = 30.0
"""Seconds after the start until neighbours without a link are logged, with the reason."""

COUNTS = {
    "sent": "messages",
    "unsent": "messages for which a link was too busy",
    "received": "messages",
    "dropped": "messages of a flood",
    "paused": "times that a link was not read for a second, for a flood",
    "refused": "handshakes, by either end",
    "strangers": "links of members that are no neighbours, or not whom they should be",
    "oversized": "links cut for a message that is too large",
    "half": "links that ended in the middle of a message",
    "silent": "links cut for silence",
    "expired": "links cut because the other end's certificate, or the authority's, has expired",
    "untrusted": "links cut because no authority in ca.pem has signed the certificate of one end",
    "reloads": "of the own certificate",
}
"""What is counted."""


class TlsTransport:
    """Carries messages between neighbours on a network.

    Of two neighbours the one that owns their edge opens the link, unless the other cannot be
    reached. A link that breaks is opened again.

    Args:
        name: of the agent, as its certificate names it.
        listen: "host:port" where neighbours reach it; None if they cannot (it then opens all
            links).
        neighbours: "host:port" of each; None for one that cannot be reached.
        keys: folder with ca.pem, cert.pem and key.pem. New files are used without a restart. A
            link stays open if an authority in ca.pem has signed the certificates of its two ends,
            and is cut otherwise.
        check: seconds between two looks at the certificate.
        silence: seconds without a sign of life until a link counts as broken.

    Attributes:
        counts: what happened, by the names in COUNTS.
        last_refusal: why the last handshake was refused, or the last link was cut.
        authorities: the certificates in ca.pem.
        certificate: the member's own.
    """

    def __init__(
        self,
        name: str,
        listen: str | None,
        neighbours: Mapping[str, str | None],
        keys: str | Path,
        *,
        check: float = CHECK,
        silence: float = SILENCE,
    ) -> None:
        self.name = name
        self.listen = listen
        self.neighbours = reachable(name, listen, neighbours)
        self.keys = Path(keys)
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self.silence = silence
        self.inbox: Inbox | None = None
        self._check = check
        self._links: dict[str, Link] = {}
        self._open: set[Link] = set()
        """Links of neighbours, and others that are not closed yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._door: Door | None = None
        self.last_refusal: str | None = None
        self.authorities: list[x509.Certificate] = []
        self.certificate: x509.Certificate | None = None
        self._obstacles: dict[str, str] = {}
        for address in self.neighbours.values():
            if address is not None:
                _host_and_port(address)

    async def start(self, receive: Receive) -> None:
        """Listen, open links, and hand over what arrives."""
        if self.inbox is not None:
            raise RuntimeError(f"the transport of {self.name} is running already")
        self._read_keys()
        if self.listen is not None:
            self._door = Door(
                await _listening(self.listen, self.name),
                lambda: Link(self),
                lambda: self._server,
                lambda error, address: self.refuse(error, None, address),
                HANDSHAKE,
            )
        self.inbox = Inbox(receive, self.counts)
        for neighbour, address in self.neighbours.items():
            if address is not None and opens(self.name, self.listen, neighbour, address):
                self._begin(self._keep_open(neighbour, address))
        self._begin(self._look_after())

    def send(self, to: str, message: bytes) -> None:
        """Send and forget: dropped if there is no link, or if it is busy."""
        if to not in self.neighbours:
            raise ValueError(f"{to!r} is no neighbour of {self.name!r}")
        if len(message) > MOST_BYTES:
            raise ValueError(f"a message of {len(message):,} bytes; {MOST_BYTES:,} are allowed")
        link = self._links.get(to)
        if link is not None:
            self.counts["sent" if link.send(message) else "unsent"] += 1

    async def stop(self) -> None:
        """Hand over nothing more, and close all links."""
        if self.inbox is not None:
            self.inbox.close()
            self.inbox = None
        if self._door is not None:
            self._door.close()
            await self._door.wait_closed()
            self._door = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        links = list(self._open)
        for link in links:
            link.cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDSHAKE):
                await asyncio.gather(*(link.gone.wait() for link in links))

    @property
    def linked(self) -> frozenset[str]:
        """Neighbours to which there is a link now."""
        return frozenset(self._links)

    def obstacle(self, neighbour: str) -> str | None:
        """Why there is no link to a neighbour now; None if there is one."""
        link = self._links.get(neighbour)
        if link is not None and link.heard:
            return None
        if neighbour not in self.neighbours:
            return "it was no neighbour when this agent started; restart the agent"
        if opens(self.name, self.listen, neighbour, self.neighbours[neighbour]):
            return self._obstacles.get(neighbour, "not opened yet")
        return self._obstacles.get(neighbour) or (
            f"waits for {neighbour} to open the link: its file may not have {self.name} yet, or it "
            f"does not reach {self.listen}"
        )

    # What links call

    def opened(self, link: Link) -> bool:
        """A handshake is done: keep the link of a neighbour, instead of the one before."""
        self._open.add(link)
        name = link.peer
        if self.inbox is None:
            return False
        if name is None or name not in self.neighbours or link.expected not in (None, name):
            self.counts["strangers"] += 1
            at = "" if link.expected is None else f" at the address of {link.expected}"
            what = f"a link of {name or 'nobody'}, who is no neighbour{at}"
            _log.warning("%s: %s", self.name, what)
            if link.expected is not None:
                self._obstacles[link.expected] = what
            return False
        if (why := link.over()) is not None:
            self._cut(link, *why)
            return False
        if link.expected is None:
            self._obstacles.pop(name, None)
        if (before := self._links.get(name)) is not None:
            before.cut()
        self._links[name] = link
        return True

    def closed(self, link: Link) -> None:
        """A link is gone."""
        self._open.discard(link)
        if link.peer is not None and self._links.get(link.peer) is link:
            del self._links[link.peer]

    def refuse(self, error: OSError, neighbour: str | None, address: str = "") -> None:
        """A handshake has failed, here or at the other end.

        Args:
            error: says why.
            neighbour: with whom; None if that is not known.
            address: of whoever knocked, if so.
        """
        self.counts["refused"] += 1
        who = f"from {address or 'nobody'}"
        if neighbour is not None:
            who = f"with {neighbour} at {self.neighbours[neighbour]}"
        what = f"the handshake {who} was refused: {_reason(error)}"
        self.last_refusal = what
        if neighbour is not None:
            self._obstacles[neighbour] = what
            _log.warning("%s: %s", self.name, what)
        elif isinstance(error, ssl.SSLError):  # not a client that only connects and leaves
            cause = f"{self.name}: a handshake from elsewhere: {error}"
            _log.warning("%s: %s", self.name, what, extra={"cause": cause})

    def _cut(self, link: Link, count: str, reason: str) -> None:
        """End a link that may not stay."""
        link.cut()
        self.counts[count] += 1
        what = f"the link to {link.peer} was cut: {reason}"
        self.last_refusal = self._obstacles[str(link.peer)] = what
        if count != "silent":
            _log.warning("%s: %s", self.name, what)

    # What runs all the time

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_open(self, neighbour: str, address: str) -> None:
        """Open the link to a neighbour whenever there is none."""
        host, port = _host_and_port(address)
        pause = RETRY[0]
        while True:
            try:
                async with asyncio.timeout(CONNECT):
                    _, link = await asyncio.get_running_loop().create_connection(
                        lambda: Link(self, expected=neighbour),
                        host,
                        port,
                        ssl=self._client,
                        server_hostname=host,
                        ssl_handshake_timeout=HANDSHAKE,
                    )
                await link.gone.wait()
                if link.heard:
                    pause = RETRY[0]
            except OSError as error:
                error.with_traceback(None)  # it refers to buffers of asyncio, in a cycle
                if isinstance(error, ssl.SSLError):
                    self.refuse(error, neighbour)
                else:
                    self._obstacles[neighbour] = f"no answer at {address}: {_reason(error)}"
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY[1])

    async def _look_after(self) -> None:
        """Use new keys, cut links that may not stay, and show signs of life on the others."""
        seen = self._taken
        began = looked = time.monotonic()
        missed = False
        while True:
            await asyncio.sleep(min(HEARTBEAT, self._check, self.silence / 4))
            if time.monotonic() - looked >= self._check:
                looked, before, seen = time.monotonic(), seen, stamp(self.keys)
                if before == seen != self._taken:  # the operator may still be copying files
                    self._take_new_keys()
            for link in list(self._links.values()):
                if (why := link.over()) is not None:
                    self._cut(link, *why)
                else:
                    link.send(b"")
            if not missed and time.monotonic() - began > MISSED:
                missed = True
                for neighbour in self.neighbours:
                    if (reason := self.obstacle(neighbour)) is not None:
                        _log.warning("%s: no link to %s: %s", self.name, neighbour, reason)

    def _take_new_keys(self) -> None:
        """Use the files that changed; those that do not fit are read again at the next check."""
        try:
            self._read_keys()
        except (KeysError, OSError) as error:
            _log.warning("%s still shows its old certificate: %s", self.name, error)
        else:
            self.counts["reloads"] += 1
            _log.info("%s uses its new keys", self.name)

    def _read_keys(self) -> None:
        read = stamp(self.keys)  # first: the next check then sees a change in the meantime
        # A removed authority loses its links even if another file does not fit.
        self.authorities = read_authorities(self.keys)
        for link in self._open:
            link.verify()
        check_member(self.keys, self.name)
        self._server, self._client = (
            _context(self.keys, side) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        )
        self.certificate = read_certificate(self.keys / "cert.pem")
        self._taken = read


def reachable(
    name: str, listen: str | None, neighbours: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Neighbours that can be reached, or can reach this one; refused if it is neither."""
    if name in neighbours:
        raise ValueError(f"{name!r} is no neighbour of itself")
    for neighbour, address in neighbours.items():
        if listen is None and address is None:
            raise ValueError(f"neither {name!r} nor {neighbour!r} can be reached by the other")
    return dict(neighbours)


def opens(name: str, listen: str | None, neighbour: str, address: str | None) -> bool:
    """Whether this end opens the link: of two that can, the one that owns their edge."""
    return address is not None and (listen is None or owns(name, neighbour))


def _reason(error: OSError) -> str:
    """Return the text of an error. Some that asyncio raises have no text."""
    if not str(error) and isinstance(error, TimeoutError):
        return f"timed out after {CONNECT:g} s"
    return str(error) or "the other end closed the connection"


def _context(keys: Path, side: int) -> ssl.SSLContext:
    """TLS 1.3, with a certificate of the federation's authority at both ends."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(keys / "ca.pem")
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # every link shows its certificate anew
    return context


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")  # as it is looked up: what cannot be is better refused now
        if not host or host[0] == "." or not port.isdecimal() or int(port) > 65535:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"an address is host:port, such as site3.example.org:7447, not {address!r}"
        ) from None
    return host, int(port)


async def _listening(address: str, name: str) -> socket.socket:
    host, port = _host_and_port(address)
    loop = asyncio.get_running_loop()
    try:
        [(family, *_, place), *_] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listening = socket.create_server(place[:2], family=family, backlog=128)
    except OSError as error:
        raise OSError(f"{name} cannot listen on {address}: {error}") from error
    return listening

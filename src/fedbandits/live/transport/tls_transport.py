"""A transport over TLS 1.3 from peer to peer, without a broker or discovery.

Both ends of a link show a certificate of the federation's authority; no other authority is trusted.
The sender of a message is the member that the certificate of its link names. Links of members that
are not neighbours are cut as soon as their certificate is known. Every refusal is counted.
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
from typing import Any

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.federation.certificates import KeysError
from fedbandits.live.protocol.edge import owns
from fedbandits.live.transport.inbox import Inbox

from .credentials import Credentials
from .interface import Receive
from .link import MOST_BYTES, Link
from .listener import TlsListener

_log = limited_logger("fedbandits.live")

HANDSHAKE = 5.0
"""Seconds for a handshake."""

CONNECT = 10.0
"""Seconds to open a link, including the handshake.

TCP alone would try to reach a machine that was away for long only once a minute.
"""

HEARTBEAT = 2.0
SILENCE = 10.0
"""Seconds between two heartbeats, and without any message until a link counts as broken."""

RETRY = (0.2, 4.0)
"""Seconds between two attempts to open a link, at first and at most."""

CHECK = 5.0
"""Seconds between two checks of the files of keys."""

MISSED = 30.0
"""Seconds after the start until neighbours without a link are logged, with the reason."""

COUNTS = {
    "sent": "messages",
    "unsent": "messages dropped because a link was too busy",
    "received": "messages",
    "dropped": "messages of a flood",
    "paused": "times that a link was not read for a second because of a flood",
    "refused": "handshakes, refused by either end",
    "strangers": "links of members that are not neighbours, or not the expected neighbour",
    "oversized": "links cut because of a message over the limit",
    "half": "links that ended in the middle of a message",
    "silent": "links cut for silence",
    "expired": "links cut because the other end's certificate, or the authority's, has expired",
    "untrusted": "links cut because no authority in ca.pem has signed the certificate of one end",
    "reloads": "of the own certificate",
}
"""The counters of a transport."""


class TlsTransport:
    """Carries messages between neighbours on a network.

    Of two neighbours, the owner of their edge opens the link, unless the other end cannot be
    reached. A link that breaks is opened again.

    Args:
        name: of the agent, as its certificate names it.
        listen: "host:port" where neighbours reach the agent; None if they cannot (the agent then
            opens all links).
        neighbours: "host:port" of each; None for a neighbour that cannot be reached.
        keys: folder with ca.pem, cert.pem and key.pem. New files are used without a restart. A
            link stays open if an authority in ca.pem has signed the certificates of both ends, and
            is cut otherwise.
        check: seconds between two checks of these files.
        silence: seconds without any message until a link counts as broken.

    Attributes:
        counts: the counters, by the names in COUNTS.
        last_refusal: why the last handshake was refused, or the last link was cut.
        credentials: the certificate, the key and the trusted authorities.
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
        _check_reachable(name, listen, neighbours)
        self.name = name
        self.listen = listen
        self.neighbours = dict(neighbours)
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self.silence = silence
        self.inbox: Inbox | None = None
        self.last_refusal: str | None = None
        self.credentials = Credentials(Path(keys), name)
        self._check = check
        self._links: dict[str, Link] = {}
        self._open: set[Link] = set()
        """Links of neighbours, and other links that are not closed yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: TlsListener | None = None
        self._obstacles: dict[str, str] = {}

    async def start(self, receive: Receive) -> None:
        """Listen, open links, and call `receive` for every message."""
        if self.inbox is not None:
            raise RuntimeError(f"the transport of {self.name} is running already")
        self._load_credentials()
        if self.listen is not None:
            self._listener = TlsListener(
                await _listening_socket(self.listen, self.name),
                lambda: Link(self),
                lambda: self.credentials.server,
                lambda error, address: self.refuse(error, None, address),
                HANDSHAKE,
            )
        self.inbox = Inbox(receive, self.counts)
        for neighbour, address in self.neighbours.items():
            if address is not None and self._opens(neighbour):
                self._begin(self._keep_open(neighbour, address))
        self._begin(self._maintain())

    def send(self, to: str, message: bytes) -> None:
        """Send a message without waiting; drop it if there is no link, or if the link is busy."""
        if to not in self.neighbours:
            raise ValueError(f"{to!r} is not a neighbour of {self.name!r}")
        if len(message) > MOST_BYTES:
            raise ValueError(
                f"the message has {len(message):,} bytes; at most {MOST_BYTES:,} are allowed"
            )
        link = self._links.get(to)
        if link is not None:
            self.counts["sent" if link.send(message) else "unsent"] += 1

    async def stop(self) -> None:
        """Stop receiving, and close all links."""
        if self.inbox is not None:
            self.inbox.close()
            self.inbox = None
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
            self._listener = None
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
        """Neighbours with an open link."""
        return frozenset(self._links)

    def obstacle(self, neighbour: str) -> str | None:
        """Return why there is no link to a neighbour; None if there is one."""
        link = self._links.get(neighbour)
        if link is not None and link.heard:
            return None
        if neighbour not in self.neighbours:
            return "it was not a neighbour when this agent started; restart the agent"
        if self._opens(neighbour):
            return self._obstacles.get(neighbour, "not opened yet")
        return self._obstacles.get(neighbour) or (
            f"waits for {neighbour} to open the link: its file may not have {self.name} yet, or it "
            f"does not reach {self.listen}"
        )

    # Calls of links

    def opened(self, link: Link) -> bool:
        """Register a link after its handshake; return whether it may stay.

        A new link of a neighbour replaces the previous one.
        """
        self._open.add(link)
        name = link.peer
        if self.inbox is None:
            return False
        if name is None or name not in self.neighbours or link.expected not in (None, name):
            self.counts["strangers"] += 1
            what = f"a link of {name or 'a stranger'}, which is not a neighbour"
            if link.expected is not None:
                what = f"{name or 'a stranger'} answers at the address of {link.expected}"
                self._obstacles[link.expected] = what
            _log.warning("%s: %s", self.name, what)
            return False
        if (why := link.must_end()) is not None:
            self._cut(link, *why)
            return False
        if link.expected is None:
            self._obstacles.pop(name, None)
        if (before := self._links.get(name)) is not None:
            before.cut()
        self._links[name] = link
        return True

    def closed(self, link: Link) -> None:
        """Remove a link that was closed."""
        self._open.discard(link)
        if link.peer is not None and self._links.get(link.peer) is link:
            del self._links[link.peer]

    def refuse(self, error: OSError, neighbour: str | None, address: str = "") -> None:
        """Count and report a handshake that failed at either end.

        Args:
            error: the reason.
            neighbour: the other end; None if it is not known.
            address: of the client, if it opened the link.
        """
        self.counts["refused"] += 1
        other = f"from {address or 'an unknown address'}"
        if neighbour is not None:
            other = f"with {neighbour} at {self.neighbours[neighbour]}"
        what = f"the handshake {other} was refused: {_reason(error)}"
        self.last_refusal = what
        if neighbour is not None:
            self._obstacles[neighbour] = what
            _log.warning("%s: %s", self.name, what)
        elif isinstance(error, ssl.SSLError):  # not a client that only connects and leaves
            cause = f"{self.name}: a handshake of a stranger: {error}"
            _log.warning("%s: %s", self.name, what, extra={"cause": cause})

    def _cut(self, link: Link, count: str, reason: str) -> None:
        """Cut a link that must end, and report why."""
        link.cut()
        self.counts[count] += 1
        what = f"the link to {link.peer} was cut: {reason}"
        self.last_refusal = self._obstacles[str(link.peer)] = what
        if count != "silent":
            _log.warning("%s: %s", self.name, what)

    # Background tasks

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
                        ssl=self.credentials.client,
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

    async def _maintain(self) -> None:
        """Reload changed keys, cut links that must end, and send heartbeats on the others."""
        began = checked = time.monotonic()
        missed = False
        while True:
            await asyncio.sleep(min(HEARTBEAT, self._check, self.silence / 4))
            if time.monotonic() - checked >= self._check:
                checked = time.monotonic()
                if self.credentials.changed():
                    self._reload_credentials()
            for link in list(self._links.values()):
                if (why := link.must_end()) is not None:
                    self._cut(link, *why)
                else:
                    link.send(b"")
            if not missed and time.monotonic() - began > MISSED:
                missed = True
                for neighbour in self.neighbours:
                    if (reason := self.obstacle(neighbour)) is not None:
                        _log.warning("%s: no link to %s: %s", self.name, neighbour, reason)

    def _reload_credentials(self) -> None:
        """Use the files that changed; files that do not fit are read again at the next check."""
        try:
            self._load_credentials()
        except (KeysError, OSError) as error:
            _log.warning("%s still uses its old certificate: %s", self.name, error)
        else:
            self.counts["reloads"] += 1
            _log.info("%s uses its new keys", self.name)

    def _load_credentials(self) -> None:
        try:
            self.credentials.load()
        finally:  # a removed authority loses its links even if another file does not fit
            for link in self._open:
                link.verify()

    def _opens(self, neighbour: str) -> bool:
        """Return whether this end opens the link: of two ends that can, the owner of the edge."""
        can_open = self.neighbours[neighbour] is not None
        return can_open and (self.listen is None or owns(self.name, neighbour))


def _check_reachable(name: str, listen: str | None, neighbours: Mapping[str, str | None]) -> None:
    """Reject malformed addresses, and links that neither end can open."""
    if name in neighbours:
        raise ValueError(f"{name!r} is not a neighbour of itself")
    for neighbour, address in neighbours.items():
        if listen is None and address is None:
            raise ValueError(f"neither {name!r} nor {neighbour!r} can be reached by the other")
        if address is not None:
            _host_and_port(address)


def _reason(error: OSError) -> str:
    """Return the text of an error; some errors of asyncio have none."""
    if not str(error) and isinstance(error, TimeoutError):
        return f"timed out after {CONNECT:g} s"
    return str(error) or "the other end closed the connection"


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")  # a name that cannot be looked up is an error now, not later
        if not host or host[0] == "." or not port.isdecimal() or int(port) > 65535:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"an address is host:port, such as site3.example.org:7447, not {address!r}"
        ) from None
    return host, int(port)


async def _listening_socket(address: str, name: str) -> socket.socket:
    host, port = _host_and_port(address)
    loop = asyncio.get_running_loop()
    try:
        [(family, *_, place), *_] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return socket.create_server(place[:2], family=family, backlog=128)
    except OSError as error:
        raise OSError(f"{name} cannot listen on {address}: {error}") from error

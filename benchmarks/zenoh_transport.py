"""Messages over zenoh, from peer to peer: no broker, no discovery, nobody but neighbours.

Links are TLS 1.3, and both ends show a certificate of the federation's authority. A message from
north to south travels under the key fedbandits/south/north. South admits, on a link whose
certificate names north, puts under this key and nothing else; so a message is from whom the
certificate names. The same rules on the way out keep an agent from passing on what others sent.

What zenoh does not tell: handshakes that fail, and puts that its access control refuses, are
dropped in silence and cannot be counted here. A member that is no neighbour may hold a link, over
which nothing passes; it is counted as a stranger.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from benchmarks.zenoh_config import MOST_BYTES, key, session_config
from fedbandits.live.agent.inbox import Inbox
from fedbandits.live.federation.keys import KeysError, check_member, member_named, stamp
from fedbandits.live.transport.interface import Receive
from fedbandits.live.transport.tls import opens, reachable

if TYPE_CHECKING:
    import zenoh

_log = logging.getLogger("fedbandits.live")

CHECK = 5.0
"""Seconds between two looks at the certificate and the links."""

SILENCE = 20.0
"""Seconds after which a link over which nothing came is opened anew."""

LISTENER = ""
"""Stands for the session that listens, among the names of neighbours."""


class ZenohTransport:
    """Carries messages between neighbours on a network.

    Of two neighbours the one that owns their edge opens the link, unless the other cannot be
    reached. A link that breaks is opened again.

    Args:
        name: of the agent, as its certificate names it.
        listen: "host:port" where neighbours reach it; None if they cannot (it then opens all
            links).
        neighbours: "host:port" of each; None for one that cannot be reached.
        keys: folder with ca.pem, cert.pem and key.pem. A renewed certificate is taken by itself.
        check: seconds between two looks at the certificate and the links.
        silence: seconds after which a link over which nothing came is opened anew; more than a
            few gossip periods.

    Attributes:
        counts: sent, received, dropped (a flood), strangers (links of members that are no
            neighbours), reopened (links that were silent), reloads (of the certificate).
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
        names = ("sent", "received", "dropped", "strangers", "reopened", "reloads")
        self.counts: Counter[str] = Counter(dict.fromkeys(names, 0))
        self._check = check
        self._silence = silence
        self._inbox: Inbox | None = None
        self._watch: asyncio.Task[None] | None = None
        self._lock = Lock()
        """Held by the thread that opens or closes sessions."""
        # Garbage collection closes a session that nobody refers to.
        self._sessions: dict[str, zenoh.Session] = {}
        self._declared: dict[str, list[Any]] = {}
        self._publishers: dict[str, zenoh.Publisher] = {}
        self._heard_at: dict[str, float] = {}
        self._strangers: set[str | None] = set()

    async def start(self, receive: Receive) -> None:
        """Listen, open links, and hand over what arrives."""
        if self._inbox is not None:
            raise RuntimeError(f"the transport of {self.name} is running already")
        check_member(self.keys, self.name)
        self._inbox = Inbox(receive, self.counts)
        try:
            await asyncio.to_thread(self._open)
        except BaseException:
            await self.stop()
            raise
        self._watch = asyncio.get_running_loop().create_task(self._look_after())

    def send(self, to: str, message: bytes) -> None:
        """Send and forget: dropped if there is no link, or if it is busy."""
        if to not in self.neighbours:
            raise ValueError(f"{to!r} is no neighbour of {self.name!r}")
        if len(message) > MOST_BYTES:
            raise ValueError(f"a message of {len(message):,} bytes; {MOST_BYTES:,} are allowed")
        publisher = self._publishers.get(to)
        if publisher is not None:
            publisher.put(message)
            self.counts["sent"] += 1

    async def stop(self) -> None:
        """Hand over nothing more, and close all links."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None
        await asyncio.to_thread(self._close)

    async def reload(self, neighbours: Mapping[str, str | None] | None = None) -> None:
        """Open all links anew, with the keys and certificate that are there now.

        Messages that are under way are lost, and the next ones make good.

        Args:
            neighbours: from now on; the same by default.
        """
        if self._inbox is None:
            raise RuntimeError(f"the transport of {self.name} is not running")
        if neighbours is not None:
            neighbours = reachable(self.name, self.listen, neighbours)
        check_member(self.keys, self.name)
        await asyncio.to_thread(self._close)
        if neighbours is not None:
            self.neighbours = dict(neighbours)
        await asyncio.to_thread(self._open)
        self.counts["reloads"] += 1

    @property
    def linked(self) -> frozenset[str]:
        """Neighbours to which there is a link now."""
        links = [link for each in list(self._sessions.values()) for link in each.info.links()]
        return frozenset(self.neighbours) & {member_named(link.auth_identifier) for link in links}

    def _opens(self, neighbour: str) -> bool:
        """Whether this end opens the link to a neighbour: one of the two does."""
        return opens(self.name, self.listen, neighbour, self.neighbours[neighbour])

    def _served(self, name: str) -> list[str]:
        """Whose messages come and go over a session."""
        if name == LISTENER:
            return [each for each in self.neighbours if not self._opens(each)]
        return [name]

    def _open(self) -> None:
        """One session that listens, and one for each neighbour to which this end opens the link.

        Zenoh takes a second link for a part of the first if its other end claims the same id, and
        then grants to both what either's certificate allows. It refuses a second link that comes
        in, so a session that only listens is safe, and so is one that opens a single link.
        """
        with self._lock:
            for name in [LISTENER, *self.neighbours]:
                if name == LISTENER or self._opens(name):
                    self._open_session(name)

    def _reopen(self, name: str) -> None:
        with self._lock:
            self._close_session(name)
            self._open_session(name)

    def _close(self) -> None:
        with self._lock:
            for name in list(self._sessions):
                self._close_session(name)

    def _open_session(self, name: str) -> None:
        import zenoh

        inbox, address = self._inbox, self.listen if name == LISTENER else self.neighbours[name]
        neighbours = self._served(name)
        if inbox is None or not neighbours:  # stopped meanwhile, or nobody to listen to
            return
        end = {"listen" if name == LISTENER else "connect": address}
        config = session_config(self.name, neighbours, self.keys, **end)
        try:
            session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
        except zenoh.ZError as error:
            place = f"listen on {address}" if name == LISTENER else f"open a link to {address}"
            raise OSError(f"{self.name} cannot {place}: {error}") from error
        self._sessions[name] = session
        declared = self._declared[name] = []
        declared.append(session.info.declare_link_events_listener(self._linked, history=True))
        for neighbour in neighbours:

            def arrived(sample: zenoh.Sample, sender: str = neighbour) -> None:
                self._heard_at[sender] = time.monotonic()
                inbox.put(sender, sample.payload)

            # Called in zenoh's own thread, which waits: no second queue before the inbox.
            handler = zenoh.handlers.Callback(arrived, indirect=False)
            declared.append(session.declare_subscriber(key(self.name, neighbour), handler))
            self._publishers[neighbour] = session.declare_publisher(
                key(neighbour, self.name),
                congestion_control=zenoh.CongestionControl.DROP,
                express=True,
            )
            self._heard_at[neighbour] = time.monotonic()

    def _close_session(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        self._declared.pop(name, None)
        for neighbour in self._served(name):
            self._publishers.pop(neighbour, None)
        if session is not None:
            session.close()  # type: ignore[no-untyped-call]

    def _linked(self, event: zenoh.LinkEvent) -> None:
        """Count links of those who are no neighbours; warn of each once."""
        import zenoh

        named = member_named(event.link.auth_identifier)
        if event.kind != zenoh.SampleKind.PUT or named in self.neighbours:
            return
        self.counts["strangers"] += 1
        if named not in self._strangers:
            self._strangers.add(named)
            _log.warning("%s: a link of %s, who is no neighbour", self.name, named or "nobody")

    async def _look_after(self) -> None:
        """Reload when the certificate changes, and open anew what is silent."""
        taken = seen = stamp(self.keys)
        while True:
            await asyncio.sleep(self._check)
            now = stamp(self.keys)
            try:
                # A file that was just written may be one of several.
                if now == seen != taken:
                    await self.reload()
                    taken = now
                await self._break_silence()
            except KeysError as error:
                _log.warning("%s goes on with its old certificate: %s", self.name, error)
                taken = now
            except OSError as error:
                _log.warning("%s is without a link, and tries again: %s", self.name, error)
                taken = []
            seen = now

    async def _break_silence(self) -> None:
        """Open anew the links over which nothing comes.

        A neighbour that closed its session while a link was being opened keeps the link alive, and
        does not know of it.
        """
        for neighbour in self.linked:
            silent = time.monotonic() - self._heard_at.get(neighbour, 0.0)
            if self._opens(neighbour) and silent > self._silence:
                await asyncio.to_thread(self._reopen, neighbour)
                self.counts["reopened"] += 1

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
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .inbox import Inbox
from .keys import KeysError, check_member, common_name, member_named
from .ledger import owns
from .transport import Receive

if TYPE_CHECKING:
    import zenoh

_log = logging.getLogger("fedbandits.live")

MOST_BYTES = 2**19
"""Of a message. A larger one is dropped before it is put together."""

OVERHEAD = 1024
"""Bytes that zenoh adds to a message, at most."""

BATCHES = 16
"""Of 64 KiB that wait on a link; what finds no room is dropped at once. Zenoh's most."""

CHECK_KEYS = 10.0
"""Seconds between two looks whether the certificate was renewed."""

LEASE = 5000
"""Milliseconds of silence after which a link counts as broken and is opened anew."""

RETRY = (200, 4000)
"""Milliseconds between two attempts to open a link, at first and at most."""


class ZenohTransport:
    """Carries messages between neighbours on a network.

    Of two neighbours the one that owns their edge opens the link, unless the other cannot be
    reached. A link that breaks is opened again.

    Args:
        name: of the agent, as its certificate names it.
        listen: "host:port" where neighbours reach it; None if they cannot (it then opens all
            links).
        neighbours: "host:port" of each; None for one that cannot be reached.
        keys: folder with ca.pem, cert.pem and key.pem.
        check_keys: seconds between two looks whether they were renewed.

    Attributes:
        counts: sent, received, dropped (a flood), strangers (links of members that are no
            neighbours), reloads.
    """

    def __init__(
        self,
        name: str,
        listen: str | None,
        neighbours: Mapping[str, str | None],
        keys: str | Path,
        *,
        check_keys: float = CHECK_KEYS,
    ) -> None:
        if name in neighbours:
            raise ValueError(f"{name!r} is no neighbour of itself")
        if listen is None and (apart := [n for n, address in neighbours.items() if not address]):
            raise ValueError(f"neither {name!r} nor {apart[0]!r} can be reached by the other")
        self.name = name
        self.listen = listen
        self.neighbours = dict(neighbours)
        self.keys = Path(keys)
        self.counts: Counter[str] = Counter(sent=0, received=0, dropped=0, strangers=0, reloads=0)
        self._check_keys = check_keys
        self._inbox: Inbox | None = None
        # Garbage collection closes a session that nobody refers to.
        self._sessions: list[zenoh.Session] = []
        self._declared: list[Any] = []
        self._publishers: dict[str, zenoh.Publisher] = {}
        self._watch: asyncio.Task[None] | None = None

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
        self._watch = asyncio.get_running_loop().create_task(self._renewals())

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
        check_member(self.keys, self.name)
        await asyncio.to_thread(self._close)
        if neighbours is not None:
            self.neighbours = dict(neighbours)
        await asyncio.to_thread(self._open)
        self.counts["reloads"] += 1

    @property
    def linked(self) -> frozenset[str]:
        """Neighbours to which there is a link now."""
        links = [link for session in self._sessions for link in session.info.links()]
        return frozenset(self.neighbours) & {member_named(link.auth_identifier) for link in links}

    def _open(self) -> None:
        """One session that listens, and one for each neighbour to which this end opens the link.

        Zenoh takes a second link for a part of the first if its other end claims the same id, and
        then grants to both what either's certificate allows. It refuses a second link that comes
        in, so a session that only listens is safe, and so is one that opens a single link.
        """
        opened = [neighbour for neighbour in self.neighbours if self._opens(neighbour)]
        awaited = [neighbour for neighbour in self.neighbours if not self._opens(neighbour)]
        if awaited:
            self._open_session(awaited, listen=self.listen)
        for neighbour in opened:
            self._open_session([neighbour], connect=self.neighbours[neighbour])

    def _open_session(
        self, neighbours: list[str], *, listen: str | None = None, connect: str | None = None
    ) -> None:
        import zenoh

        inbox = self._inbox
        assert inbox is not None
        config = self._config(neighbours, listen, connect)
        try:
            session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
        except zenoh.ZError as error:
            place = f"listen on {listen}" if listen else f"open a link to {connect}"
            raise OSError(f"{self.name} cannot {place}: {error}") from error
        self._sessions.append(session)
        self._declared.append(
            session.info.declare_link_events_listener(self._link_changed, history=True)
        )
        for neighbour in neighbours:

            def arrived(sample: zenoh.Sample, sender: str = neighbour) -> None:
                inbox.put(sender, sample.payload)

            # Called in zenoh's own thread, which waits: no second queue before the inbox.
            handler = zenoh.handlers.Callback(arrived, indirect=False)
            self._declared.append(session.declare_subscriber(_key(self.name, neighbour), handler))
            self._publishers[neighbour] = session.declare_publisher(
                _key(neighbour, self.name),
                congestion_control=zenoh.CongestionControl.DROP,
                express=True,
            )

    def _close(self) -> None:
        sessions, self._sessions = self._sessions, []
        self._publishers, self._declared = {}, []
        for session in sessions:
            session.close()

    def _link_changed(self, event: zenoh.LinkEvent) -> None:
        import zenoh

        named = member_named(event.link.auth_identifier)
        if event.kind == zenoh.SampleKind.PUT and named not in self.neighbours:
            self.counts["strangers"] += 1
            _log.warning("%s: a link of %s, who is no neighbour", self.name, named or "nobody")

    async def _renewals(self) -> None:
        """Reload when the files change; go on with the old ones if the new are no good."""
        seen = self._stamp()
        while True:
            await asyncio.sleep(self._check_keys)
            if (now := self._stamp()) == seen:
                continue
            try:
                await self.reload()
                seen = now
            except KeysError as error:
                _log.warning("%s goes on with its old certificate: %s", self.name, error)
            except OSError as error:
                _log.warning("%s is without links, and tries again: %s", self.name, error)

    def _stamp(self) -> list[tuple[int, int]]:
        found = []
        for name in ("ca.pem", "cert.pem", "key.pem"):
            with suppress(OSError):
                status = (self.keys / name).stat()
                found.append((status.st_mtime_ns, status.st_ino))
        return found

    def _opens(self, neighbour: str) -> bool:
        """Whether this end opens the link to a neighbour: one of the two does."""
        if self.neighbours[neighbour] is None:
            return False
        return self.listen is None or owns(self.name, neighbour)

    def _config(
        self, neighbours: list[str], listen: str | None, connect: str | None
    ) -> dict[str, Any]:
        files = {name: str(self.keys.absolute() / f"{name}.pem") for name in ("ca", "cert", "key")}
        return {
            "mode": "peer",
            "listen": {"endpoints": [f"tls/{listen}"] if listen else []},
            "connect": {
                "endpoints": [f"tls/{connect}"] if connect else [],
                "timeout_ms": -1,
                "exit_on_failure": False,
                "retry": {
                    "period_init_ms": RETRY[0],
                    "period_max_ms": RETRY[1],
                    "period_increase_factor": 2,
                },
            },
            "open": {"return_conditions": {"connect_scouted": False, "declares": False}},
            # Either would link agents that are no neighbours.
            "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
            "transport": {
                "unicast": {"max_links": 1, "open_timeout": LEASE, "accept_timeout": LEASE},
                # Memory that a neighbour names is not for us to open.
                "shared_memory": {"enabled": False},
                "link": {
                    "protocols": ["tls"],
                    "rx": {"max_message_size": MOST_BYTES + OVERHEAD},
                    "tx": {
                        "lease": LEASE,
                        "queue": {
                            "size": {"data": BATCHES},
                            "congestion_control": {"drop": {"wait_before_drop": 0}},
                        },
                    },
                    "tls": {
                        "enable_mtls": True,
                        "root_ca_certificate": files["ca"],
                        "listen_certificate": files["cert"],
                        "listen_private_key": files["key"],
                        "connect_certificate": files["cert"],
                        "connect_private_key": files["key"],
                        "verify_name_on_connect": True,
                        "close_link_on_expiration": True,
                    },
                },
            },
            "access_control": self._access(neighbours),
        }

    def _access(self, neighbours: list[str]) -> dict[str, Any]:
        """Whom is believed what: nothing, but for what is written here."""
        rules, policies = [], []
        for neighbour in neighbours:
            hears, tells = _key(self.name, neighbour), _key(neighbour, self.name)
            own = []
            for key, flow, message in (
                (hears, "ingress", "put"),
                (hears, "egress", "declare_subscriber"),
                (tells, "egress", "put"),
                (tells, "ingress", "declare_subscriber"),
            ):
                own.append(f"{flow} {message} {key}")
                rules.append(
                    {
                        "id": own[-1],
                        "permission": "allow",
                        "flows": [flow],
                        "messages": [message],
                        "key_exprs": [key],
                    }
                )
            policies.append({"rules": own, "subjects": [neighbour]})
        return {
            "enabled": True,
            "default_permission": "deny",
            "rules": rules,
            "subjects": [
                {
                    "id": neighbour,
                    "cert_common_names": [common_name(neighbour)],
                    "link_protocols": ["tls"],
                }
                for neighbour in neighbours
            ],
            "policies": policies,
        }


def _key(receiver: str, sender: str) -> str:
    """Under which messages from a sender to a receiver travel."""
    return f"fedbandits/{receiver}/{sender}"

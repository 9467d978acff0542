"""How a zenoh session is set up: TLS both ways, no discovery, and who is believed what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedbandits.live.federation.keys import common_name

MOST_BYTES = 2**19
"""Of a message. A larger one is dropped before it is put together."""

OVERHEAD = 1024
"""Bytes that zenoh adds to a message, at most."""

BATCHES = 16
"""Of 64 KiB that wait on a link; what finds no room is dropped at once. Zenoh's most."""

LEASE = 5000
"""Milliseconds of silence after which a link counts as broken and is opened anew."""

RETRY = (200, 4000)
"""Milliseconds between two attempts to open a link, at first and at most."""


def key(receiver: str, sender: str) -> str:
    """Under which messages from a sender to a receiver travel."""
    return f"fedbandits/{receiver}/{sender}"


def session_config(
    name: str,
    neighbours: Sequence[str],
    keys: Path,
    *,
    listen: str | None = None,
    connect: str | None = None,
) -> dict[str, Any]:
    """A session that listens, or that opens one link.

    Args:
        name: of the agent.
        neighbours: who may speak here.
        keys: folder with ca.pem, cert.pem and key.pem.
        listen: "host:port" of its own.
        connect: "host:port" of the neighbour.
    """
    files = {name: str(keys.absolute() / f"{name}.pem") for name in ("ca", "cert", "key")}
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
        "access_control": access(name, neighbours),
    }


def access(name: str, neighbours: Sequence[str]) -> dict[str, Any]:
    """Whom is believed what: nothing, but for what is written here."""
    rules, policies = [], []
    for neighbour in neighbours:
        hears, tells = key(name, neighbour), key(neighbour, name)
        own = []
        for expression, flow, message in (
            (hears, "ingress", "put"),
            (hears, "egress", "declare_subscriber"),
            (tells, "egress", "put"),
            (tells, "ingress", "declare_subscriber"),
        ):
            own.append(f"{flow} {message} {expression}")
            rules.append(
                {
                    "id": own[-1],
                    "permission": "allow",
                    "flows": [flow],
                    "messages": [message],
                    "key_exprs": [expression],
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

"""One member of a federation as a machine at a site runs it: `agent.toml`, and its process."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fedbandits.config.experiment import ConfigError, unknown
from fedbandits.config.reading import read_config

from .agent import Agent
from .expiry import ExpiryWatch
from .federation import Federation, Part, check_addresses
from .group_commit import StoppedError
from .log_limit import limited_logger
from .responses import responses
from .transport import Transport

_log = limited_logger("fedbandits.live")

KEYS = ("name", "federation", "journal", "keys", "low", "high", "addresses", "service", "privacy")
LOOK = 1.0
"""Seconds between two looks at whether the agent still runs."""

TRIM = 60.0
"""Seconds between two calls of malloc_trim, which returns free memory to the system. Without it
glibc never returns the memory that the connections of a flood needed."""

SERVICE = ("address", "token", "tls", "baseline")
PRIVACY = ("epsilon",)


class Site(NamedTuple):
    """What `agent.toml` says.

    Attributes:
        part: of the federation, with the addresses of the neighbours.
        journal: its file.
        keys: the folder with ca.pem, cert.pem and key.pem; None for an agent without neighbours.
        low: the smallest loss or reward there can be.
        high: the largest.
        address: of the service; None for none.
        token: the file with the token that applications show.
        tls: whether the service shows the certificate of the keys.
        baseline: the arm that is played while the agent learns; None for what it draws.
        epsilon: ε per round for this agent's losses (event level), even if all others collude; arms
            are public. None for no guarantee.
    """

    part: Part
    journal: Path
    keys: Path | None
    low: float
    high: float
    address: str | None
    token: Path
    tls: bool
    baseline: str | None
    epsilon: float | None = None


def read_site(path: str | Path) -> Site:
    """One member's file. Names of files in it are relative to it.

        name = "north"
        federation = "federation.toml"
        journal = "north.db"
        keys = "keys/north"

        [service]
        address = "127.0.0.1:8080"
        token = "north.token"

        [privacy]
        epsilon = 1.0

    Raises:
        ConfigError: if something in it cannot be.
    """
    source = Path(path)
    config = read_config(source)
    inside = {"service": SERVICE, "privacy": PRIVACY}
    for name in inside:
        if not isinstance(config.get(name, {}), dict):
            raise ConfigError(f"{source}: {name} is a section of its own: write [{name}]")
    for section, valid in (
        (config, KEYS),
        *((config.get(name, {}), keys) for name, keys in inside.items()),
    ):
        for key in section:
            if key not in valid:
                raise ConfigError(f"{source}: {unknown('key', key, valid)}")
    for key in ("name", "federation"):
        if not isinstance(config.get(key), str):
            raise ConfigError(f'{source} has no {key}; add {key} = "..."')
    name, folder = config["name"], source.parent
    federation = Federation.read(folder / config["federation"])
    addresses: dict[str, str] = config.get("addresses", {})
    try:
        part = federation.part(name)
        check_addresses(addresses, federation.members)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from error
    part = part._replace(addresses=part.addresses | addresses)
    keys = folder / config["keys"] if "keys" in config else None
    if keys is None and part.neighbours:
        raise ConfigError(
            f"{source}: {name} has neighbours, and needs keys to prove who it is; make them with "
            f'fedbandits live keys {config["federation"]}, and add keys = "keys/{name}"'
        )
    service: dict[str, Any] = config.get("service", {})
    return Site(
        part,
        folder / config.get("journal", f"{name}.db"),
        keys,
        config.get("low", 0.0),
        config.get("high", 1.0),
        service.get("address", "127.0.0.1:0") if "service" in config else None,
        folder / service.get("token", f"{name}.token"),
        service.get("tls", False),
        service.get("baseline"),
        _epsilon(config, part, source),
    )


def _epsilon(config: dict[str, Any], part: Part, source: Path) -> float | None:
    """What [privacy] says, if it can be."""
    if "privacy" not in config:
        return None
    if "epsilon" not in config["privacy"]:
        raise ConfigError(f"{source} [privacy]: no epsilon; add epsilon = 1.0, or take it out")
    try:
        found = responses(config["privacy"]["epsilon"], part.algorithm)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source} [privacy]: {error}") from error
    return None if found is None else found.epsilon


async def run_site(site: Site, ready: Callable[[str | None], None] = lambda _: None) -> None:
    """Run a member until SIGTERM or SIGINT; then stop gracefully.

    Args:
        site: what to run.
        ready: is told where the service is, once everything is up.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    agent = Agent(
        site.part.name,
        site.part,
        site.journal,
        _transport(site),
        low=site.low,
        high=site.high,
        epsilon=site.epsilon,
    )
    watch = None if site.keys is None else ExpiryWatch(site.keys, site.part.name)
    async with AsyncExitStack() as running:
        await running.enter_async_context(agent)
        if watch is not None:
            agent.expiries = watch.look(time.time())
        url = None
        if site.address is not None:
            from .service import serve

            tls = None
            if site.tls and site.keys is not None:
                tls = (site.keys / "cert.pem", site.keys / "key.pem")
            service = await serve(
                agent, site.address, token_file=site.token, tls=tls, baseline=site.baseline
            )
            await running.enter_async_context(service)
            url = service.url
        _log.info("%s runs%s", site.part.name, f", and serves {url}" if url else "")
        if url is not None:
            _log.info("its page is %s/#token=TOKEN, with what stands in %s", url, site.token)
        ready(url)
        trim, trimmed = malloc_trim(), loop.time()
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK)
            if watch is not None:
                agent.expiries = watch.look(time.time())
            if loop.time() - trimmed > TRIM:
                trimmed = loop.time()
                trim(0)
            if not agent.running:  # whoever watches over processes starts it again
                raise StoppedError(f"{site.part.name} stopped: its store failed")
        _log.info("%s stops", site.part.name)


def _transport(site: Site) -> Transport | None:
    if site.keys is None or not site.part.neighbours:
        return None
    from .tls_transport import TlsTransport

    addresses = site.part.addresses
    return TlsTransport(
        site.part.name,
        addresses.get(site.part.name),
        {name: addresses.get(name) for name in site.part.neighbours},
        site.keys,
    )


def malloc_trim() -> Callable[[int], object]:
    """Return glibc's function of this name; with another C library, one that does nothing."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    return getattr(library, "malloc_trim", lambda _: 0)


class JsonLines(logging.Formatter):
    """Log lines that machines read: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message, and the error if there was one."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_as_json() -> None:
    """Log to standard error from now on, a JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("fedbandits").handlers.clear()  # the command's own lines

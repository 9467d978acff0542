"""One member of a federation at its site: its settings and its process."""

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
from typing import TYPE_CHECKING, NamedTuple

from fedbandits.common.log_limit import limited_logger
from fedbandits.config.experiment import Place
from fedbandits.config.reading import read_config
from fedbandits.config.structs import struct_of
from fedbandits.live.agent.agent import Agent
from fedbandits.live.agent.group_commit import StoppedError
from fedbandits.live.federation.federation import Federation, Part, check_addresses
from fedbandits.live.protocol.noisy_bits import noisy_bits
from fedbandits.live.protocol.observations import LossRange, loss_range
from fedbandits.live.transport.certificate_expiry import ExpiryWatch
from fedbandits.live.transport.interface import Transport

from .agent_file import AgentFile, PrivacySection, ServiceSection

if TYPE_CHECKING:
    from fedbandits.live.service import Service

_log = limited_logger("fedbandits.live")

CHECK_SECONDS = 1.0
"""Seconds between two checks whether the agent still runs."""

TRIM_SECONDS = 60.0
"""Seconds between two calls of malloc_trim, which returns free memory to the system.

Without it glibc never returns the memory that the connections of a flood needed.
"""


class Site(NamedTuple):
    """One member of a federation, ready to run.

    Attributes:
        part: of the federation, with the addresses of the neighbours.
        journal: file of the journal.
        keys: the folder with ca.pem, cert.pem and key.pem; None for an agent without neighbours.
        losses: the smallest and the largest loss or reward.
        service: the settings of the HTTP service; None for no service.
        token: the file with the token of the service.
        epsilon: ε per round for this agent's losses (event level), even if all others collude; arms
            are public. None for no guarantee.
    """

    part: Part
    journal: Path
    keys: Path | None
    losses: LossRange
    service: ServiceSection | None
    token: Path
    epsilon: float | None = None


def read_site(path: str | Path) -> Site:
    """Read the file of one member; names of files in it are relative to it.

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
        ConfigError: if a key, its type or its value is wrong.
    """
    source = Path(path)
    place = Place(str(source), source.parent)
    file = struct_of(read_config(source), AgentFile, place)
    name, service = file.name, file.service
    federation = Federation.read(file.federation, allow_modules=file.allow_modules)
    try:
        part = federation.part(name)
        check_addresses(file.addresses, federation.members)
        losses = loss_range(file.low, file.high)
    except ValueError as error:
        raise place.error(error) from error
    part = part._replace(addresses=part.addresses | file.addresses)
    if file.keys is None and part.neighbours:
        raise place.error(
            f"{name} has neighbours, so it needs keys to prove its identity; make them with "
            f'fedbandits live keys {file.federation}, and add keys = "keys/{name}"'
        )
    if service is not None:
        _check_service(service, file.keys, name, Place(f"{place.name} [service]"))
    return Site(
        part,
        file.journal or place.folder / f"{name}.db",
        file.keys,
        losses,
        service,
        (service and service.token) or place.folder / f"{name}.token",
        _epsilon(file.privacy, part, place),
    )


def _check_service(service: ServiceSection, keys: Path | None, name: str, place: Place) -> None:
    """Reject keys of [service] that contradict each other, and malformed hosts."""
    from fedbandits.live.service.address import host_name

    if service.tls and keys is None:
        raise place.error(
            f'tls = true needs keys; add keys = "keys/{name}" before the first section'
        )
    for key in ("token", "read_token"):
        if getattr(service, key) is not None and getattr(service, f"{key}_env") is not None:
            raise place.error(f"give either {key} or {key}_env, not both")
    for host in service.hosts:
        try:
            host_name(host)
        except ValueError as error:
            raise place.error(error) from error


def _epsilon(privacy: PrivacySection | None, part: Part, place: Place) -> float | None:
    """Return the ε of [privacy]; reject values that do not fit the algorithm."""
    if privacy is None:
        return None
    try:
        found = noisy_bits(privacy.epsilon, part.algorithm)
    except (TypeError, ValueError) as error:
        raise Place(f"{place.name} [privacy]").error(error) from error
    return None if found is None else found.epsilon


async def run_site(site: Site, ready: Callable[[str | None], None] = lambda _: None) -> None:
    """Run a member until SIGTERM or SIGINT; then stop gracefully.

    Args:
        site: the member.
        ready: called with the URL of the service, once everything runs; None without a service.

    Raises:
        StoppedError: if the agent stops because its store fails.
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
        low=site.losses.low,
        high=site.losses.high,
        epsilon=site.epsilon,
    )
    watch = None if site.keys is None else ExpiryWatch(site.keys, site.part.name)
    async with AsyncExitStack() as running:
        await running.enter_async_context(agent)
        if watch is not None:
            agent.expiries = watch.check(time.time())
        url = None
        if site.service is not None:
            service = await _serve(agent, site, site.service)
            await running.enter_async_context(service)
            url = service.url
        _log.info("%s runs%s", site.part.name, f", and serves {url}" if url else "")
        if url is not None:
            variable = site.service and site.service.token_env
            where = f"the environment variable {variable}" if variable else site.token
            _log.info("its page is %s/#token=TOKEN; the token is in %s", url, where)
        ready(url)
        trim, trimmed_at = malloc_trim(), loop.time()
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), CHECK_SECONDS)
            if watch is not None:
                agent.expiries = watch.check(time.time())
            if loop.time() - trimmed_at > TRIM_SECONDS:
                trimmed_at = loop.time()
                trim(0)
            if not agent.running:  # end the process, so that its supervisor restarts it
                raise StoppedError(f"{site.part.name} stopped: {agent.failure}")
        _log.info("%s stops", site.part.name)


async def _serve(agent: Agent, site: Site, section: ServiceSection) -> Service:
    """Start the service that [service] describes."""
    from fedbandits.live.service import serve
    from fedbandits.live.service.tokens import token_in, token_of

    read_token = None if section.read_token is None else token_of(section.read_token)
    if section.read_token_env:
        read_token = token_in(section.read_token_env)
    return await serve(
        agent,
        section.address,
        token_file=None if section.token_env else site.token,
        token=section.token_env and token_in(section.token_env),
        read_token=read_token,
        hosts=section.hosts,
        tls=(site.keys / "cert.pem", site.keys / "key.pem") if section.tls and site.keys else None,
        baseline=section.baseline,
    )


def _transport(site: Site) -> Transport | None:
    if site.keys is None or not site.part.neighbours:
        return None
    from fedbandits.live.transport.tls_transport import TlsTransport

    addresses = site.part.addresses
    return TlsTransport(
        site.part.name,
        addresses.get(site.part.name),
        {name: addresses.get(name) for name in site.part.neighbours},
        site.keys,
    )


def malloc_trim() -> Callable[[int], object]:
    """Return malloc_trim of glibc; with another C library, a function that does nothing."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    return getattr(library, "malloc_trim", lambda _: 0)


class JsonLines(logging.Formatter):
    """Formats each log record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the time, level, logger and message of a record, and its error if any."""
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
    """Log to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("fedbandits").handlers.clear()  # handlers of the command line

"""Plays the batches of a sweep on the workers of a Dask cluster that is already running.

Batches travel as plain data and come back as datasets, which the process that collects them writes:
workers need no folder in common with it. Only files that a configuration names have to be on the
workers too, at the same path, and modules of own things where they can be imported.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedbandits.common.own_modules import OwnError
from fedbandits.common.version import __version__
from fedbandits.config.identity import own_names
from fedbandits.config.own import MODULES, looking_beside, source_files, sources

from .run import Outcome, in_one_line, play_cells
from .store import SweepError
from .workshop import Parcel, workshop_of

if TYPE_CHECKING:
    from distributed import Client, Future

logger = logging.getLogger("fedbandits")

PATIENCE = 10
"""Seconds to wait for the scheduler's answer, at the start and when the connection is lost."""

RETRIES = 2
"""How often Dask plays a batch again that raised; what a lost worker held it plays again anyway."""


ADDRESS = re.compile(
    r"((tcp|tls|ucx)://)?(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})/?"
)
"""Of a scheduler; Dask takes what has no protocol for TCP."""


class VersionError(Exception):
    """A worker has another version of this package, or none."""


class OwnModuleError(Exception):
    """A worker cannot import an own thing, or has another one of its name."""


class Own(NamedTuple):
    """The own things of a sweep, as plain data that travels.

    Attributes:
        source: the configuration file, an absolute path.
        modules: the folder of own modules as the configuration has it.
        sources: by name the modules that make it what it is, with the SHA-256 of their files.
    """

    source: str
    modules: str
    sources: dict[str, dict[str, str | None]]


def own_of(parcels: Iterable[Parcel]) -> Own:
    """The own things that the cells of batches name."""
    each = [(parcel.source, config) for parcel in parcels for config in parcel.configs]
    source, config = each[0]
    names = sorted({name for _, config in each for name in own_names(config)})
    with looking_beside(config, Path(source)):
        return Own(source, config.get(MODULES, ""), {name: sources(name) for name in names})


def own_fault(own: Mapping[str, Any]) -> str | None:
    """What is wrong with the own things of a sweep in this process, a worker; None if nothing."""
    sent = Own(**own)
    try:
        with looking_beside({MODULES: sent.modules}, Path(sent.source)):
            for name, expected in sent.sources.items():
                if sources(name) != expected:
                    return (
                        f"has another {name} ({', '.join(source_files(name))}) than this machine; "
                        "copy the file there, and start the worker anew"
                    )
    except OwnError as error:
        return (
            f"cannot import {name}: {error}. A worker needs it installed, at the same path as "
            "here, or in the PYTHONPATH that it is started with"
        )
    return None


def check_address(scheduler: str) -> None:
    """Refuse at once what Dask would try for a while and then fail to read."""
    found = ADDRESS.fullmatch(scheduler)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise SweepError(f"--scheduler {scheduler}: write tcp://HOST:PORT")


def play_on_cluster(
    parcels: Mapping[int, Parcel], scheduler: str
) -> Generator[tuple[int, list[Outcome]]]:
    """The outcomes of batches by number, in the order in which they are finished.

    Args:
        parcels: what to play.
        scheduler: its address, such as `tcp://127.0.0.1:8786`.
    """
    with _silent_dask():
        client = _connect(scheduler)
        from distributed import as_completed

        try:
            _check_workers(client, scheduler)
            own = own_of(parcels.values())
            _check_own(client, scheduler, own)
            numbers = {
                client.submit(
                    play_on_worker,
                    parcel._asdict(),
                    __version__,
                    own._asdict(),
                    pure=False,
                    retries=RETRIES,
                ): number
                for number, parcel in parcels.items()
            }
            finished: Any = as_completed(numbers, loop=client.loop)
            for future in finished:
                # Popped, since a worker keeps a result as long as somebody holds its future.
                number = numbers.pop(future)
                yield number, _outcome(future, len(parcels[number].configs), scheduler)
                del future
        finally:
            client.close(timeout=2)


@contextmanager
def _silent_dask() -> Iterator[None]:
    """Keep Dask's own lines out of the output: what matters is raised, in our words."""
    with suppress(ImportError):  # `_connect` needs it, and names it if it is missing
        import distributed  # noqa: F401  # it sets levels of its own when imported
    theirs = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [one.level for one in theirs]
    try:
        for one in theirs:
            one.setLevel(logging.CRITICAL)
        yield
    finally:
        for one, level in zip(theirs, levels, strict=True):
            one.setLevel(level)


def play_on_worker(
    parcel: dict[str, Any], version: str, own: dict[str, Any] | None = None
) -> list[Outcome]:
    """Play a batch, if the worker is of the version that asks for it, and has its own modules."""
    # A worker may have come after the others had been asked.
    if version != __version__:
        raise VersionError(f"a worker has fedbandits {__version__}, and this is {version}")
    fault = own_fault(own) if own is not None else None
    if fault is not None:
        from distributed import get_worker

        raise OwnModuleError(f"the worker {get_worker().address} {fault}")
    sent = Parcel(**parcel)
    return play_cells(sent, workshop_of(sent.source))


def _connect(scheduler: str) -> Client:
    from distributed import Client

    try:
        return Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SweepError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one with dask scheduler, "
            "and workers with dask worker ADDRESS"
        ) from error


def _check_workers(client: Client, scheduler: str) -> None:
    """Refuse workers that would compute something else."""
    try:
        versions: Any = client.get_versions(packages=["fedbandits"])
    except OSError as error:
        raise _lost(scheduler) from error
    ours = versions["client"]["packages"]["fedbandits"]
    if not versions["workers"]:
        logger.info("no worker at %s yet; waiting for one", scheduler)
    for address, found in versions["workers"].items():
        theirs = found["packages"].get("fedbandits")
        if theirs != ours:
            raise SweepError(
                f"the worker {address} has fedbandits {theirs or 'not installed'}, and this is "
                f"{ours}; install the same on all workers"
            )


def _check_own(client: Client, scheduler: str, own: Own) -> None:
    """Refuse workers that lack an own thing, or have another one of its name."""
    if not own.sources:
        return
    try:
        faults: Any = client.run(own_fault, own._asdict())
    except OSError as error:
        raise _lost(scheduler) from error
    for address, fault in faults.items():
        if fault is not None:
            raise SweepError(f"the worker {address} {fault}")


def _outcome(future: Future[Any], cells: int, scheduler: str) -> list[Outcome]:
    """What came of a batch of so many cells."""
    try:
        return [Outcome(*outcome) for outcome in future.result()]
    except VersionError as error:
        raise SweepError(f"{error}; install the same on all workers") from error
    except OwnModuleError as error:
        raise SweepError(str(error)) from error
    except (CancelledError, OSError) as error:  # errors of the cells themselves are outcomes
        raise _lost(scheduler) from error
    except Exception as error:  # such as a batch that every worker dies of
        return [Outcome(None, in_one_line(error))] * cells


def _lost(scheduler: str) -> SweepError:
    return SweepError(
        f"lost the connection to the scheduler at {scheduler}; if it is gone, start it and its "
        "workers again"
    )

"""Plays the batches of a sweep on the workers of a Dask cluster that is already running.

Batches travel as plain data and come back as datasets, which the process that collects them writes:
workers need no folder in common with it. Only files that a configuration names have to be on the
workers too, at the same path.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from fedbandits.common.version import __version__

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
            numbers = {
                client.submit(
                    play_on_worker, parcel._asdict(), __version__, pure=False, retries=RETRIES
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


def play_on_worker(parcel: dict[str, Any], version: str) -> list[Outcome]:
    """Play a batch, if the worker is of the version that asks for it."""
    if version != __version__:  # a worker that came after the others had been asked
        raise VersionError(f"a worker has fedbandits {__version__}, and this is {version}")
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


def _outcome(future: Future[Any], cells: int, scheduler: str) -> list[Outcome]:
    """What came of a batch of so many cells."""
    try:
        return [Outcome(*outcome) for outcome in future.result()]
    except VersionError as error:
        raise SweepError(f"{error}; install the same on all workers") from error
    except (CancelledError, OSError) as error:  # errors of the cells themselves are outcomes
        raise _lost(scheduler) from error
    except Exception as error:  # such as a batch that every worker dies of
        return [Outcome(None, in_one_line(error))] * cells


def _lost(scheduler: str) -> SweepError:
    return SweepError(
        f"lost the connection to the scheduler at {scheduler}; if it is gone, start it and its "
        "workers again"
    )

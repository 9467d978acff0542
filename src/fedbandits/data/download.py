"""MovieLens releases, downloaded from GroupLens; an interrupted download resumes."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbandits.common.checks import did_you_mean

RELEASES = ("ml-latest", "ml-latest-small", "ml-32m", "ml-25m", "ml-20m", "ml-10m", "ml-1m")
BASE = "https://files.grouplens.org/datasets/movielens"
TIMEOUT = 30.0
"""Seconds without a byte after which the connection counts as lost."""
BYTES_AT_ONCE = 1 << 18
"""Bytes read from the connection at once, and written to the disk before the next."""

logger = logging.getLogger("fedbandits")


def download(release: str, folder: Path, *, base: str = BASE, progress: bool | None = None) -> Path:
    """Return the zip of a MovieLens release, downloaded unless the folder has it.

    If a connection breaks, the received part stays next to it as `.part`, and the next call
    requests the rest. The zip appears under its name only when its checksum is right.

    Args:
        release: one of `RELEASES`.
        folder: where `RELEASE.zip` goes; made if it does not exist.
        base: the address that `/RELEASE.zip` is appended to.
        progress: whether to show a bar on stderr; by default on a terminal only.

    Raises:
        ValueError: no such release, or the folder holds a broken zip of that name.
        ConnectionError: the file did not arrive, or not as it was sent.
        OSError: the folder cannot be written to.

    Example:
        >>> download("ml-25", Path("."))
        Traceback (most recent call last):
            ...
        ValueError: unknown release 'ml-25'; did you mean 'ml-25m'? Valid: ml-latest, ...
    """
    import zipfile

    if release not in RELEASES:
        meant = did_you_mean(release, RELEASES)
        raise ValueError(f"unknown release {release!r}{meant} Valid: {', '.join(RELEASES)}")
    target = folder / f"{release}.zip"
    if target.exists():
        if not zipfile.is_zipfile(target):
            raise ValueError(f"{target} is not a whole zip file; remove it to download it again")
        logger.info("%s is already there.", target)
        return target
    transfer = _Transfer(f"{base.rstrip('/')}/{release}.zip", target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _bar(release, progress) as show:
            transfer.fetch(show)
        transfer.verify()
        with transfer.part.open("rb") as written:
            os.fsync(written.fileno())
        transfer.part.replace(target)
        transfer.stamp.unlink(missing_ok=True)
    except ConnectionError:
        raise
    except OSError as error:
        full = error.errno == errno.ENOSPC
        raise OSError(
            f"{folder} cannot be written to ({error.strerror or error})"
            + (f"; make room there, or choose another folder; {transfer.kept()}" if full else "")
        ) from error
    logger.info("Downloaded %s.", target)
    return target


@dataclass(frozen=True)
class _Transfer:
    """A file on its way from `address` to `target`."""

    address: str
    target: Path

    @property
    def part(self) -> Path:
        """The received part."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def stamp(self) -> Path:
        """The version of `part` by the server's mark; a download without it cannot resume."""
        return self.target.with_name(f"{self.target.name}.part.version")

    def fetch(self, show: Callable[[int, int | None], None]) -> None:
        """Download the file into `part`, from its current end."""
        have, version = self._arrived()
        headers = {"Range": f"bytes={have}-", "If-Range": version} if have else {}
        with self._ask(self.address, headers) as response:
            if response.status == 416:
                begins, total = -1, None
                if response.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
                    return  # all of it had arrived
            else:
                begins, total = _span(response)
            if begins in (0, have):
                if begins == 0:
                    self._begin(response)
                self._receive(response, begins, total, show)
                return
        if not have:
            raise self._lost("answered with another part than was asked for")
        self.discard()
        self.fetch(show)

    def verify(self) -> None:
        """Refuse and remove what arrived if it is not what was sent."""
        import zipfile
        import zlib

        published = self._published()
        with self.part.open("rb") as file:
            if published is not None:
                found = hashlib.file_digest(file, _md5).hexdigest()
                fault = f"has the MD5 {found}, not {published} as published"
                whole = found == published
            else:
                try:
                    with zipfile.ZipFile(file) as archive:
                        bad = archive.testzip()
                    whole, fault = bad is None, f"has a damaged member, {bad}"
                except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                    whole, fault = False, f"is not a whole zip file ({error})"
        if not whole:
            self.discard()
            raise ConnectionError(
                f"what arrived from {self.address} {fault}; it was removed, the same command "
                f"downloads it again. {self._by_hand()}"
            )
        if published is None:
            with self.part.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            logger.info(
                "No checksum is published for %s; every member of the zip is whole. SHA-256: %s",
                self.address,
                digest,
            )

    def discard(self) -> None:
        """Remove what has arrived."""
        self.stamp.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)

    def kept(self) -> str:
        """Return how much the next call can reuse."""
        have, _ = self._arrived()
        if not have:
            return "nothing is kept"
        return f"the first {have / 1e6:.1f} MB are kept; the same command goes on from there"

    def _arrived(self) -> tuple[int, str]:
        """Return the bytes that arrived, and their version."""
        if not (self.part.is_file() and self.stamp.is_file()):
            return 0, ""
        return self.part.stat().st_size, self.stamp.read_text("ascii")

    def _begin(self, response: Any) -> None:
        """Make an empty part for the version of this response."""
        self.discard()
        self.part.touch()
        version = response.headers.get("ETag", "")
        if not version or version.startswith("W/"):  # a weak tag promises no equal bytes
            version = response.headers.get("Last-Modified", "")
        if version.isascii() and version.isprintable() and version:
            self.stamp.write_text(version, "ascii")

    def _receive(
        self, response: Any, done: int, total: int | None, show: Callable[[int, int | None], None]
    ) -> None:
        with self.part.open("ab") as file:
            show(done, total)
            for piece in self._pieces(response):
                file.write(piece)
                file.flush()  # what has arrived is on disk when the connection or the disk fails
                done += len(piece)
                show(done, total)
        if total is not None and done != total:
            raise self._lost(f"ended after {done} of {total} bytes")

    def _pieces(self, response: Any) -> Iterator[bytes]:
        from http.client import HTTPException

        while True:
            try:
                piece = response.read(BYTES_AT_ONCE)
            except (OSError, HTTPException) as error:
                raise self._lost(_reason(error)) from error
            if not piece:
                return
            yield piece

    @contextmanager
    def _ask(self, address: str, headers: dict[str, str]) -> Iterator[Any]:
        """Yield the response; 404 and 416 are answers if they are expected."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        from fedbandits.common.version import __version__

        headers = {"User-Agent": f"fedbandits/{__version__}", **headers}
        expected = 416 if "Range" in headers else 404 if address.endswith(".md5") else 0
        try:
            response = urlopen(Request(address, headers=headers), timeout=TIMEOUT)
        except HTTPError as error:
            if error.code != expected:
                error.close()
                raise self._lost(f"answered {error.code} {error.reason}", address) from error
            response = error
        except (OSError, HTTPException) as error:
            raise self._lost(_reason(error), address) from error
        with response:
            yield response

    def _published(self) -> str | None:
        """Return the MD5 that the server has for the file, if any."""
        with self._ask(f"{self.address}.md5", {}) as response:
            if response.status == 404:
                return None
            text = b"".join(self._pieces(response)).decode("ascii", "replace")
        # Both "HASH  NAME" and "MD5 (NAME) = HASH" are in use.
        found = re.search(r"\b[0-9a-fA-F]{32}\b", text)
        return found.group().lower() if found else None

    def _lost(self, reason: str, address: str | None = None) -> ConnectionError:
        return ConnectionError(
            f"{address or self.address}: {reason}; {self.kept()}. {self._by_hand()}"
        )

    def _by_hand(self) -> str:
        return (
            f"By hand: download {self.address} in a browser, then fedbandits reproduce figure2 "
            "--data FILE."
        )


def _span(response: Any) -> tuple[int, int | None]:
    """Return the first byte of a response, and the size of the whole file."""
    if response.status == 206:
        found = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip()
        )
        if not found:
            return -1, None
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def _reason(error: Exception) -> str:
    """Return why there is no connection."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no answer for {TIMEOUT:g} seconds"
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return f"no connection ({text})"


@contextmanager
def _bar(title: str, progress: bool | None) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of bytes done and total that draws a progress bar, or does nothing."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda done, total: None  # noqa: ARG005
        return
    from rich import progress as bars
    from rich.console import Console

    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

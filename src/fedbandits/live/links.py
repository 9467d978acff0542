"""What both transports on a network agree on: who opens which link, and which keys are there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .ledger import owns


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


def stamp(keys: Path) -> list[tuple[int, int]]:
    """What changes when the files of the keys do."""
    found = []
    for name in ("ca.pem", "cert.pem", "key.pem"):
        with suppress(OSError):
            status = (keys / name).stat()
            found.append((status.st_mtime_ns, status.st_ino))
    return found

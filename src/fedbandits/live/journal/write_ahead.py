"""Detection of damage in SQLite's write-ahead log.

The log has checksums. At the first wrong page SQLite assumes that a crash cut off the log, and
silently ignores all later commits. If the page was damaged later, acknowledged commits would be
lost. Every commit is synced before the next begins, so a crash spoils at most the last one. If two
or more commits follow the wrong page, the cause was not a crash.

Reference:
    The SQLite file format, section 4, https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">8I")
"""Magic, version, size of pages, checkpoint, two salts, two checksums."""

_FRAME = struct.Struct(">6I")
"""Number of the page, number of pages if this ends a commit (else 0), two salts, two checksums."""

_LITTLE, _BIG = 0x377F0682, 0x377F0683


def find_damage(log: Path) -> str | None:
    """Return the damage in a log that no process writes; None if a crash explains it.

    Two kinds of damage look like a crash: damage to the last commit, and a log cut off after a
    commit.
    """
    content = log.read_bytes()
    if len(content) < _HEADER.size + _FRAME.size:
        return None
    magic, _, size, _, *salts_and_sums = _HEADER.unpack_from(content)
    salts, sums = tuple(salts_and_sums[:2]), tuple(salts_and_sums[2:])
    order = {_LITTLE: "<", _BIG: ">"}.get(magic)
    if order is None or _checksum(content[:24], order, (0, 0)) != sums:
        return f"the beginning of {log.name} was changed"
    whole = True
    lost = 0
    for start in range(_HEADER.size, len(content) - _FRAME.size - size + 1, _FRAME.size + size):
        _, ends, *rest = _FRAME.unpack_from(content, start)
        if whole:
            page = content[start + _FRAME.size : start + _FRAME.size + size]
            sums = _checksum(content[start : start + 8] + page, order, sums)
            whole = tuple(rest) == (*salts, *sums)
        # Pages with other salts remain from before the log was last restarted.
        if not whole and ends and tuple(rest[:2]) == salts:
            lost += 1
    if lost > 1:
        return f"{log.name} is wrong at a page that {lost} commits follow"
    return None


def _checksum(content: bytes, order: str, sums: tuple[int, ...]) -> tuple[int, int]:
    """Return the checksum of SQLite: s0 += x_i + s1, s1 += x_{i+1} + s0, modulo 2³²."""
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second

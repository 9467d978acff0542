"""Whether SQLite's write-ahead log still holds all that was committed to it.

The log has checksums, and SQLite goes by them: at the first page that is wrong it takes the log to
end, as one that a crash cut off. Where the page was damaged later, what was committed after it is
gone without a word. Every commit is synced before the next begins, so a crash can spoil the last
one alone: if two commits or more lie behind the wrong page, it was no crash.

Reference:
    The SQLite file format, section 4, https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">8I")
"""Magic, version, size of pages, checkpoint, two salts, two checksums."""

_FRAME = struct.Struct(">6I")
"""Number of the page, pages in all if this ends a commit (else 0), two salts, two checksums."""

_LITTLE, _BIG = 0x377F0682, 0x377F0683


def damage(log: Path) -> str | None:
    """What is wrong with a log that nobody writes; None if nothing that a crash does not explain.

    What cannot be told from a crash: damage to the last commit, or a log cut off behind a commit.
    """
    content = log.read_bytes()
    if len(content) < _HEADER.size + _FRAME.size:
        return None
    magic, _, size, _, *salts_and_sums = _HEADER.unpack_from(content)
    salts, sums = tuple(salts_and_sums[:2]), tuple(salts_and_sums[2:])
    order = {_LITTLE: "<", _BIG: ">"}.get(magic)
    if order is None or _checksum(content[:24], order, (0, 0)) != sums:
        return f"the beginning of {log.name} is not what was written"
    whole = True
    lost = 0
    for start in range(_HEADER.size, len(content) - _FRAME.size - size + 1, _FRAME.size + size):
        _, ends, *rest = _FRAME.unpack_from(content, start)
        if whole:
            page = content[start + _FRAME.size : start + _FRAME.size + size]
            sums = _checksum(content[start : start + 8] + page, order, sums)
            whole = tuple(rest) == (*salts, *sums)
        # Pages with other salts are from before the log was last begun anew.
        if not whole and ends and tuple(rest[:2]) == salts:
            lost += 1
    if lost > 1:
        return f"{log.name} is wrong at a page that {lost} commits follow"
    return None


def _checksum(content: bytes, order: str, sums: tuple[int, ...]) -> tuple[int, int]:
    """s0 += x_i + s1, s1 += x_{i+1} + s0, modulo 2³²."""
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second

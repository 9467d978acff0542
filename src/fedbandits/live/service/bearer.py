"""The token that applications show: made at the first start, readable by its owner alone."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from fedbandits.common.files import atomic_write

_BYTES = 32
_SHORTEST = 16
"""Letters that a token must have, whoever made it."""


def token_of(path: Path) -> str:
    """What stands in the file; a new token if there is none.

    Raises:
        ValueError: if others may read the file, or what stands in it is no token.
    """
    if not path.exists():
        with atomic_write(path, private=True) as file:
            file.write(f"{secrets.token_urlsafe(_BYTES)}\n".encode())
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ValueError(f"others may read the token in {path}: chmod 600 {path}")
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{path} holds no token: one has {_SHORTEST} letters or more, all ASCII and without "
            "spaces. Delete the file, and the next start makes a new one"
        )
    return token


def shown(headers: Iterable[tuple[bytes, bytes]], token: bytes) -> bool:
    """Whether a request shows the token; takes as long for a wrong one as for the right one.

    Example:
        >>> shown([(b"authorization", b"Bearer secret")], b"secret")
        True
    """
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1:
        return False
    kind, _, given = found[0].partition(b" ")
    return hmac.compare_digest(given.strip(), token) and kind.lower() == b"bearer"

"""Bearer tokens, from files or environment variables."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from fedbandits.common.files import atomic_write

_BYTES = 32
_SHORTEST = 16
"""Smallest length of a token, in characters."""


def token_of(path: Path) -> str:
    """Return the token in a file; write a new one if the file does not exist.

    Raises:
        ValueError: if users outside the file's group may read it, if users other than its owner may
            write it, or if its content is malformed.
    """
    if not path.exists():
        with atomic_write(path, private=True) as file:
            file.write(f"{secrets.token_urlsafe(_BYTES)}\n".encode())
    if os.name == "posix" and path.stat().st_mode & 0o037:
        raise ValueError(
            f"other users may read or write the token in {path}: chmod 600 {path} (or 640, for a "
            "group that may read it)"
        )
    return checked_token(
        path.read_text(encoding="utf-8"), f"{path}", ". Delete the file to get a new token"
    )


def token_in(variable: str) -> str:
    """Return the token in an environment variable.

    Raises:
        ValueError: if the variable is not set, or its value is malformed.
    """
    where = f"the environment variable {variable}"
    if variable not in os.environ:
        raise ValueError(f"{where} is not set, and agent.toml says that it holds a token")
    return checked_token(os.environ[variable], where)


def checked_token(text: str, where: str, fix: str = "") -> str:
    """Return a token without surrounding whitespace; raise ValueError if it is malformed."""
    token = text.strip()
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{where} holds no token: a token has at least {_SHORTEST} ASCII characters and no "
            f"spaces{fix}"
        )
    return token


def shows(headers: Iterable[tuple[bytes, bytes]], token: bytes) -> bool:
    """Return whether a request shows the token, in constant time.

    Example:
        >>> shows([(b"authorization", b"Bearer secret")], b"secret")
        True
    """
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1:
        return False
    kind, _, given = found[0].partition(b" ")
    return hmac.compare_digest(given.strip(), token) and kind.lower() == b"bearer"

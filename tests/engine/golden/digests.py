"""The digests of the golden programs, and the versions of JAX that they hold for."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

PINNED = Path(__file__).with_name("programs.json")


def digest(text: str) -> dict[str, Any]:
    """Return the digest of a program and its number of lines."""
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "lines": len(text.splitlines()),
    }


def versions() -> dict[str, str]:
    """Return the installed versions on which the text of programs depends."""
    return {name: version(name) for name in ("jax", "jaxlib")}


def pinned() -> dict[str, Any]:
    """Return what is pinned: versions, and a digest for each program."""
    found: dict[str, Any] = json.loads(PINNED.read_text(encoding="utf-8"))
    return found


def write(programs: dict[str, dict[str, Any]]) -> None:
    """Pin these digests for the installed versions."""
    text = json.dumps({"versions": versions(), "programs": programs}, indent=1)
    PINNED.write_text(text + "\n", encoding="utf-8")

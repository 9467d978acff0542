"""Where compiled programs are kept from one command to the next."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from fedbandits.common.folders import cache_folder

_MEGABYTES = 500


def keep_compiled_programs() -> None:
    """Have JAX keep what it compiles in the user's cache folder, if it has not started yet.

    A second command then starts in seconds less. Whoever sets JAX_COMPILATION_CACHE_DIR, or turns
    JAX_ENABLE_COMPILATION_CACHE off, has chosen otherwise.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        folder = cache_folder() / _machine()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or none to write to: compile every time
        return
    for name, value in (
        ("JAX_COMPILATION_CACHE_DIR", str(folder)),
        ("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MEGABYTES * 2**20)),
        ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1"),
    ):
        os.environ.setdefault(name, value)


def _machine() -> str:
    """The kind of processor: a program compiled for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    kind = f"{platform.machine()} {platform.processor()} {features}"
    return hashlib.sha256(kind.encode()).hexdigest()[:16]

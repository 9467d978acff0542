"""Where compiled programs are kept from one process to the next."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

from fedbandits.common.files import cache_folder

SWITCH = "FEDBANDITS_COMPILE_CACHE"
"""The environment variable that keeps nothing where it is `off`; `on` is what goes without it."""

_MEGABYTES = 500
_SECONDS = 0.1
"""What takes longer to compile is kept: all of a simulation, and none of JAX's own small steps."""


def keep_compiled_programs() -> None:
    """Have JAX keep what it compiles in the user's cache folder, where nobody chose otherwise.

    A second process then need not compile them. JAX has one cache for the whole process, so
    programs that the user compiles after this are kept there too. Left alone where a folder was
    chosen for it (JAX_COMPILATION_CACHE_DIR, or in `jax.config`), where JAX's cache is turned off
    (JAX_ENABLE_COMPILATION_CACHE), and where FEDBANDITS_COMPILE_CACHE is off. JAX itself tells
    programs apart by its version, flags and devices, goes on without an entry that it cannot read,
    and throws out what was not used for longest.
    """
    import jax

    kept = _switched_on()
    settings: Any = jax.config
    chosen = settings.jax_compilation_cache_dir is not None
    enabled = settings.jax_enable_compilation_cache
    if chosen or not enabled or not kept:
        return
    try:
        folder = cache_folder() / _machine()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home: compile every time
        return
    if not os.access(folder, os.W_OK | os.X_OK):  # JAX would warn of every program
        return
    settings.update("jax_compilation_cache_dir", str(folder))
    for name, default, ours in (
        ("jax_compilation_cache_max_size", -1, _MEGABYTES * 2**20),
        ("jax_persistent_cache_min_compile_time_secs", 1.0, _SECONDS),
    ):
        if getattr(settings, name) == default:
            settings.update(name, ours)


def kept_in() -> str | None:
    """The folder in which a simulation's compiled programs are kept; None where they are not."""
    import jax

    keep_compiled_programs()
    settings: Any = jax.config
    enabled = settings.jax_enable_compilation_cache
    return settings.jax_compilation_cache_dir or None if enabled else None


def _switched_on() -> bool:
    """Whether programs are to be kept; a folder, or another word for off, is not passed over."""
    value = os.environ.get(SWITCH) or "on"
    if value.lower() not in ("on", "off"):
        raise ValueError(
            f"{SWITCH} is {value!r}; it may be 'off' or 'on'. For another folder set "
            "JAX_COMPILATION_CACHE_DIR"
        )
    return value.lower() == "on"


def _machine() -> str:
    """The kind of processor: a program compiled for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    kind = f"{platform.machine()} {platform.processor()} {features}"
    return hashlib.sha256(kind.encode()).hexdigest()[:16]

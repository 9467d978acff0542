"""On what, with what and when it was measured: numbers without these say nothing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks import ROOT

_SETTINGS = ("JAX_PLATFORMS", "XLA_FLAGS", "OMP_NUM_THREADS", "XLA_PYTHON_CLIENT_MEM_FRACTION")


def facts() -> dict[str, Any]:
    """Plain data; starts JAX."""
    import jax

    from fedbandits.paper.section import processor

    device = jax.devices()[0]
    return {
        "backend": jax.default_backend(),
        "device": device.device_kind,
        "devices": jax.device_count(),
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": _memory(),
        "load_before": os.getloadavg()[0],
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in ("fedbandits", "jax", "jaxlib", "numpy", "scipy")},
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
    }


def line(machine: dict[str, Any]) -> str:
    """The facts a reader asks for first."""
    return (
        f"{machine['backend']} ({machine['device']}), {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['os']}, Python {machine['python']}, "
        f"JAX {machine['jax']}, NumPy {machine['numpy']}; commit {machine['commit']}, "
        f"{machine['date']}, load {machine['load_before']:.1f} before"
    )


def _memory() -> float:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return float(round(total / 2**30, 1))


def _version(package: str) -> str:
    if package == "fedbandits":
        import fedbandits

        return fedbandits.__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit, with a + where the library differs from it; unknown outside a repository.

    A source tree that was copied without its repository may be told in FEDBANDITS_COMMIT.
    """
    if told := os.environ.get("FEDBANDITS_COMMIT"):
        return told
    if shutil.which("git") is None:
        return "unknown"
    commit = _git("rev-parse", "--short=12", "HEAD")
    return f"{commit}{'+' if _git('status', '--porcelain', 'src') else ''}" if commit else "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()

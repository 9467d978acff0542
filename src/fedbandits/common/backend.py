"""The device that computes, and forks of a process that uses it.

Programs depend on the kind of device. A CPU is fastest with few large loops and memory that is
written once. An accelerator is fastest with many independent steps that recompute intermediate
values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_platform: ContextVar[str | None] = ContextVar("platform", default=None)


def on_cpu() -> bool:
    """Return whether programs are made for a CPU: the chosen devices, else JAX's default."""
    return _kind() == "cpu"


def on_gpu() -> bool:
    """Return whether programs are made for a GPU, and not for another accelerator."""
    return _kind() == "gpu"


def _kind() -> str:
    platform = _platform.get()
    if platform is None:
        import jax

        platform = jax.default_backend()
    return platform


@contextmanager
def playing_on(platform: str) -> Iterator[None]:
    """Make programs for devices of this kind, such as `cpu` or `gpu`, within the block."""
    before = _platform.set(platform)
    try:
        yield
    finally:
        _platform.reset(before)


_active_at_fork = False
_unusable = False


def refuse_fork() -> None:
    """Raise an error in a forked process where JAX would wait forever for the parent's threads."""
    if _unusable:
        raise RuntimeError(
            "this process was forked from one in which JAX was at work, and JAX does not survive "
            'a fork: start processes with multiprocessing.get_context("spawn") or "forkserver", '
            "for a ProcessPoolExecutor as its mp_context; or use JAX, and simulate, only in the "
            "children"
        )


def _before_fork() -> None:
    global _active_at_fork
    # JAX may not be loaded, and has no public function that tells whether it has started.
    started = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    _active_at_fork = started is not None and started()


def _in_child() -> None:
    global _unusable
    _unusable = _unusable or _active_at_fork


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)

"""Which kind of device computes: the one place that asks.

Programs differ by it. A CPU is quickest with few large loops and memory that is written once; an
accelerator with many independent steps, and work done again rather than kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_platform: ContextVar[str | None] = ContextVar("platform", default=None)


def on_cpu() -> bool:
    """Whether what is traced now will run on a CPU: of the devices chosen, else JAX's own first."""
    return _kind() == "cpu"


def on_gpu() -> bool:
    """Whether it will run on a GPU, and on no other accelerator."""
    return _kind() == "gpu"


def _kind() -> str:
    platform = _platform.get()
    if platform is None:
        import jax

        platform = jax.default_backend()
    return platform


@contextmanager
def playing_on(platform: str) -> Iterator[None]:
    """A scope in which programs are made for devices of this kind, such as `cpu` or `gpu`."""
    before = _platform.set(platform)
    try:
        yield
    finally:
        _platform.reset(before)

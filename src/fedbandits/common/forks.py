"""Whether this process was forked from one in which JAX was at work: JAX hangs there."""

from __future__ import annotations

import os
import sys

_at_work = False  # in the parent, when it forked
_lost = False  # in this process, a child


def refuse_fork() -> None:
    """Raise an error where JAX would wait for ever for threads that stayed in the parent."""
    if _lost:
        raise RuntimeError(
            "this process was forked from one in which JAX was at work, and JAX does not survive "
            'a fork: start processes with multiprocessing.get_context("spawn") or "forkserver", '
            "for a ProcessPoolExecutor as its mp_context; or use JAX, and simulate, only in the "
            "children"
        )


def _before() -> None:
    global _at_work
    # JAX may not be loaded, and has no public way to ask whether it has started.
    asked = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    _at_work = asked is not None and asked()


def _in_child() -> None:
    global _lost
    _lost = _lost or _at_work


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_before, after_in_child=_in_child)

"""Programs of rounds, compiled as they run fastest."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import jax

_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"
"""What XLA leaves to a library on a CPU. Sums over arms, and what is fused with them, take up to
three times as long there; others saw the same (https://github.com/jax-ml/jax/issues/37465)."""

LARGE = 2**17
"""Numbers of a state from which on that is worth a tenth of a second of compiling."""


@functools.cache
def compiled(
    play: Callable[..., Any], static: tuple[str, ...], donated: str, *, large: bool
) -> Callable[..., Any]:
    """The function as a program.

    Args:
        play: rounds; traced once for each kind of arguments.
        static: the names of arguments that are part of the program.
        donated: the name of the argument whose memory it may use.
        large: whether it is for a CPU, and the state has `LARGE` numbers.
    """
    options = _options() if large else None
    return jax.jit(play, static_argnames=static, donate_argnames=donated, compiler_options=options)


@functools.cache
def _options() -> dict[str, str] | None:
    """Nothing is left to that library, unless the user or this version of XLA has it otherwise."""
    if _LIBRARY in os.environ.get("XLA_FLAGS", ""):
        return None
    options = {_LIBRARY: ""}
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except RuntimeError:  # there is no such option
        return None
    return options

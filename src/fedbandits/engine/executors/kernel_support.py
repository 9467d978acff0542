"""Whether kernels of our own can be had where a simulation runs."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedbandits.common.backend import on_gpu

logger = logging.getLogger("fedbandits")


def kernels() -> bool:
    """Whether what is traced now may hold kernels made by Triton.

    Each of them has a plain form that XLA makes, and that is played where this is false.
    """
    return on_gpu() and _tried()


@functools.cache
def _tried() -> bool:
    """Whether a small one works: Triton knows not every GPU that XLA knows."""
    if jax.default_backend() != "gpu":  # nothing is compiled: tests follow kernels step by step
        return True
    try:
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        def twice(x, out):  # type: ignore[no-untyped-def]
            out[...] = 2 * x[...]

        made = pl.pallas_call(
            twice,
            out_shape=jax.ShapeDtypeStruct((64,), jnp.float32),
            compiler_params=triton.CompilerParams(num_warps=2),
        )
        return bool((made(jnp.ones(64, jnp.float32)) == 2).all())
    except Exception as error:  # whatever it is, XLA's own kernels are there
        logger.info("no kernels by Triton here: %s", error)
        return False


def triton_takes(name: str, function: Callable[..., Any], *shapes: Any) -> bool:
    """Return whether Triton compiles a function; if it does not, XLA has another form of it.

    Args:
        name: the name in the log.
        function: a function with kernels.
        shapes: the shapes of its arguments, `jax.ShapeDtypeStruct`s or trees of them.
    """
    platforms = None if jax.default_backend() == "gpu" else ("cuda",)
    try:
        jax.jit(function).trace(*shapes).lower(lowering_platforms=platforms)
    except Exception as error:  # whatever it cannot do, XLA can
        logger.info("%s has no kernel: %s", name, error)
        return False
    return True

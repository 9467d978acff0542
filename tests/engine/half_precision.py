"""Whether XLA has float16 here: of an older processor it needs functions that are not there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest


def _there() -> bool:
    try:
        jax.jit(lambda x: x.astype(jnp.float16))(jnp.ones(8)).block_until_ready()
    except jax.errors.JaxRuntimeError:
        return False
    return True


needs_float16 = pytest.mark.skipif(not _there(), reason="XLA has no float16 for this processor")
"""Of tests of what is for accelerators alone, where there is always float16."""

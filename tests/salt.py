"""`SALT=3 make unit` shifts every seed of the suite: what then fails was a matter of luck.

The losses, the agents' randomness, the tests' own arrays and hypothesis' examples all change.
Graphs stay as they are: a seed there is a choice among graphs, made so that it is connected. Tests
of the numbers that a seed gives, such as JAX's own bits, are marked `pinned` and left out.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import settings

import fedbandits.common.streams as streams

SALT = int(os.environ.get("SALT", "0"))


def shift_every_seed() -> None:
    """From here on, for this process."""
    if not SALT:
        return
    settings.register_profile("salted", settings.default, derandomize=False, database=None)
    settings.load_profile("salted")
    hashed, default_rng = streams._threefry_written_out, np.random.default_rng

    def salted_hash(key: streams.Key, first: Any, second: Any) -> Any:
        return hashed((key[0] ^ np.uint32(SALT << 8), key[1]), first, second)

    def salted_rng(seed: Any = None) -> np.random.Generator:
        if not isinstance(seed, int | np.integer | list | tuple):
            return default_rng(seed)
        return default_rng([SALT, *np.atleast_1d(seed)])

    streams._threefry_written_out = salted_hash
    np.random.default_rng = salted_rng

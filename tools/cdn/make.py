"""Plays seven eviction policies on the traffic of 16 edges, and writes what each of them missed.

    python -m tools.cdn.make             writes src/fedbandits/data/cdn.npz
    python -m tools.cdn.make --seed 1    shows what other traffic would give, and writes nothing

needs `pip install libcachesim`, which has the policies; README.md says more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tools.cdn.traffic import CACHE, EDGES, REQUESTS, SEED, WARM_UP, requests

TARGET = Path(__file__).parents[2] / "src" / "fedbandits" / "data" / "cdn.npz"
POLICIES = {
    "LRU": "LRU",
    "FIFO": "FIFO",
    "LFU": "LFU",
    "ARC": "ARC",
    "SIEVE": "Sieve",
    "S3-FIFO": "S3FIFO",
    "W-TinyLFU": "WTinyLFU",
}
"""What the arms are called, and what libcachesim calls them; all with its defaults."""
HASH_POWER = 14
"""2^14 places in a hash table are enough for a thousand objects; the default takes 2^24."""

Misses = npt.NDArray[np.uint8]


def misses(edge: int, seed: int) -> Misses:
    """Of each policy in each round, `[K, T]`: each sees all requests, and its cache is warm."""
    asked = requests(edge, seed).tolist()
    hits = np.stack([_hits(policy, asked) for policy in POLICIES.values()])
    by_round = REQUESTS - hits.reshape(len(POLICIES), -1, REQUESTS).sum(axis=2)
    missed: Misses = by_round[:, WARM_UP:].astype(np.uint8)
    return missed


def _hits(policy: str, asked: list[int]) -> npt.NDArray[np.int64]:
    import libcachesim

    cache = getattr(libcachesim, policy)(CACHE, hashpower=HASH_POWER)
    request = libcachesim.Request()
    request.obj_size = 1
    hits = np.empty(len(asked), np.int64)
    for i, item in enumerate(asked):
        request.obj_id = item
        hits[i] = cache.get(request)
    return hits


def main() -> None:
    """All edges, on all cores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, help="of other traffic, which is shown, not written")
    seed = parser.parse_args().seed
    with ProcessPoolExecutor() as pool:
        of_edge = partial(misses, seed=SEED if seed is None else seed)
        table = np.stack(list(pool.map(of_edge, range(len(EDGES)))))
    if seed is None:
        np.savez_compressed(
            TARGET,
            misses=table,
            edges=[edge.name for edge in EDGES],
            kinds=[edge.kind for edge in EDGES],
            policies=list(POLICIES),
            requests=REQUESTS,
        )
    sys.stdout.write(shown(table))


def shown(table: Misses) -> str:
    """Miss ratios by kind of traffic, the fleet's last, and for whom the edges would vote."""
    ratios = table.mean(axis=2) / REQUESTS
    kinds = {kind: [edge.kind == kind for edge in EDGES] for _, kind in EDGES}
    rows = {kind: ratios[chosen].mean(axis=0) for kind, chosen in kinds.items()}
    rows["fleet"] = ratios.mean(axis=0)
    lines = [f"{'':10}" + "".join(f"{policy:>10}" for policy in POLICIES)]
    lines += [f"{name:10}" + "".join(f"{x:10.4f}" for x in row) for name, row in rows.items()]
    votes = Counter(list(POLICIES)[best] for best in ratios.argmin(axis=1))
    lines.append(f"votes: {', '.join(f'{policy} {n}' for policy, n in votes.most_common())}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""Arms first or arms last? One FedExp3 round on a 6×6 grid, K=20, 10 runs, in both layouts.

    .venv/bin/python benchmarks/layout.py

Prints microseconds per round, the best of five, and the ratio to the best way found to write arms
last: its running sums over the arms as JAX's cumulative sum, as a chain of adds like arms first, or
as a product with a triangular matrix. Losses and uniforms are drawn beforehand and not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedbandits as fb

RUNS, ARMS, ROUNDS = 10, 20, 1000
GOSSIP = fb.gossip.max_degree(fb.networks.grid(6, 6))
AGENTS = GOSSIP.network.agents


def scan(axis: int, sums: str, W: Any) -> Callable[[Any, Any, Any], Any]:
    """A compiled run of rounds with the arms on `axis` 0 (`[K, R, N]`) or -1 (`[R, N, K]`)."""

    def widen(x: Any) -> Any:
        return jnp.expand_dims(x, axis)

    def cumulate(p: Any) -> Any:
        if sums == "cumsum":
            return jnp.cumsum(p, axis)
        if sums == "product":
            return p @ jnp.triu(jnp.ones((ARMS, ARMS)))
        running = [jnp.take(p, 0, axis)]
        for k in range(1, ARMS):
            running.append(running[-1] + jnp.take(p, k, axis))
        return jnp.stack(running, axis)

    def mix(z: Any) -> Any:
        return z @ W if axis == 0 else jnp.einsum("un,ruk->rnk", W, z)

    def step(z: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
        losses, u = now
        weights = jnp.exp(-0.1 * (z - z.min(axis, keepdims=True)))
        p = 0.99 * weights / weights.sum(axis, keepdims=True) + 0.01 / ARMS
        cumulative = cumulate(p)
        below = cumulative <= widen(u * jnp.take(cumulative, ARMS - 1, axis))
        arms = jnp.arange(ARMS).reshape((-1, 1, 1) if axis == 0 else (1, 1, -1))
        chosen = arms == widen(below.sum(axis))
        return mix(z) + jnp.where(chosen, losses / p, 0), chosen.mean((0, 1, 2))

    return jax.jit(lambda z, losses, u: jax.lax.scan(step, z, (losses, u)))


def microseconds(axis: int, sums: str) -> float:
    """Per round, the best of five runs after the one that compiles."""
    rng = np.random.default_rng(0)
    table = rng.uniform(size=(ROUNDS, AGENTS, ARMS)).astype(np.float32)
    losses = table.transpose(0, 2, 1)[:, :, None] if axis == 0 else table[:, None]
    u = rng.uniform(size=(ROUNDS, RUNS, AGENTS)).astype(np.float32)
    z = np.zeros((ARMS, RUNS, AGENTS) if axis == 0 else (RUNS, AGENTS, ARMS), np.float32)
    play = scan(axis, sums, jnp.asarray(GOSSIP.matrix.toarray(), jnp.float32))
    arguments = jax.device_put((z, losses, u))
    jax.block_until_ready(play(*arguments))
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        jax.block_until_ready(play(*arguments))
        best = min(best, time.perf_counter() - start)
    return float(best / ROUNDS * 1e6)


if __name__ == "__main__":
    first = microseconds(0, "chain")
    last = {sums: microseconds(-1, sums) for sums in ("cumsum", "chain", "product")}
    shown = ", ".join(f"{time:.0f} ({sums})" for sums, time in last.items())
    ratio = min(last.values()) / first
    print(f"µs a round: arms first {first:.0f}, arms last {shown}; best ratio {ratio:.1f}")  # noqa: T201

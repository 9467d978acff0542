"""Adversaries who watch, in plain NumPy: the losses that follow from the arms of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .paper import Float, Int


def hit_favourite(base: Float, action: Int, strength: float) -> Float:
    """Of losses `[T, N, K]` and arms `[T, N]`."""
    losses = base.copy()
    T, N, K = base.shape
    for t in range(1, T):
        votes = [0] * K
        for v in range(N):
            votes[action[t - 1, v]] += 1
        favourite = votes.index(max(votes))
        for v in range(N):
            losses[t, v, favourite] += strength * (1 - base[t, v, favourite])
    return losses


def crowded(base: Float, action: Int, strength: float) -> Float:
    losses = base.copy()
    T, N, K = base.shape
    for t in range(1, T):
        for i in range(K):
            share = sum(action[t - 1, v] == i for v in range(N)) / N
            for v in range(N):
                losses[t, v, i] += strength * share * (1 - base[t, v, i])
    return losses


def warming_cache(base: Float, action: Int, saving: float, warming: float) -> Float:
    losses = base.copy()
    T, N, _ = base.shape
    for v in range(N):
        row = 0  # rounds in a row of the arm that was played last
        for t in range(1, T):
            row = row + 1 if t > 1 and action[t - 1, v] == action[t - 2, v] else 1
            warmth = 1 - (1 - warming) ** row
            losses[t, v, action[t - 1, v]] *= 1 - saving * warmth
    return losses


WATCHERS: Mapping[str, Callable[..., Float]] = {
    "hit_favourite": hit_favourite,
    "crowded": crowded,
    "warming_cache": warming_cache,
}


def regret(p: Float, losses: Float) -> Float:
    """Σ_s ⟨p_s^v, ℓ̄_s⟩ - min_i Σ_s ℓ̄_s(i) up to each round, of one run: `[T, N]`."""
    T, N, _ = losses.shape
    out = np.zeros((T, N))
    paid, arms = np.zeros(N), np.zeros(losses.shape[2])
    for t in range(T):
        mean = losses[t].mean(axis=0)
        arms += mean
        for v in range(N):
            paid[v] += p[t, v] @ mean
        out[t] = paid - arms.min()
    return out

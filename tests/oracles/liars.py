"""FedExp3 among liars, its differences clipped or not, in plain NumPy: one loop per sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .paper import Float, Int, Played, Rate, draw, softmax

Lie = Callable[[Float], Float]


def mixed(z: Float, told: Float, W: Float, limit: float) -> Float:
    """z^v + Σ_u W_uv clip(told^u - z^v, ±limit), [N, K]; the plain sum where limit is infinite."""
    N, K = z.shape
    out = np.zeros((N, K))
    for v in range(N):
        if np.isinf(limit):
            out[v] = W[v, v] * z[v]
        else:
            out[v] = z[v]
        for u in range(N):
            if u == v:
                continue
            for k in range(K):
                heard = told[u, k] if np.isinf(limit) else told[u, k] - z[v, k]
                out[v, k] += W[u, v] * min(max(heard, -limit), limit)
    return out


def fedexp3_among_liars(
    losses: Float,
    W: Float,
    eta: Rate,
    gamma: Rate,
    uniforms: Float,
    lies: Mapping[int, Lie],
    limit: float,
) -> Played:
    """Algorithm 1 with line 6 as above; `Played.z` is what was told."""
    T, N, K = losses.shape
    z = np.zeros((N, K))
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        told = z.copy()
        for v, lie in lies.items():
            told[v] = lie(z[v])
        out.z[t - 1] = told
        g = np.zeros((N, K))
        for v in range(N):
            x = softmax(z[v], eta(t - 1) if t > 1 else eta(1))
            p = (1 - min(gamma(t), 1.0)) * x + min(gamma(t), 1.0) / K
            a = draw(p, uniforms[t - 1, v])
            g[v, a] = losses[t - 1, v, a] / p[a]
            out.p[t - 1, v], out.action[t - 1, v] = p, a
        z = mixed(z, told, W, limit) + g
    return out


def honest_regret(losses: Float, action: Int, liars: set[int]) -> Float:
    """Mean over honest agents of the regret against the arm that is best for them so far, [T]."""
    T, N, K = losses.shape
    honest = [v for v in range(N) if v not in liars]
    out, incurred, arms = np.zeros(T), 0.0, np.zeros(K)
    for t in range(T):
        mean: Any = sum(losses[t, v] for v in honest) / len(honest)
        incurred += sum(mean[action[t, v]] for v in honest) / len(honest)
        arms += mean
        out[t] = incurred - arms.min()
    return out

"""Exp3-Coop, delayed FTRL and FedFTRL in plain NumPy, line by line from their definitions.

Nothing here is imported from the library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.oracles.paper import Float, Int, Played, Rate, draw, softmax

Learner = Callable[[Float, int], Float]
"""From z, `[K]`, and t to p, `[K]`."""


def leader(losses: Float, a: float, b: float) -> Float:
    """Minimise ⟨x, L⟩ - 2a Σ sqrt(x) + b Σ x ln x by bisection of λ and, within, of ln x."""
    K = len(losses)
    gaps = losses - losses.min()

    def x(level: float) -> Float:
        low, high = np.full(K, -700.0), np.zeros(K)
        for _ in range(54):
            u = (low + high) / 2
            below = gaps - a * np.exp(-u / 2) + b * u < level
            low, high = np.where(below, u, low), np.where(below, high, u)
        out: Float = np.exp(low)
        return out

    low, high = -a * np.sqrt(K) - b * np.log(K), -a
    for _ in range(50):
        level = (low + high) / 2
        if x(level).sum() < 1:
            low = level
        else:
            high = level
    out: Float = x(low) / x(low).sum()
    return out


def cooperative(losses: Float, distance: Int, d: int, learner: Learner, uniforms: Float) -> Played:
    """Everyone within d hops, d rounds late; losses of an arm averaged over those who played it."""
    T, N, K = losses.shape
    z = np.zeros((N, K))
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        out.z[t - 1] = z
        for v in range(N):
            p = learner(z[v], t)
            out.p[t - 1, v], out.action[t - 1, v] = p, draw(p, uniforms[t - 1, v])
        s = t - d
        if s < 1:
            continue
        z = z.copy()
        for v in range(N):
            reach = [u for u in range(N) if distance[v, u] <= d]
            for i in range(K):
                seen = [losses[s - 1, u, i] for u in reach if out.action[s - 1, u] == i]
                if seen:
                    missed = 1.0
                    for u in reach:
                        missed *= 1 - out.p[s - 1, u, i]
                    z[v, i] += sum(seen) / len(seen) / (1 - missed)
    return out


def exp3_coop(eta: Rate) -> Learner:
    """Exponential weights with η_{t-1}."""
    return lambda z, t: softmax(z, eta(max(t - 1, 1)))


def delayed_ftrl(d: int) -> Learner:
    """Zimmert and Seldin's regulariser, with the missing feedback counted round by round."""

    def learner(z: Float, t: int) -> Float:
        missing = 0
        for now in range(1, t + 1):
            missing += sum(1 for s in range(1, now) if s + d >= now)
        return leader(z, np.sqrt(t), np.sqrt(2 * missing / np.log(len(z))))

    return learner


def fed_ftrl(
    losses: Float,
    W: Float,
    sigma2: float,
    D: int,
    scales: tuple[float, float, float, float, float],
    uniforms: Float,
) -> Played:
    """Section by section of the definition; scales are a, a₀, b, b₀ and the truncation's 12."""
    T, N, K = losses.shape
    a, a0, b, b0, twelve = scales
    total = np.zeros((N, K))
    records: list[tuple[int, int, float]] = []  # round, arm, value
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        out.z[t - 1] = total
        C = min(np.log(N * t), np.sqrt(N)) / (1 - sigma2) + 2 + D
        one_over_eta = a * np.sqrt(N * t) + a0 * 169 * N**2 * D
        one_over_gamma = b * N * np.sqrt(C * t / np.log(K))
        one_over_gamma += b0 * (36 * D**2 * (K - 1) ** (2 / 3) + 4 * C**2)
        new = np.zeros((N, K))
        for v in range(N):
            x = leader(total[v], one_over_eta, one_over_gamma)
            k = draw(x, uniforms[t - 1, v])
            out.p[t - 1, v], out.action[t - 1, v] = x, k
            estimate = losses[t - 1, v, k] / x[k]
            truncated = losses[t - 1, v, k] / max(x[k], twelve * N * C / one_over_gamma)
            new[v, k] = N * truncated
            records.append((t, k, estimate - truncated))
        for v in range(N):
            for u in range(N):
                new[v] += W[u, v] * total[u]
            for s, k, value in records:
                if s == t - max(D, 1):
                    new[v, k] += value
        total = new
    return out

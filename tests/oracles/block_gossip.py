"""Gossip in blocks over two delayed learners, and FedExp3 with momentum, in plain NumPy.

Written from the definitions, block by block; nothing here is imported from the library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from tests.oracles.paper import Float, Played, Rate, draw, softmax

Leader = Callable[[Float, Float, int, int], Float]
"""What a copy plays: of what it and the other were fed, of its updates, and the block's round."""


def accelerated_gossip(x: Float, W: Float, weights: list[float]) -> Float:
    """x^{b+1} = ω W x^b + (1 - ω) x^{b-1}, x^{-1} = x^0; x is [N, K]."""
    before = x
    for weight in weights:
        after = np.zeros_like(x)
        for v in range(len(W)):
            for u in range(len(W)):
                after[v] += weight * W[u, v] * x[u]
            after[v] += (1 - weight) * before[v]
        before, x = x, after
    return x


def chebyshev(sigma: float, steps: int) -> list[float]:
    """ω_{b+1} = 2 T_b(1/σ) / (σ T_{b+1}(1/σ)), from the polynomials themselves; ω_1 = 1."""
    if sigma == 0:
        return [1.0] * steps
    polynomials = [1.0, 1 / sigma]
    for _ in range(steps):
        polynomials.append(2 / sigma * polynomials[-1] - polynomials[-2])
    out = [1.0]
    for b in range(1, steps):
        out.append(2 * polynomials[b] / (sigma * polynomials[b + 1]))
    return out


def block_gossip(
    losses: Float, W: Float, leader: Leader, alpha: Rate, weights: list[float], uniforms: Float
) -> Played:
    """One weight for each round of a block. `z` of the outcome holds what was sent."""
    T, N, K = losses.shape
    B = len(weights)
    copies = [np.zeros((N, K)), np.zeros((N, K))]
    fed = [0, 0]
    last_sums = np.zeros((N, K))  # of the block before
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for tau in range(1, (T + B - 1) // B + 1):
        first = (tau - 1) * B + 1
        mine, other = copies[tau % 2], copies[(tau + 1) % 2]
        p = np.zeros((N, K))
        for v in range(N):
            a = min(alpha(first), 1.0)
            p[v] = (1 - a) * leader(mine[v], other[v], fed[tau % 2], first) + a / K
        sums = np.zeros((N, K))
        for b in range(B):
            t = first + b
            if t > T:
                return out
            out.z[t - 1] = accelerated_gossip(last_sums, W, weights[:b])
            for v in range(N):
                arm = draw(p[v], uniforms[t - 1, v])
                sums[v, arm] += losses[t - 1, v, arm] / p[v, arm]
                out.p[t - 1, v], out.action[t - 1, v] = p[v], arm
        if tau >= 2:  # feedback for block τ - 1
            copies[(tau - 1) % 2] = copies[(tau - 1) % 2] + accelerated_gossip(
                last_sums, W, weights
            )
            fed[(tau - 1) % 2] += 1
        last_sums = sums
    return out


def regularised(fed: Float, tsallis: float, entropy: float, barrier: float) -> Float:
    """Argmin of ⟨q, L⟩ - 2a Σ sqrt(q) + b Σ q ln q - c Σ ln q, by nested roots.

    The derivative of arm k, L_k - a/sqrt(q_k) + b (1 + ln q_k) - c/q_k, grows with q_k; it is the
    same for all arms, and the larger it is the larger is every q_k.
    """

    def arms(level: float) -> Float:
        low, high = np.full(len(fed), -60.0), np.full(len(fed), 2.0)  # of ln q
        for _ in range(70):
            u = (low + high) / 2
            slope = fed - tsallis * np.exp(-u / 2) + entropy * (1 + u) - barrier * np.exp(-u)
            low, high = np.where(slope < level, u, low), np.where(slope < level, high, u)
        out: Float = np.exp((low + high) / 2)
        return out

    return arms(float(brentq(lambda level: arms(level).sum() - 1, -1e3, 1e3, xtol=1e-13)))


def small_loss(B: int, N: int, K: int, best_loss: float | None) -> Leader:
    """η = min{1/(4B), sqrt(ln K/(B L*))}, γ = min{N/12, sqrt(K N ln t/L*)}; L* at least 1."""

    def leader(fed: Float, other: Float, updates: int, first: int) -> Float:
        best = max(min(fed + other) if best_loss is None else best_loss, 1.0)
        eta = min(1 / (4 * B), np.sqrt(np.log(K) / (B * best)))
        gamma = min(N / 12, np.sqrt(K * N * np.log(max(first, 2)) / best))
        return regularised(fed, 0.0, 1 / eta, 1 / gamma)

    return leader


def best_of_both_worlds(B: int, N: int, K: int) -> Leader:
    """η_s = min{1/B, sqrt(ln K/(s B²))}, γ_s = sqrt(N/(s B)), s - 1 updates so far."""

    def leader(fed: Float, other: Float, updates: int, first: int) -> Float:
        s = updates + 1
        eta = min(1 / B, np.sqrt(np.log(K) / (s * B**2)))
        return regularised(fed, 1 / np.sqrt(N / (s * B)), 1 / eta, 0.0)

    return leader


def accelerated_fedexp3(
    losses: Float, W: Float, eta: Rate, gamma: Rate, kappa: float, uniforms: Float
) -> Played:
    """z of round t is the sum over s < t of g_s after t - 1 - s steps of accelerated gossip."""
    T, N, K = losses.shape
    estimates: list[Float] = []
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        z = np.zeros((N, K))
        for s, g in enumerate(estimates, start=1):
            z += accelerated_gossip(g, W, [1 + kappa] * (t - 1 - s))
        out.z[t - 1] = z
        g = np.zeros((N, K))
        for v in range(N):
            x = softmax(z[v], eta(max(t - 1, 1)))
            p = (1 - min(gamma(t), 1.0)) * x + min(gamma(t), 1.0) / K
            arm = draw(p, uniforms[t - 1, v])
            g[v, arm] = losses[t - 1, v, arm] / p[arm]
            out.p[t - 1, v], out.action[t - 1, v] = p, arm
        estimates.append(g)
    return out

"""Gossip in blocks over two delayed learners, and FedExp3 with momentum, in plain NumPy.

Written from the definitions, block by block; nothing here is imported from the library.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .oracle import Float, Played, Rate, draw, softmax

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

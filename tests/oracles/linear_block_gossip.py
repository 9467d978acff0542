"""LinearBlockGossip in plain NumPy, line by line from its definition.

Nothing here is imported from the library.
"""

from __future__ import annotations

import numpy as np

from tests.oracles.paper import Float, Played, Rate, draw, softmax


def chebyshev(sigma: float, steps: int) -> list[float]:
    """ω_1 = 1, ω_2 = 2/(2 - σ²), ω_{b+1} = 1/(1 - σ² ω_b / 4)."""
    weights = [1.0, 2 / (2 - sigma**2)]
    for _ in range(2, steps):
        weights.append(1 / (1 - sigma**2 * weights[-1] / 4))
    return weights


def linear_block_gossip(
    losses: Float,
    actions: Float,
    members: list[int],
    W: Float,
    *,
    sigma: float,
    block: int,
    eta: Rate,
    beta: Rate,
    alpha: float,
    uniforms: Float,
) -> Played:
    """Blocks τ = 1, 2, ... of `block` rounds, the last one perhaps shorter.

    `z` of the outcome, `[T, N, |S|]`, holds what was sent.

    Args:
        losses: `[T, N, K]`.
        actions: a_k, `[K, d]`, spanning R^d.
        members: S.
        W: `[N, N]`.
        sigma: σ2 of Chebyshev's weights.
        block: B.
        eta: η of the block that starts in a given round.
        beta: β, likewise.
        alpha: α.
        uniforms: `[T, N]`.
    """
    T, N, K = losses.shape
    d, size = actions.shape[1], len(members)
    S = np.array([actions[j] for j in members]).T  # [d, |S|]
    coefficients = [S.T @ np.linalg.inv(S @ S.T) @ actions[k] for k in range(K)]  # λ^(k)
    omega = chebyshev(sigma, block)
    fed = np.zeros((2, N, size))  # what the two copies of each agent's learner were fed
    x = np.zeros((N, size))  # block 0 had no rounds
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, size)))
    t, tau = 0, 0
    while t < T:
        tau += 1
        first = t + 1
        p, inverse = np.zeros((N, K)), np.zeros((N, d, d))
        for v in range(N):
            total = np.zeros(K)
            for k in range(K):
                for j in range(size):
                    total[k] += coefficients[k][j] * fed[tau % 2, v, j]
            leader = softmax(total, eta(first))
            for k in range(K):
                p[v, k] = (1 - alpha - beta(first)) * leader[k] + alpha / K
                if k in members:
                    p[v, k] += beta(first) / size
            M = np.zeros((d, d))
            for k in range(K):
                M += p[v, k] * np.outer(actions[k], actions[k])
            inverse[v] = np.linalg.inv(M)
        gathered = np.zeros((N, size))
        previous = x.copy()
        for b in range(block):
            if t == T:
                return out
            t += 1
            out.z[t - 1] = x
            for v in range(N):
                a = draw(p[v], uniforms[t - 1, v])
                theta = inverse[v] @ actions[a] * losses[t - 1, v, a]
                for j in range(size):
                    gathered[v, j] += S[:, j] @ theta
                out.p[t - 1, v], out.action[t - 1, v] = p[v], a
            mixed = np.zeros((N, size))
            for v in range(N):
                for u in range(N):
                    mixed[v] += W[u, v] * x[u]
            x, previous = omega[b] * mixed + (1 - omega[b]) * previous, x
        if tau >= 2:
            fed[(tau - 1) % 2] += x  # the losses of block τ - 1
        x = gathered
    return out

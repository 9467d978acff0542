"""FedExp3 that weighs several memories, and FedExp3 whose arms share, in plain NumPy."""

from __future__ import annotations

import numpy as np

from .paper import Float, Played, Rate, default_rate, draw, softmax

KEPT = (1 - 1 / 30, 1 - 1 / 100, 1 - 1 / 300, 1 - 1 / 1000, 1.0)
"""λ of each memory."""
PRIOR = np.array([0.0125, 0.0125, 0.0125, 0.0125, 0.95])
"""What each weighs before it has lost."""


def tracking_fedexp3(losses: Float, W: Float, gamma: Rate, uniforms: Float) -> Played:
    """Every memory m has a z of its own; L[m] is what it would have lost, and weighs it."""
    T, N, K = losses.shape
    M = len(KEPT)
    z = np.zeros((N, M, K))
    L = np.zeros((N, M))
    sent = np.zeros((T, N, M * K + M))
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), sent)

    def small_loss(lost: Float) -> float:
        return 2 * float(np.sqrt(np.log(M) / ((M / N + 1) * (0.5 + lost.min()))))

    eta = default_rate(W, K)
    for t in range(1, T + 1):
        z_next, L_next = np.zeros_like(z), np.zeros_like(L)
        for v in range(N):
            sent[t - 1, v] = [*z[v].ravel(), *L[v]]
            w = softmax(L[v], small_loss(L[v]))
            x = [softmax(z[v, m], eta(z[v, m])) for m in range(M)]
            mixed = np.zeros(K)
            for m in range(M):
                mixed += PRIOR[m] * w[m] * x[m]
            mixed /= PRIOR @ w
            p = (1 - min(gamma(t), 1.0)) * mixed + min(gamma(t), 1.0) / K
            a = draw(p, uniforms[t - 1, v])
            out.p[t - 1, v], out.action[t - 1, v] = p, a
            g = losses[t - 1, v, a] / p[a]
            for m in range(M):
                heard = np.zeros(K)
                for u in range(N):
                    heard += W[u, v] * z[u, m]
                    L_next[v, m] += (1 - 1 / max(300, t / 10)) * W[u, v] * L[u, m]
                L_next[v, m] += x[m][a] * g
                z_next[v, m] = KEPT[m] * heard
                z_next[v, m, a] += g
        z, L = z_next, L_next
    return out


def sharing_fedexp3(losses: Float, W: Float, gamma: Rate, share: float, uniforms: Float) -> Played:
    """Weights are mixed with uniform ones; z is what has the mixed weights, and its least stays."""
    T, N, K = losses.shape
    z = np.zeros((N, K))
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))

    rate = default_rate(W, K)
    for t in range(1, T + 1):
        out.z[t - 1] = z
        z_next = np.zeros_like(z)
        for v in range(N):
            x = softmax(z[v], rate(z[v]))
            p = (1 - min(gamma(t), 1.0)) * x + min(gamma(t), 1.0) / K
            a = draw(p, uniforms[t - 1, v])
            out.p[t - 1, v], out.action[t - 1, v] = p, a
            y = np.zeros(K)
            for u in range(N):
                y += W[u, v] * z[u]
            y[a] += losses[t - 1, v, a] / p[a]
            eta = rate(y)
            weights = (1 - share) * softmax(y, eta) + share / K
            z_next[v] = y.min() - np.log(weights / weights.max()) / eta
        z = z_next
    return out

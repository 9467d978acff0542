"""Algorithms with noise of their own in plain NumPy, given the uniforms that it is made of."""

from __future__ import annotations

import numpy as np

from .paper import Float, Played, Rate, draw, softmax


def laplace(u: float) -> float:
    """Where the distribution function of density exp(-|x|)/2 is u."""
    return float(np.log(2 * u) if u < 0.5 else -np.log(2 - 2 * u))


def private_fedexp3(
    losses: Float,
    W: Float,
    eta: Rate,
    gamma: Rate,
    uniforms: Float,
    noise: Float,
    *,
    epsilon: float,
    C: float,
    B: int,
) -> Played:
    """Bounded estimates of B rounds, noised in every entry before anything sees them."""
    T, N, K = losses.shape
    z = np.zeros((N, K))
    secret = np.zeros((N, K))
    b = np.full(N, 0.5)
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        out.z[t - 1] = z
        for v in range(N):
            p = (1 - gamma(t)) * softmax(z[v], eta(max(t - 1, 1))) + gamma(t) / K
            a = draw(p, uniforms[t - 1, v])
            secret[v, a] += (losses[t - 1, v, a] - b[v]) / max(p[a], 1 / C)
            out.p[t - 1, v], out.action[t - 1, v] = p, a
        z = W.T @ z
        if t % B == 0:
            for v in range(N):
                p = (1 - gamma(t)) * softmax(z[v], eta(max(t - 1, 1))) + gamma(t) / K
                scale, lost = 2 * max(b[v], 1 - b[v]) * C / epsilon, 0.0
                for k in range(K):
                    S = secret[v, k] + scale * laplace(noise[t - 1, v, k])
                    z[v, k] += S
                    lost += max(p[k], 1 / C) * S
                b[v] = min(max(b[v] + lost / (5 * B), 0.0), 1.0)
            secret = np.zeros((N, K))
    return out


def held_fedexp3(
    losses: Float,
    W: Float,
    eta: Rate,
    gamma: Rate,
    uniforms: Float,
    noise: Float,
    *,
    epsilon: float,
    B: int,
) -> Played:
    """One arm for B rounds; z(a) grows by the noised sum of its losses over p(a)."""
    T, N, K = losses.shape
    z = np.zeros((N, K))
    arm = np.zeros(N, int)
    drawn_with = np.zeros(N)
    total = np.zeros(N)
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        out.z[t - 1] = z
        for v in range(N):
            if (t - 1) % B == 0:
                p = (1 - gamma(t)) * softmax(z[v], eta(max(t - 1, 1))) + gamma(t) / K
                arm[v] = draw(p, uniforms[t - 1, v])
                drawn_with[v], total[v] = p[arm[v]], 0.0
                out.p[t - 1, v] = p
            else:
                out.p[t - 1, v, arm[v]] = 1.0
            out.action[t - 1, v] = arm[v]
            total[v] += losses[t - 1, v, arm[v]]
        z = W.T @ z
        if t % B == 0:
            for v in range(N):
                noised = total[v] + laplace(noise[t - 1, v, arm[v]]) / epsilon
                z[v, arm[v]] += noised / drawn_with[v]
    return out

"""The paper in plain NumPy, line by line: one loop per loop of the paper, float64, no cleverness.

The fast engine must equal this. Nothing here is imported from the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Float = np.ndarray[Any, np.dtype[np.float64]]
Int = np.ndarray[Any, np.dtype[np.int64]]
Rate = Callable[[int], float]


@dataclass
class Played:
    p: Float  # [T, N, K]
    action: Int  # [T, N]
    z: Float  # [T, N, K], before each round


def draw(p: Float, u: float) -> int:
    """The first arm whose cumulative probability exceeds u (times the total, against rounding)."""
    total = 0.0
    for k in range(len(p)):
        total += p[k]
    cumulative = 0.0
    for k in range(len(p)):
        cumulative += p[k]
        if cumulative > u * total:
            return k
    raise AssertionError("u must be below 1")


def softmax(z: Float, eta: float) -> Float:
    weights = np.exp(-eta * (z - z.min()))
    out: Float = weights / weights.sum()
    return out


def scatter(W: Float) -> float:
    """Σ_k ‖W^k - 11ᵀ/N‖_F² / N: how far apart W leaves sums to which everyone adds."""
    N = len(W)
    total, power = 0.0, np.eye(N)
    while (apart := float(((power - 1 / N) ** 2).sum())) > 1e-13:
        total += apart / N
        power = power @ W
    return total


def default_rate(W: Float, K: int, c: float = 2) -> Callable[[Float], float]:
    """FedExp3's, from what an agent estimates; with W = [[1]] Exp3's."""
    N, S = len(W), scatter(W)

    def rate(z: Float) -> float:
        L = z.min()
        small_loss = float(np.sqrt(np.log(K) / ((K / N + 1) * (0.5 + L))))
        slow_gossip = float(np.cbrt(6 * np.log(K) / ((K - 1) * S * L))) if S * L else np.inf
        return c * min(small_loss, slow_gossip)

    return rate


def fedexp3(
    losses: Float,
    W: Float,
    eta: Rate,
    gamma: Rate,
    uniforms: Float,
    adapted: Callable[[Float], float] | None = None,
    mix: Callable[[int, Float], Float] | None = None,
    kept: float = 1.0,
) -> Played:
    """Algorithm 1. With W the identity it is Exp3.

    `adapted` gives η from z instead, and `mix` what agents make of z in round t, instead of W z.
    `kept` is the share λ of what is known that a round leaves.
    """
    T, N, K = losses.shape
    z = np.zeros((N, K))
    x = np.full((N, K), 1 / K)
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        out.z[t - 1] = z
        g = np.zeros((N, K))
        for v in range(N):
            p = (1 - min(gamma(t), 1.0)) * x[v] + min(gamma(t), 1.0) / K  # line 3
            a = draw(p, uniforms[t - 1, v])  # line 4
            g[v, a] = losses[t - 1, v, a] / p[a]  # line 5
            out.p[t - 1, v], out.action[t - 1, v] = p, a
        z_next = np.zeros((N, K)) if mix is None else mix(t, z)
        for v in range(N):
            for u in range(N) if mix is None else ():
                z_next[v] += W[u, v] * z[u]  # line 6, the agent itself included
            z_next[v] = kept * z_next[v] + g[v]
            x[v] = softmax(z_next[v], adapted(z_next[v]) if adapted else eta(t))  # line 7
        z = z_next
    return out


def fedhedge(losses: Float, W: Float, eta: Rate, uniforms: Float) -> Played:
    """Dual averaging with the whole loss vector."""
    T, N, K = losses.shape
    z = np.zeros((N, K))
    x = np.full((N, K), 1 / K)
    out = Played(np.zeros((T, N, K)), np.zeros((T, N), int), np.zeros((T, N, K)))
    for t in range(1, T + 1):
        out.z[t - 1] = z
        z_next = np.zeros((N, K))
        for v in range(N):
            out.p[t - 1, v], out.action[t - 1, v] = x[v], draw(x[v], uniforms[t - 1, v])
            for u in range(N):
                z_next[v] += W[u, v] * z[u]
            z_next[v] += losses[t - 1, v]
        z = z_next
        for v in range(N):
            x[v] = softmax(z[v], eta(t))
    return out


@dataclass
class UCBState:
    n: Float  # [N, K]
    mean: Float
    theta: Float
    n_most: Float


def gossip_ucb_start(N: int, K: int) -> UCBState:
    return UCBState(np.zeros((N, K)), np.zeros((N, K)), np.zeros((N, K)), np.zeros((N, K)))


def gossip_ucb_round(
    state: UCBState,
    losses: Float,
    W: Float,
    neighbours: list[list[int]],
    uniforms: Float,
    t: int,
    mixed: Float | None = None,
) -> tuple[UCBState, Float, Int]:
    """One round of GossipUCB: play, exchange what was known at the round's start, update.

    `mixed` is what agents make of each other's estimates, where that is not W theta.
    """
    N, K = losses.shape
    p = np.zeros((N, K))
    action = np.zeros(N, int)
    n, mean = state.n.copy(), state.mean.copy()
    for i in range(N):
        if t <= K:
            due = [t - 1]
        else:
            due = [k for k in range(K) if state.n[i, k] < state.n_most[i, k] - N]
            if not due:
                score = [
                    state.theta[i, k] + np.sqrt(2 * N * np.log(t) / state.n[i, k]) for k in range(K)
                ]
                best = max(score)
                due = [k for k in range(K) if score[k] >= best - 1e-6 * (1 + abs(best))]
        for k in due:
            p[i, k] = 1 / len(due)
        a = action[i] = draw(p[i], uniforms[i])
        n[i, a] += 1
        mean[i, a] += (1 - losses[i, a] - mean[i, a]) / n[i, a]
    theta, n_most = np.zeros((N, K)), np.zeros((N, K))
    for i in range(N):
        if t <= K:
            theta[i] = mean[i]
        else:
            for j in range(N) if mixed is None else ():
                theta[i] += W[j, i] * state.theta[j]
            theta[i] += (0.0 if mixed is None else mixed[i]) + mean[i] - state.mean[i]
        n_most[i] = n[i]
        for j in [i, *neighbours[i]]:
            n_most[i] = np.maximum(n_most[i], state.n_most[j])
    return UCBState(n, mean, theta, n_most), p, action


def regret(losses: Float, action: Int) -> Float:
    """Mean over agents of the regret against the arm best at each time, [T]."""
    T, N, K = losses.shape
    out = np.zeros(T)
    incurred = 0.0
    arms = np.zeros(K)
    for t in range(T):
        mean_loss = losses[t].mean(axis=0)
        incurred += np.mean([mean_loss[action[t, v]] for v in range(N)])
        arms += mean_loss
        out[t] = incurred - arms.min()
    return out

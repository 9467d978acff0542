"""Gossip over links that lose messages, edge by edge: one loop for each rule, no cleverness."""

from __future__ import annotations

from typing import Any

import numpy as np

from .paper import Float, Int

Bool = np.ndarray[Any, np.dtype[np.bool_]]


class Links:
    """The links of one run.

    Messages are numbered: those from the first to the second end of the edges, then those back.
    """

    def __init__(self, rule: str, W: Float, edges: Int, arrive: Bool, age: Int | None = None):
        self.rule, self.W, self.edges = rule, W, edges
        self.arrive, self.age = arrive, age  # [T, 2E]
        self.past: list[Float] = []
        self.pending: dict[int, Float] = {}

    def arrives(self, t: int, e: int, forth: bool) -> bool:
        return bool(self.arrive[t - 1, e if forth else e + len(self.edges)])

    def message(self, t: int, e: int, forth: bool) -> Float:
        """What arrives over an edge in round t: perhaps something old."""
        sender = self.edges[e, 0 if forth else 1]
        old = 0 if self.age is None else self.age[t - 1, e if forth else e + len(self.edges)]
        sent: Float = self.past[t - 1 - old][sender]
        return sent

    def heard(self, t: int, v: int) -> list[int]:
        """Of which neighbours agent v learns something in round t."""
        found = []
        for e, (low, high) in enumerate(self.edges):
            there, back = self.arrives(t, e, True), self.arrives(t, e, False)
            if self.rule == "symmetric":
                there = back = there and back
            if self.rule == "flow":
                there = there and back  # an answer to a report
            if v == high and there:
                found.append(low)
            if v == low and back:
                found.append(high)
        return found

    def unused(self) -> None:
        """Everyone overwrote what it received: no owner has given anything."""
        self.pending.clear()

    def mix(self, t: int, z: Float) -> Float:
        """What agents make of z `[N, K]` in round t; rounds come in order."""
        self.past.append(z.copy())
        new = z.copy()
        if self.rule == "lost":
            for v in range(len(z)):
                new[v] = self.W[v, v] * z[v]
        for e, (low, high) in enumerate(self.edges):
            w = self.W[low, high]
            there, back = self.arrives(t, e, True), self.arrives(t, e, False)
            if self.rule == "symmetric" and there and back:
                new[low] += w * (z[high] - z[low])
                new[high] += w * (z[low] - z[high])
            if self.rule == "receiver":
                if there:
                    new[high] += w * (self.message(t, e, True) - z[high])
                if back:
                    new[low] += w * (self.message(t, e, False) - z[low])
            if self.rule == "lost":
                if there:
                    new[high] += w * self.message(t, e, True)
                if back:
                    new[low] += w * self.message(t, e, False)
            if self.rule == "flow" and back:
                if e not in self.pending:
                    self.pending[e] = w * (z[low] - z[high])
                    new[low] -= self.pending[e]
                if there:
                    new[high] += self.pending.pop(e)
        return new

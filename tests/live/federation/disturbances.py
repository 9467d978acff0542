"""Random disturbances of a federation of real processes, drawn from a seed."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from fedbandits.live.operations.local_cluster import MemberProcess, start_member

from .forwarder import Forwarder, Forwarders

DECK = ("kill", "kill", "kill", "stop", "cut", "black hole", "forget", "slow")
"""Shuffled and dealt repeatedly, so that each kind happens."""

PAUSE = (0.3, 1.2)
"""Seconds between two disturbances; several may last at once."""

LASTS = (2.0, 12.0)
"""Seconds of a disturbance: below and above the ten after which a silent link is broken."""

DOWN = (0.0, 1.0)
"""Seconds until a killed agent is started again."""

Edge: TypeAlias = tuple[str, str]


class UnderWay(NamedTuple):
    """A disturbance that lasts."""

    ends: float
    victim: str | Edge
    undo: Callable[[], object]


class Links:
    """Forwarders in both directions of every edge, because either end may open the link.

    Args:
        forwarders: make and hold them.
        edges: of the federation.
    """

    def __init__(self, forwarders: Forwarders, edges: Iterable[Edge]) -> None:
        self._forwarders = forwarders
        self.of: dict[Edge, dict[str, Forwarder]] = {
            edge: {end: forwarders.make() for end in edge} for edge in edges
        }
        """By edge and end: the forwarder that leads to the end."""

    def lead(self, folder: Path) -> None:
        """Replace the neighbours' addresses by the forwarders' in every `agent.toml`."""
        for u, v in [way for edge in self.of for way in (edge, edge[::-1])]:
            link = self.of[(u, v) if (u, v) in self.of else (v, u)][v]
            file = folder / f"{u}.toml"
            text = file.read_text(encoding="utf-8")
            link.to = tomllib.loads(text)["addresses"][v]
            file.write_text(text.replace(f'"{link.to}"', f'"{link.address}"'), encoding="utf-8")

    def tell(self, edge: Edge, act: Callable[[Forwarder], None]) -> None:
        """Disturb or heal an edge."""
        self._forwarders.tell(act, self.of[edge].values())


class Chaos:
    """Kills and stops agents, and cuts, silences and slows down links.

    Args:
        members: the processes; those that are started again are put in their place.
        links: between them.
        folder: of their files.
        seed: what happens when and to whom.

    Attributes:
        happened: how often what did.
    """

    def __init__(
        self, members: dict[str, MemberProcess], links: Links, folder: Path, seed: int
    ) -> None:
        self.happened: Counter[str] = Counter()
        self._members, self._links, self._folder = members, links, folder
        self._chance = random.Random(seed)
        self._deck: list[str] = []
        self._under_way: list[UnderWay] = []

    def rage(self, seconds: float) -> None:
        """Disturb for this long, then undo all disturbances."""
        began = time.monotonic()
        try:
            while (now := time.monotonic()) < began + seconds:
                self._end([each for each in self._under_way if each.ends <= now])
                if not self._deck:
                    self._deck = self._chance.sample(DECK, len(DECK))
                self._begin(self._deck.pop(), now - began)
                time.sleep(self._chance.uniform(*PAUSE))
        finally:
            self._end(list(self._under_way))

    def _begin(self, kind: str, at: float) -> None:
        disturbed = {each.victim for each in self._under_way}
        whole: list[str | Edge] = [
            each
            for each in (self._members if kind in ("kill", "stop") else self._links.of)
            if each not in disturbed
        ]
        if not whole:
            return
        victim = self._chance.choice(whole)
        lasts = self._chance.uniform(*DOWN) if kind == "kill" else self._chance.choice(LASTS)
        undo = (
            self._disturb(kind, victim)
            if isinstance(victim, str)
            else self._disturb_link(kind, victim)
        )
        self._under_way.append(UnderWay(time.monotonic() + lasts, victim, undo))
        self.happened[kind] += 1
        sys.stdout.write(f"{at:6.1f} s  {kind} {victim} for {lasts:.1f} s\n")

    def _disturb(self, kind: str, name: str) -> Callable[[], object]:
        process = self._members[name].process
        if kind == "stop":
            os.kill(process.pid, signal.SIGSTOP)
            return partial(os.kill, process.pid, signal.SIGCONT)
        process.kill()
        process.wait()
        return partial(self._start, name)

    def _disturb_link(self, kind: str, edge: Edge) -> Callable[[], object]:
        acts: dict[str, Callable[[Forwarder], None]] = {
            "cut": Forwarder.cut,
            "black hole": Forwarder.black_hole,
            "forget": Forwarder.forget,
            "slow": partial(Forwarder.slow, seconds=self._chance.uniform(0.05, 1.0)),
        }
        self._links.tell(edge, acts[kind])
        return partial(self._links.tell, edge, Forwarder.heal)

    def _start(self, name: str) -> None:
        self._members[name] = start_member(name, self._members[name].url, self._folder)

    def _end(self, over: list[UnderWay]) -> None:
        for each in over:
            self._under_way.remove(each)
            each.undo()

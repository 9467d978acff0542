"""Regrets of algorithms on cases, as shares of the regret of uniform play on the same losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fedbandits.common.statistics import Interval
from fedbandits.paper.intervals import Floats, with_half
from fedbandits.paper.section import Options

from .ratios import mean_ratio


@dataclass(frozen=True)
class Sizes:
    """Sizes of a study.

    Attributes:
        agents: N.
        arms: K.
        horizon: T.
        draws: of the losses, each with its own randomness of the agents.
    """

    agents: int
    arms: int
    horizon: int
    draws: int

    @property
    def side(self) -> int:
        """Agents along one side of a square grid."""
        return math.isqrt(self.agents)

    def with_options(self, options: Options) -> Sizes:
        """Return these sizes with as many draws as `--runs` asks for."""
        return replace(self, draws=options.runs or self.draws)

    def seeds(self, seed: int) -> range:
        """Return a seed for each draw; two seeds of a study share none."""
        return range(seed * self.draws, (seed + 1) * self.draws)


class Entry(NamedTuple):
    """One algorithm on one case.

    Attributes:
        algorithm: its name.
        setting: how it is played, such as `default` or `tuned`.
        family: of the losses.
        network: its name.
        regret: expected regret at T, `[draws]` or `[draws, agents]`.
        uniform: exact regret of uniform play, `[draws]`.
    """

    algorithm: str
    setting: str
    family: str
    network: str
    regret: Floats
    uniform: Floats


Where = Callable[[Entry], bool]


def everywhere(entry: Entry) -> bool:  # noqa: ARG001
    """Accept every case."""
    return True


def select(
    entries: Iterable[Entry], algorithm: str, setting: str, where: Where = everywhere
) -> list[Entry]:
    """Return the entries of an algorithm in a setting, in some cases."""
    return [e for e in entries if (e.algorithm, e.setting) == (algorithm, setting) and where(e)]


def share(entries: Sequence[Entry], worst: bool = False) -> Interval:
    """Return regret over uniform play's, mean over cases, with a 95% interval over draws.

    Args:
        entries: with the same number of draws.
        worst: take the regret of the worst agent instead of the mean over agents.
    """
    return mean_ratio([(entry.regret, entry.uniform) for entry in entries], worst)


def percent(entries: Sequence[Entry], worst: bool = False) -> str:
    """Return the share in per cent as text; a dash without entries."""
    return with_half(share(entries, worst), scale=100) if entries else "-"


def ranked(entries: Sequence[Entry], setting: str, where: Where = everywhere) -> list[str]:
    """Return the algorithms by their share in a setting and some cases, the lowest first."""
    names = dict.fromkeys(entry.algorithm for entry in entries)
    return sorted(names, key=lambda name: share(select(entries, name, setting, where)).mean)

"""What neighbours learn: arms and losses reconstructed from messages, for every algorithm.

Agents play on five networks. In each a curious neighbour looks at an agent, keeps all messages it
sees, and tells which arm the agent played in each round and what it lost, beside a guess from the
agent's distribution alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb

from .measure import Interval, in_threads, interval
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedbandits.algorithms import AnyAlgorithm

COINS, GRADED = "coins", "graded"
SHOWN = "FedExp3"
"""Whose numbers the sentences are about."""
SENDERS = {
    name: kind
    for name, kind in fb.algorithms.REGISTRY.items()
    if kind.leaves and not kind.noised and name not in ("LinearBlockGossip", "TrackingFedExp3")
}
"""Algorithms that send something and play any arms. The attack looks at single rounds, and makes
nothing of noised sums of blocks. TrackingFedExp3 sends what FedExp3 sends, several times."""

EPSILONS = (0.1, 1.0, 3.0, 10.0)
"""Of randomised response."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """What is played.

    Attributes:
        agents: of complete, ring, star and path; the grid is nearly as large.
        arms: K.
        horizon: T.
        draws: of losses and agents' randomness.
    """

    agents: int
    arms: int
    horizon: int
    draws: int


FULL = Sizes(agents=10, arms=10, horizon=1000, draws=5)
QUICK = Sizes(agents=5, arms=4, horizon=100, draws=2)


class Pair(NamedTuple):
    """Who looks at whom, and on which network."""

    network: fb.Network
    attacker: int
    victim: int


class Leak(NamedTuple):
    """What was found, `[draws]` each.

    Attributes:
        found: the share of arms found, of rounds with a loss above 0.
        guessed: the same by the distribution alone.
        error: the median distance of the loss.
        spread: the same of who sees nothing and guesses the median.
    """

    found: Floats
    guessed: Floats
    error: Floats
    spread: Floats


Found = Mapping[tuple[str, str, str], Leak]
"""By losses, network and algorithm."""


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play, look and write; `leaks` as .png, .pdf and .svg, and `leaks.csv`.

    `options.runs` are the draws.
    """
    sizes = sizes or (QUICK if options.quick else FULL)
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    section = Section(
        "leaks",
        "What neighbours learn from messages",
        options.command("leaks"),
        settings={
            "losses": f"K = {sizes.arms}, T = {sizes.horizon:,}; {COINS}: 0 or 1, with means from "
            f"0.3 to 0.7; {GRADED}: between 0.05 and 0.95, with the same means",
            "networks": "; ".join(
                f"{name}: {pair.network.name}, agent {pair.attacker} looks at {pair.victim}"
                for name, pair in pairs(sizes).items()
            ),
            "gossip": "max_degree",
            "algorithms": "their defaults",
            "seeds": f"{sizes.draws} draws of losses and agents, seeds "
            f"{options.seed * sizes.draws} on; intervals are over draws",
        },
    )
    with section.timed(f"{len(SENDERS)} algorithms, {sizes.draws} draws"):
        found = play(sizes, options.seed)
    section.add_csv(options.out, "leaks.csv", frame(found))
    with section.timed("randomised response"):
        behind = blurred(sizes, options.seed)
    section.tables += [arms_table(found, COINS), arms_table(found, GRADED), loss_table(found)]
    section.tables.append(blurred_table(behind))
    section.add_picture(options.out, draw(found), PICTURE)
    section.paragraphs += findings(found)
    return section


def pairs(sizes: Sizes) -> dict[str, Pair]:
    """A curious neighbour on each network; on a star both ways."""
    n, side = sizes.agents, max(2, round(sizes.agents**0.5 + 0.5))
    middle = side * (side // 2) + side // 2
    return {
        "complete": Pair(fb.networks.complete(n), 0, 1),
        "ring": Pair(fb.networks.ring(n), 0, 1),
        "grid": Pair(fb.networks.grid(side, side), middle, middle - 1),
        "star, hub looks": Pair(fb.networks.star(n), 0, 1),
        "star, leaf looks": Pair(fb.networks.star(n), 1, 0),
        "path": Pair(fb.networks.path(n), n // 2, n // 2 + 1),
    }


def problem_of(losses: str, agents: int, sizes: Sizes, seed: int) -> fb.Problem:
    """Losses of one draw, on means from 0.3 to 0.7."""
    rng = np.random.default_rng([seed, losses == COINS])
    means = rng.permutation(np.linspace(0.3, 0.7, sizes.arms))
    shape = (sizes.horizon, agents, sizes.arms)
    if losses == COINS:
        return fb.problems.from_tensor((rng.uniform(size=shape) < means).astype(np.float32))
    return fb.problems.from_tensor(means + rng.uniform(-0.25, 0.25, size=shape))


def play(sizes: Sizes, seed: int) -> dict[tuple[str, str, str], Leak]:
    """Every algorithm on every network and kind of losses."""
    seeds = range(seed * sizes.draws, (seed + 1) * sizes.draws)
    looks = pairs(sizes)

    def one(cell: tuple[str, str, str]) -> Leak:
        losses, name, kind = cell
        network, attacker, victim = looks[name]
        gossip = fb.gossip.max_degree(network)
        algorithm: AnyAlgorithm = SENDERS[kind]()
        rows = []
        for s in seeds:
            problem = problem_of(losses, network.agents, sizes, s)
            played = fb.trajectory(problem, algorithm, gossip, seed=s)
            seen = fb.privacy.reconstruct(played, attacker, victim)
            rows.append((seen.arms_found, seen.arms_guessed, seen.loss_error, seen.loss_spread))
        return Leak(*np.array(rows).T)

    cells = [
        (losses, name, kind) for losses in (COINS, GRADED) for name in looks for kind in SENDERS
    ]
    return dict(zip(cells, in_threads(one, cells, "leaks"), strict=True))


def frame(found: Found) -> pd.DataFrame:
    """Every mean with its interval, tidy."""
    import pandas as pd

    rows = [
        (*cell, what, *interval(values), len(values))
        for cell, leak in found.items()
        for what, values in leak._asdict().items()
    ]
    columns = ["losses", "network", "algorithm", "what", "mean", "low", "high", "draws"]
    return pd.DataFrame(rows, columns=columns)


def _names(found: Found, place: int) -> list[str]:
    return list(dict.fromkeys(cell[place] for cell in found))


def _percent(values: Floats) -> str:
    mean, low, high = interval(values)
    half = "" if np.isnan(low) else f" ± {50 * (high - low):.1f}"
    return f"{100 * mean:.1f}{half}"


def arms_table(found: Found, losses: str) -> Table:
    """Arms found, beside the guess."""
    networks = _names(found, 1)
    rows = []
    for kind in _names(found, 2):
        leaks = [found[losses, name, kind] for name in networks]
        rows.append([kind, *(f"{_percent(x.found)} ({100 * x.guessed.mean():.0f})" for x in leaks)])
    note = (
        "In % of rounds with a loss above 0, ± half a 95% interval over draws; in brackets, of the "
        "same rounds, by guessing the likeliest arm of the agent's distribution. A loss of 0 moves "
        "no estimate, so that only the guess is left then. BlockGossip tells nothing of single "
        "rounds, but the first message of a block is the sum of the agent's own estimates. "
        "FedHedge's messages hold the losses of all arms, and nothing of the arm played."
    )
    return Table(
        f"Arms found by a curious neighbour: {losses}", ("algorithm", *networks), rows, note
    )


def loss_table(found: Found) -> Table:
    """Median error of graded losses."""
    networks = _names(found, 1)
    rows = [
        [kind, *(f"{found[GRADED, name, kind].error.mean():.3f}" for name in networks)]
        for kind in _names(found, 2)
    ]
    note = (
        "Median over rounds of the distance between the loss as the neighbour has it and as it "
        "was, mean over draws. Who sees nothing and guesses the median is off by "
        f"{_typical_spread(found):.3f}."
    )
    return Table("Error of the losses: graded", ("algorithm", *networks), rows, note)


def _typical_spread(found: Found) -> float:
    return float(np.mean([leak.spread for (of, _, _), leak in found.items() if of == GRADED]))


def blurred(sizes: Sizes, seed: int) -> dict[float, Floats]:
    """Losses found behind randomised response, FedExp3 on the complete network: `[draws]` by ε.

    Losses are fair coins, so that guessing finds half of them.
    """
    network, attacker, victim = pairs(sizes)["complete"]
    gossip = fb.gossip.max_degree(network)
    found = {}
    for epsilon in EPSILONS:
        privacy = fb.privacy.randomised_response(epsilon)
        shares = []
        for s in range(seed * sizes.draws, (seed + 1) * sizes.draws):
            shape = (sizes.horizon, network.agents, sizes.arms)
            coins = np.random.default_rng([s, 2]).integers(2, size=shape)
            problem = fb.problems.from_tensor(coins.astype(np.float32))
            played = fb.trajectory(problem, fb.FedExp3(), gossip, seed=s, privacy=privacy)
            shares.append(fb.privacy.reconstruct(played, attacker, victim).losses_found)
        found[epsilon] = np.array(shares)
    return found


def blurred_table(found: Mapping[float, Floats]) -> Table:
    """Losses found behind noisy bits, beside the limit."""
    rows = [
        (f"{epsilon:g}", _percent(shares), f"{100 / (1 + np.exp(-epsilon)):.1f}")
        for epsilon, shares in found.items()
    ]
    note = (
        f"{SHOWN} with randomised response: ε per round for the losses of one agent (event level), "
        "even if all others collude; arms are public. Losses are fair coins on the complete "
        "network, where without it all are found. In %, ± half a 95% interval over draws; 50 is "
        "guessing, and the limit, e^ε/(1 + e^ε), holds for every attack, in expectation."
    )
    return Table("Losses found behind randomised response", ("ε", "found", "limit"), rows, note)


def over_networks(found: Found, losses: str, kind: str, what: Callable[[Leak], Floats]) -> Interval:
    """The mean over networks, with an interval over draws."""
    values = [what(found[losses, name, kind]) for name in _names(found, 1)]
    return interval(np.mean(values, axis=0))


def findings(found: Found) -> list[str]:
    """What was found, in words made from the numbers."""
    networks = _names(found, 1)
    least = min(networks, key=lambda name: found[GRADED, name, SHOWN].found.mean())
    coins = [found[COINS, name, SHOWN].found.mean() for name in networks]
    graded = found[GRADED, least, SHOWN]
    return [
        f"{SHOWN}: of losses that are coins a neighbour finds {100 * min(coins):.1f} to "
        f"{100 * max(coins):.1f} % of the arms that lost, depending on the network; of graded "
        f"losses at least {100 * graded.found.mean():.1f} % ({least}), where a guess from the "
        f"distribution finds {100 * graded.guessed.mean():.1f} %, and the loss itself with a "
        f"median error of {graded.error.mean():.3f}.",
        "No network protects anybody, and nothing here is a privacy guarantee: this is one attack, "
        "and others may find more.",
    ]


PICTURE = Picture(
    "leaks",
    "How often a curious neighbour tells which arm an agent played, from the messages it sees "
    "(filled) and by guessing the likeliest arm (open): mean over networks, rounds with a loss "
    "above 0, 95% intervals over draws.",
    "For each algorithm two marks, the share of arms found from messages and by guessing, for "
    "coins and for graded losses.",
)


def draw(found: Found) -> Figure:
    """A panel for each kind of losses, a row for each algorithm."""
    import matplotlib.pyplot as plt

    from fedbandits.results.plots import COLOURS

    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True, layout="constrained")
    kinds = _names(found, 2)
    places = np.arange(len(kinds))
    marks = (
        ("told from the messages", lambda leak: leak.found, COLOURS[0], COLOURS[0], "o"),
        ("guessed without them", lambda leak: leak.guessed, COLOURS[1], "none", "D"),
    )
    for ax, losses in zip(panels, (COINS, GRADED), strict=True):
        for label, what, colour, fill, mark in marks:
            values = [over_networks(found, losses, kind, what) for kind in kinds]
            mean, low, high = (100 * np.array(part) for part in zip(*values, strict=True))
            bars = np.nan_to_num(np.array([mean - low, high - mean]))
            ax.errorbar(
                mean,
                places,
                xerr=bars,
                fmt=mark,
                ms=5,
                color=colour,
                mfc=fill,
                capsize=2,
                label=label,
            )
        ax.set_yticks(places, kinds)
        ax.set_xlim(0, 104)
        kind = "losses of 0 or 1" if losses == COINS else "losses in between"
        ax.set_title(kind, fontsize="medium")
        ax.set_xlabel("% of an agent's choices")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
    panels[0].invert_yaxis()
    figure.suptitle("What a neighbour knows of an agent's choices", fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small"
    )
    return figure

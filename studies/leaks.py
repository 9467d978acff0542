"""Leaks: arms and losses that neighbours reconstruct from messages, for every algorithm.

Agents play on five networks. On each a curious neighbour keeps all messages it receives. It guesses
the arm that an agent played in each round and its loss. The comparison is a guess from the agent's
distribution alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.common.statistics import Interval, interval
from fedbandits.paper.cells import in_threads
from fedbandits.paper.intervals import Floats, with_half
from fedbandits.paper.pictures import Picture, error_bars, legend_under, new_panels
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import COLOURS

from .entries import Sizes

COINS, GRADED = "coins", "graded"
SHOWN = "FedExp3"
"""The algorithm of the findings."""
SENDERS = {
    name: kind
    for name, kind in fb.algorithms.REGISTRY.items()
    if kind.leaves and not kind.noised and name not in ("LinearBlockGossip", "TrackingFedExp3")
}
"""Algorithms that send messages and accept any arms. The attack works round by round, so sums of
blocks with noise hide from it. TrackingFedExp3 sends several copies of FedExp3's messages."""

EPSILONS = (0.1, 1.0, 3.0, 10.0)
"""Of randomised response."""

FULL = Sizes(agents=10, arms=10, horizon=1000, draws=5)
QUICK = Sizes(agents=5, arms=4, horizon=100, draws=2)


class Pair(NamedTuple):
    """An attacker and its victim on a network."""

    network: fb.Network
    attacker: int
    victim: int


class Leak(NamedTuple):
    """Success of the attack, `[draws]` each.

    Attributes:
        found: share of arms found, of rounds with a loss above 0.
        guessed: the same for guesses from the distribution alone.
        error: median error of the loss.
        spread: median error of a guess that is always the median loss.
    """

    found: Floats
    guessed: Floats
    error: Floats
    spread: Floats


Found = Mapping[tuple[str, str, str], Leak]
"""By losses, network and algorithm."""


def reproduce(options: Options, sizes: Sizes | None = None) -> Section:
    """Play and attack; write `leaks` as .png, .pdf and .svg, and `leaks.csv`.

    `options.runs` are the draws.
    """
    sizes = (sizes or (QUICK if options.quick else FULL)).with_options(options)
    section = options.section(
        "leaks",
        "What neighbours learn from messages",
        {
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
    """Return a curious neighbour on each network; on a star, the hub and a leaf."""
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
    """Return the losses of one draw, with means from 0.3 to 0.7."""
    rng = np.random.default_rng([seed, losses == COINS])
    means = rng.permutation(np.linspace(0.3, 0.7, sizes.arms))
    shape = (sizes.horizon, agents, sizes.arms)
    if losses == COINS:
        return fb.problems.from_tensor((rng.uniform(size=shape) < means).astype(np.float32))
    return fb.problems.from_tensor(means + rng.uniform(-0.25, 0.25, size=shape))


def play(sizes: Sizes, seed: int) -> dict[tuple[str, str, str], Leak]:
    """Attack every algorithm on every network and kind of losses."""
    looks = pairs(sizes)

    def one(cell: tuple[str, str, str]) -> Leak:
        losses, name, kind = cell
        network, attacker, victim = looks[name]
        gossip = fb.gossip.max_degree(network)
        algorithm: AnyAlgorithm = SENDERS[kind]()
        rows = []
        for s in sizes.seeds(seed):
            problem = problem_of(losses, network.agents, sizes, s)
            played = fb.trajectory(problem, algorithm, gossip, seed=s)
            seen = fb.privacy.reconstruct(played, attacker, victim)
            rows.append((seen.arms_found, seen.arms_guessed, seen.loss_error, seen.loss_spread))
        return Leak(*np.array(rows).T)

    cells = list(product((COINS, GRADED), looks, SENDERS))
    return dict(zip(cells, in_threads(one, cells, "leaks"), strict=True))


def blurred(sizes: Sizes, seed: int) -> dict[float, Floats]:
    """Return the share of losses found under randomised response, `[draws]` by ε.

    FedExp3 plays on the complete network. Losses are fair coins, so guesses find half of them.
    """
    network, attacker, victim = pairs(sizes)["complete"]
    gossip = fb.gossip.max_degree(network)
    found = {}
    for epsilon in EPSILONS:
        privacy = fb.privacy.randomised_response(epsilon)
        shares = []
        for s in sizes.seeds(seed):
            shape = (sizes.horizon, network.agents, sizes.arms)
            coins = np.random.default_rng([s, 2]).integers(2, size=shape)
            problem = fb.problems.from_tensor(coins.astype(np.float32))
            played = fb.trajectory(problem, fb.FedExp3(), gossip, seed=s, privacy=privacy)
            shares.append(fb.privacy.reconstruct(played, attacker, victim).losses_found)
        found[epsilon] = np.array(shares)
    return found


def frame(found: Found) -> pd.DataFrame:
    """Return every mean with its interval, tidy."""
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
    return with_half(interval(values), scale=100)


def arms_table(found: Found, losses: str) -> Table:
    """Compare arms found with arms guessed."""

    def cell(kind: str, network: str) -> str:
        leak = found[losses, network, kind]
        return f"{_percent(leak.found)} ({100 * leak.guessed.mean():.0f})"

    note = (
        "In % of rounds with a loss above 0, ± half a 95% interval over draws; in brackets, of the "
        "same rounds, by guessing the likeliest arm of the agent's distribution. A loss of 0 moves "
        "no estimate, so that only the guess is left then. BlockGossip sends nothing about single "
        "rounds, but the first message of a block is the sum of the agent's own estimates. "
        "FedHedge's messages hold the losses of all arms, and nothing about the arm played."
    )
    return _by_network(f"Arms found by a curious neighbour: {losses}", found, cell, note)


def loss_table(found: Found) -> Table:
    """Return the median error of graded losses."""
    spreads = [leak.spread for (losses, _, _), leak in found.items() if losses == GRADED]
    note = (
        "Median over rounds of the distance between the loss as the neighbour reconstructs it and "
        "the true loss, mean over draws. A guess that is always the median is off by "
        f"{np.mean(spreads):.3f}."
    )
    return _by_network(
        "Error of the losses: graded",
        found,
        lambda kind, network: f"{found[GRADED, network, kind].error.mean():.3f}",
        note,
    )


def _by_network(title: str, found: Found, cell: Callable[[str, str], str], note: str) -> Table:
    networks = _names(found, 1)
    rows = [[kind, *(cell(kind, network) for network in networks)] for kind in _names(found, 2)]
    return Table(title, ("algorithm", *networks), rows, note)


def blurred_table(found: Mapping[float, Floats]) -> Table:
    """Compare losses found behind noisy bits with the theoretical limit."""
    return Table.of(
        "Losses found behind randomised response",
        found,
        [
            ("ε", lambda epsilon: f"{epsilon:g}"),
            ("found", lambda epsilon: _percent(found[epsilon])),
            ("limit", lambda epsilon: f"{100 / (1 + np.exp(-epsilon)):.1f}"),
        ],
        f"{SHOWN} with randomised response: ε per round for the losses of one agent (event level), "
        "even if all others collude; arms are public. Losses are fair coins on the complete "
        "network, where without it all are found. In %, ± half a 95% interval over draws; 50 is "
        "guessing, and the limit, e^ε/(1 + e^ε), holds for every attack, in expectation.",
    )


def findings(found: Found) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    networks = _names(found, 1)
    least = min(networks, key=lambda name: found[GRADED, name, SHOWN].found.mean())
    coins = [100 * found[COINS, name, SHOWN].found.mean() for name in networks]
    graded = found[GRADED, least, SHOWN]
    return [
        f"{SHOWN}: if losses are coins, a neighbour finds {min(coins):.1f} to {max(coins):.1f} % "
        "of the arms that lost, depending on the network. If they are graded, it finds at least "
        f"{100 * graded.found.mean():.1f} % ({least}), where guesses from the distribution find "
        f"{100 * graded.guessed.mean():.1f} %, and the loss itself with a median error of "
        f"{graded.error.mean():.3f}.",
        "No network protects anybody, and nothing here is a privacy guarantee: this is one attack, "
        "and others may find more.",
    ]


PICTURE = Picture(
    "leaks",
    "How often a curious neighbour finds the arm that an agent played, from the messages it sees "
    "(filled) and by guessing the likeliest arm (open): mean over networks, rounds with a loss "
    "above 0, 95% intervals over draws.",
    "For each algorithm two marks, the share of arms found from messages and by guessing, for "
    "coins and for graded losses.",
)


def draw(found: Found) -> Figure:
    """Draw a panel for each kind of losses, with a row for each algorithm."""
    networks, kinds = _names(found, 1), _names(found, 2)

    def over_networks(losses: str, kind: str, what: Callable[[Leak], Floats]) -> Interval:
        return interval(np.mean([what(found[losses, name, kind]) for name in networks], axis=0))

    figure, panels = new_panels(1, 2, 3.2, sharey=True)
    marks: Any = (
        (lambda leak: leak.found, {"fmt": "o", "color": COLOURS[0], "label": "from the messages"}),
        (
            lambda leak: leak.guessed,
            {"fmt": "D", "color": COLOURS[1], "mfc": "none", "label": "guessed without them"},
        ),
    )
    titles = {COINS: "losses of 0 or 1", GRADED: "losses in between"}
    for ax, (losses, title) in zip(panels, titles.items(), strict=True):
        for what, style in marks:
            mean, bars = error_bars([over_networks(losses, kind, what) for kind in kinds])
            ax.errorbar(100 * mean, range(len(kinds)), xerr=100 * bars, ms=5, capsize=2, **style)
        ax.set_yticks(range(len(kinds)), kinds)
        ax.set_xlim(0, 104)
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("% of an agent's choices")
    panels[0].invert_yaxis()
    figure.suptitle("Choices of an agent that a neighbour finds", fontsize="medium")
    legend_under(figure, panels[0], 2)
    return figure

"""Regret of every algorithm under lost messages, churn, a liar, noise and an adaptive adversary.

Two kinds of losses on three networks. Regret is that of the mean honest agent, in units of the
regret of uniform play on the same losses. A second table compares four rules for missing messages,
with FedExp3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.paper.cells import in_threads
from fedbandits.paper.pictures import Picture, error_bars, new_panels
from fedbandits.paper.section import Options, Section, Table
from fedbandits.results.plots import COLOURS

from .entries import Entry, Sizes, Where, everywhere, percent, ranked, select, share
from .leaderboard import players

LEFT_OUT = ("LinearBlockGossip", "TrackingFedExp3")
"""Algorithms left out: arms here are no vectors; some messages of the tracker are not about arms,
so a liar cannot promote an arm in them."""
SHOWN = "FedExp3"
EPSILON = 1.0
LOSS = 0.3
UNEQUAL = 0.9
"""Loss of the messages of every second agent."""
UP, DOWN = 200, 50
LIMIT = 1.0
LIE = 1e6
RULES = ("symmetric", "receiver", "flow", "lost")
NO_FAULT = "no fault"

FULL = Sizes(agents=36, arms=20, horizon=3000, draws=10)
QUICK = Sizes(agents=9, arms=5, horizon=300, draws=2)


class Case(NamedTuple):
    """Losses on a network, without faults."""

    problem: fb.Problem
    gossip: fb.Gossip


class Condition(NamedTuple):
    """A kind of fault.

    Attributes:
        what: description.
        play: simulates an algorithm under it on a case, with so many draws.
        takes: whether `simulate` accepts an algorithm under it.
    """

    what: str
    play: Callable[[Case, AnyAlgorithm, int], fb.Result]
    takes: Callable[[AnyAlgorithm], bool] = lambda _: True


def cases(sizes: Sizes, seed: int) -> dict[tuple[str, str], Case]:
    """Return two kinds of losses on three networks, by the names of both."""
    n, shape = sizes.agents, (sizes.agents, sizes.arms, sizes.horizon)
    problems = {
        "paper": fb.problems.activated_bernoulli(*shape, seed=seed),
        "heterogeneous": fb.problems.heterogeneous(*shape, seed=seed),
    }
    networks = (
        fb.networks.complete(n),
        fb.networks.grid(sizes.side, sizes.side),
        fb.networks.ring(n),
    )
    return {
        (family, network.family): Case(problem, fb.gossip.max_degree(network))
        for (family, problem), network in product(problems.items(), networks)
    }


def _simulate(case: Case, algorithm: AnyAlgorithm, draws: int, **conditions: Any) -> fb.Result:
    return fb.simulate(
        case.problem, algorithm, case.gossip, 1, draws=draws, progress=False, **conditions
    )


def on_bad_links(rule: str = "symmetric", **faults: Any) -> Callable[..., fb.Result]:
    """Return a simulation over unreliable links."""

    def play(case: Case, algorithm: AnyAlgorithm, draws: int) -> fb.Result:
        bad = fb.gossip.unreliable(case.gossip, rule=rule, **faults)
        return _simulate(case._replace(gossip=bad), algorithm, draws)

    return play


def every_second(sender: int, receiver: int) -> float:  # noqa: ARG001
    """Return the loss of a message if every second agent sends over bad links."""
    return UNEQUAL if sender % 2 else 0.0


def with_a_liar(limit: float | None = None) -> Callable[..., fb.Result]:
    """Return a simulation with an agent in the middle that promotes the worst arm."""

    def play(case: Case, algorithm: AnyAlgorithm, draws: int) -> fb.Result:
        worst = int(case.problem.block(1, case.problem.horizon).mean(axis=(0, 1)).argmax())
        agents = case.problem.agents
        middle = agents // 2 + round(agents**0.5) // 2
        if limit is not None:
            case = case._replace(gossip=fb.gossip.clipped(case.gossip, limit))
        liars = {middle: fb.attacks.promote(worst, by=LIE)}
        return _simulate(case, algorithm, draws, liars=liars)

    return play


def watched(case: Case, algorithm: AnyAlgorithm, draws: int) -> fb.Result:
    """Simulate with an adversary that hits last round's favourite."""
    problem = fb.problems.hit_favourite(case.problem)
    return _simulate(case._replace(problem=problem), algorithm, draws)


def blurred(case: Case, algorithm: AnyAlgorithm, draws: int) -> fb.Result:
    """Simulate with one noisy bit instead of a loss."""
    return _simulate(case, algorithm, draws, privacy=fb.privacy.randomised_response(EPSILON))


def floods_nothing(algorithm: AnyAlgorithm) -> bool:
    """Return whether no leaf is flooded: `simulate` rejects floods over bad links."""
    return all(leaf.combine != "flood" for leaf in algorithm.leaves.values())


def sends(algorithm: AnyAlgorithm) -> bool:
    """Return whether agents send messages, and so can lie."""
    return bool(algorithm.leaves)


def sees_one_loss(algorithm: AnyAlgorithm) -> bool:
    """Return whether agents see one loss, which one bit can replace."""
    return algorithm.feedback == "bandit"


CONDITIONS = {
    NO_FAULT: Condition("every message arrives", _simulate),
    "30% lost": Condition(
        f"each message is lost with probability {LOSS}; an edge counts if both arrive",
        on_bad_links(loss=LOSS),
        floods_nothing,
    ),
    "unequal loss": Condition(
        f"messages of every second agent are lost with probability {UNEQUAL}; an edge counts if "
        "both arrive",
        on_bad_links(loss=every_second),
        floods_nothing,
    ),
    "churn": Condition(
        f"each agent's links are up for {UP} rounds and down for {DOWN}",
        on_bad_links(up=UP, down=DOWN),
        floods_nothing,
    ),
    "a liar": Condition(
        f"one agent reports that the worst arm is better by {LIE:,.0f}", with_a_liar(), sends
    ),
    "a liar, clipped": Condition(
        f"the same, differences clipped at {LIMIT:g}", with_a_liar(LIMIT), sends
    ),
    "ε = 1": Condition(
        "randomised response: ε = 1 per round for the losses of one agent (event level), even if "
        "all others collude; arms are public",
        blurred,
        sees_one_loss,
    ),
    "watched": Condition("last round's favourite arm costs 1, for everyone", watched),
}
"""Faults by name."""

BY_RULE = {
    f"{rule}, {name}": on_bad_links(rule, loss=loss)
    for rule, (name, loss) in product(
        RULES, {"10%": 0.1, "30%": 0.3, "50%": 0.5, "unequal": every_second}.items()
    )
}
"""Simulations of lost messages, by rule and share."""


def reproduce(
    options: Options,
    sizes: Sizes | None = None,
    algorithms: Mapping[str, AnyAlgorithm] | None = None,
) -> Section:
    """Play and write `robustness` as .png, .pdf and .svg, and `robustness.csv`.

    `options.runs` are the draws of the losses.
    """
    sizes = (sizes or (QUICK if options.quick else FULL)).with_options(options)
    algorithms = algorithms or players(LEFT_OUT)
    met = cases(sizes, options.seed)
    losses, networks = (", ".join(dict.fromkeys(name[i] for name in met)) for i in (0, 1))
    section = options.section(
        "robustness",
        "Bad links, liars, noise and watchers: every algorithm",
        {
            "sizes": f"N = {sizes.agents}, K = {sizes.arms}, T = {sizes.horizon:,}; "
            f"losses {losses}, on {networks}; gossip max_degree; algorithms with their defaults",
            **{name: condition.what for name, condition in CONDITIONS.items()},
            "seeds": f"{sizes.draws} draws of losses and agents; intervals are over draws",
        },
    )
    with section.timed(f"{len(algorithms)} algorithms under {len(CONDITIONS)} conditions"):
        accepted = [
            (name, condition)
            for condition, name in product(CONDITIONS, algorithms)
            if CONDITIONS[condition].takes(algorithms[name])
        ]
        plays = {name: condition.play for name, condition in CONDITIONS.items()}
        found = play(accepted, plays, algorithms, met, sizes.draws)
    with section.timed(f"{SHOWN} under {len(RULES)} rules"):
        rules = [(SHOWN, rule) for rule in BY_RULE]
        by_rule = play(rules, BY_RULE, {SHOWN: fb.FedExp3()}, met, sizes.draws)
    section.add_csv(options.out, "robustness.csv", frame(found + by_rule))
    section.tables += [board(found), rules_table(by_rule, found)]
    section.add_picture(options.out, draw(found), PICTURE)
    section.paragraphs += findings(found, by_rule)
    return section


def play(
    chosen: Sequence[tuple[str, str]],
    plays: Mapping[str, Callable[..., fb.Result]],
    algorithms: Mapping[str, AnyAlgorithm],
    met: Mapping[tuple[str, str], Case],
    draws: int,
) -> list[Entry]:
    """Play chosen (algorithm, condition) on every case."""

    def one(cell: tuple[tuple[str, str], tuple[str, str]]) -> Entry:
        (name, condition), where = cell
        result = plays[condition](met[where], algorithms[name], draws)
        return Entry(name, condition, *where, *regrets(result))

    return in_threads(one, list(product(chosen, met)), "robustness")


def regrets(result: fb.Result) -> tuple[Any, Any]:
    """Return expected regret at T of the mean honest agent, and uniform play's, `[draws]`."""
    data = result.dataset.isel(time=-1)
    arm_loss = data["arm_loss"].mean("run") if "run" in data["arm_loss"].dims else data["arm_loss"]
    uniform = arm_loss.mean("arm") - arm_loss.min("arm")
    return data["expected_regret"].mean("run").to_numpy(), uniform.to_numpy()


def _of(family: str) -> Where:
    return lambda entry: entry.family == family


NOTE = (
    "Expected regret at T of the mean honest agent, in % of uniform play's on the same losses "
    "(100: guessing; below 0: better than the best fixed arm), mean over cases, ± half a 95% "
    "interval over draws. -: refused. Exp3 and Uniform send nothing. FedHedge sees the losses of "
    "all arms. PrivateFedExp3 and HeldFedExp3 add noise of their own in every column: ε = 1 per "
    "round for the arm and the loss of one agent, HeldFedExp3 for its loss alone (event level), "
    "even if all others collude; no guarantee for arms where watched. AcceleratedFedExp3 has no "
    "momentum over bad links, and is FedExp3 there. Maxima and floods are not clipped. "
)


def board(found: list[Entry]) -> Table:
    """Return every algorithm under every condition."""
    conditions = list(dict.fromkeys(entry.setting for entry in found))
    rows = [
        [name, *(percent(select(found, name, condition)) for condition in conditions)]
        for name in ranked(found, NO_FAULT)
    ]
    note = (
        f"{NOTE}ε = 1: {CONDITIONS['ε = 1'].what}. Watched: on the losses as they came, which "
        "depend on what was played: two rows do not face the same losses."
    )
    return Table("Every algorithm under every condition", ("algorithm", *conditions), rows, note)


def rules_table(by_rule: list[Entry], found: list[Entry]) -> Table:
    """Return FedExp3 under each rule and loss, for each kind of losses."""
    families = list(dict.fromkeys(entry.family for entry in by_rule))

    def row(head: str, entries: list[Entry], condition: str) -> list[str]:
        cells = (percent(select(entries, SHOWN, condition, _of(family))) for family in families)
        return [head, *cells]

    rows = [row("no loss", found, NO_FAULT), *(row(rule, by_rule, rule) for rule in BY_RULE)]
    shares = list(dict.fromkeys(rule.partition(", ")[2] for rule in BY_RULE))
    note = (
        NOTE + "symmetric: an edge counts if both its messages arrive; receiver: who misses a "
        "message uses its own value; flow: the ledger of live agents; lost: what is lost is lost, "
        f"the naive way. Unequal: messages of every second agent are lost with probability "
        f"{UNEQUAL}; others: {', '.join(shares[:-1])} of all."
    )
    return Table(
        f"{SHOWN}: what to do about messages that are missing", ("rule", *families), rows, note
    )


def frame(found: list[Entry]) -> pd.DataFrame:
    """Return every share with its interval, tidy."""
    rows = [
        (
            *(each.setting, each.family, each.network, each.algorithm, *share([each])),
            *(each.regret.mean(), each.uniform.mean(), len(each.uniform)),
        )
        for each in found
    ]
    columns = ["condition", "losses", "network", "algorithm", "share", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "regret", "uniform", "draws"])


def findings(found: list[Entry], by_rule: list[Entry]) -> list[str]:
    """Return the findings in sentences made from the numbers."""

    def of(condition: str, entries: list[Entry] = found) -> str:
        return percent(select(entries, SHOWN, condition, everywhere))

    return [
        f"{SHOWN} pays {of(NO_FAULT)} % of uniform play's regret without faults, "
        f"{of('30% lost')} % with 30% of the messages lost, {of('churn')} % under churn and "
        f"{of('unequal loss')} % if most messages of every second agent are lost.",
        f"With 30% lost it pays {of('lost, 30%', by_rule)} % under the naive rule, by which lost "
        f"messages are not replaced, and {of('flow, 30%', by_rule)} % with live agents' ledger. "
        "The naive rule is useless, and the three others are close to each other.",
        f"With one liar it pays {of('a liar')} %; with differences clipped at {LIMIT:g} it pays "
        f"{of('a liar, clipped')} %. Clipping bounds only what a liar moves in a round.",
        f"Randomised response with ε = {EPSILON:g} per round for the losses of one agent (event "
        f"level, even if all others collude; arms are public) makes it {of('ε = 1')} %.",
    ]


PICTURE = Picture(
    "robustness",
    "Expected regret at T in % of uniform play's, mean over losses and networks, with 95% "
    "intervals over draws: each algorithm under each condition. Dashed: uniform play.",
    "For each condition a column of marks, one for each algorithm, between 0 and beyond uniform "
    "play's regret.",
)


def draw(found: list[Entry]) -> Figure:
    """Draw a panel for each condition, with a row for each algorithm."""
    conditions = list(dict.fromkeys(entry.setting for entry in found))
    names = ranked(found, NO_FAULT)
    figure, panels = new_panels(2, -(-len(conditions) // 2), 5.4, sharey=True, sharex=True)
    for ax, condition in zip(panels, conditions, strict=False):
        for place, name in enumerate(names):
            if entries := select(found, name, condition):
                mean, bars = error_bars(100 * np.array(share(entries)))
                colour = COLOURS[0 if name == SHOWN else 1]
                ax.errorbar(mean, [place], xerr=bars, fmt="o", ms=4, color=colour, capsize=2)
            else:
                ax.text(4, place, "refused", va="center", fontsize="x-small", color="0.5")
        ax.axvline(100, ls="--", lw=1, color="0.5")
        ax.set_yticks(range(len(names)), names, fontsize="small")
        ax.set_title(condition, fontsize="medium")
    panels[0].invert_yaxis()
    figure.supxlabel("regret at T, % of uniform play's", fontsize="medium")
    return figure

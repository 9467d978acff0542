"""What is left of every algorithm under lost messages, churn, a liar, noise and a watcher.

Two kinds of losses on three networks. Regret is that of the mean honest agent, in units of what
uniform play pays on the same losses. Beside the table of all algorithms stands one of FedExp3 and
the four rules for messages that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb

from .leaderboard import players
from .measure import Interval, in_threads, resamples
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedbandits.algorithms import AnyAlgorithm

LEFT_OUT = ("LinearBlockGossip", "TrackingFedExp3")
"""Arms here are no vectors; and not all that the tracker sends is of arms, which lies are about."""
SHOWN = "FedExp3"
EPSILON = 1.0
LOSS = 0.3
UNEQUAL = 0.9
"""Loss of the messages of every second agent."""
UP, DOWN = 200, 50
LIMIT = 1.0
LIE = 1e6
RULES = ("symmetric", "receiver", "flow", "lost")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """What is played.

    Attributes:
        side: of the grid; the other networks have as many agents.
        arms: K.
        horizon: T.
        draws: of the losses and the agents' randomness.
    """

    side: int
    arms: int
    horizon: int
    draws: int

    @property
    def agents(self) -> int:
        """N."""
        return self.side**2


FULL = Sizes(side=6, arms=20, horizon=3000, draws=10)
QUICK = Sizes(side=3, arms=5, horizon=300, draws=2)


class Case(NamedTuple):
    """Losses on a network, before anything goes wrong."""

    problem: fb.Problem
    gossip: fb.Gossip


class Condition(NamedTuple):
    """What goes wrong.

    Attributes:
        what: in words.
        play: simulates an algorithm under it on a case, with so many draws.
        takes: whether an algorithm can be played so; `simulate` refuses the others.
    """

    what: str
    play: Callable[[Case, AnyAlgorithm, int], fb.Result]
    takes: Callable[[AnyAlgorithm], bool] = lambda _: True


class Entry(NamedTuple):
    """What was found, `[draws]` each: expected regret of the mean honest agent, uniform play's."""

    regret: Floats
    uniform: Floats


Found = Mapping[tuple[str, str, str, str], Entry | None]
"""By condition, losses, network and algorithm; None where an algorithm cannot be played so."""


def problems(sizes: Sizes, seed: int) -> dict[str, fb.Problem]:
    """Two kinds of losses."""
    shape = (sizes.agents, sizes.arms, sizes.horizon)
    return {
        "paper": fb.problems.activated_bernoulli(*shape, seed=seed),
        "heterogeneous": fb.problems.heterogeneous(*shape, seed=seed),
    }


def networks(sizes: Sizes) -> dict[str, fb.Gossip]:
    """Three networks."""
    n = sizes.agents
    made = (fb.networks.complete(n), fb.networks.grid(sizes.side, sizes.side), fb.networks.ring(n))
    return {network.family: fb.gossip.max_degree(network) for network in made}


def _simulate(case: Case, algorithm: AnyAlgorithm, draws: int, **conditions: Any) -> fb.Result:
    return fb.simulate(
        case.problem, algorithm, case.gossip, 1, draws=draws, progress=False, **conditions
    )


def on_bad_links(rule: str = "symmetric", **faults: Any) -> Callable[..., fb.Result]:
    """Simulates over links that are not what they were."""

    def play(case: Case, algorithm: AnyAlgorithm, draws: int) -> fb.Result:
        bad = fb.gossip.unreliable(case.gossip, rule=rule, **faults)
        return _simulate(case._replace(gossip=bad), algorithm, draws)

    return play


def every_second(sender: int, receiver: int) -> float:  # noqa: ARG001
    """Loss of a message where those of every second agent are lost."""
    return UNEQUAL if sender % 2 else 0.0


def with_a_liar(limit: float | None = None) -> Callable[..., fb.Result]:
    """Simulates with an agent in the middle that promotes the worst arm."""

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
    """Simulates against an adversary who hits last round's favourite."""
    problem = fb.problems.hit_favourite(case.problem)
    return _simulate(case._replace(problem=problem), algorithm, draws)


def blurred(case: Case, algorithm: AnyAlgorithm, draws: int) -> fb.Result:
    """Simulates with one noisy bit instead of a loss."""
    return _simulate(case, algorithm, draws, privacy=fb.privacy.randomised_response(EPSILON))


def floods_nothing(algorithm: AnyAlgorithm) -> bool:
    """Floods have no answer to lost messages."""
    return all(leaf.combine != "flood" for leaf in algorithm.leaves.values())


def sends(algorithm: AnyAlgorithm) -> bool:
    """Who sends nothing cannot lie."""
    return bool(algorithm.leaves)


def sees_one_loss(algorithm: AnyAlgorithm) -> bool:
    """One bit cannot stand for the losses of all arms."""
    return algorithm.feedback == "bandit"


CONDITIONS = {
    "no fault": Condition("every message arrives", _simulate),
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
        f"one agent tells that the worst arm is better by {LIE:,.0f}", with_a_liar(), sends
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
"""What goes wrong, by name."""

BY_RULE = {
    (rule, name): on_bad_links(rule, loss=loss)
    for rule, (name, loss) in product(
        RULES, {"10%": 0.1, "30%": 0.3, "50%": 0.5, "unequal": every_second}.items()
    )
}
"""FedExp3 under each rule for what is missing."""


def reproduce(
    options: Options,
    sizes: Sizes | None = None,
    algorithms: Mapping[str, AnyAlgorithm] | None = None,
) -> Section:
    """Play and write; `robustness` as .png, .pdf and .svg, and `robustness.csv`.

    `options.runs` are the draws of the losses.
    """
    sizes = sizes or (QUICK if options.quick else FULL)
    sizes = replace(sizes, draws=options.runs or sizes.draws)
    algorithms = algorithms or players(LEFT_OUT)
    section = Section(
        "robustness",
        "Bad links, liars, noise and watchers: every algorithm",
        options.command("robustness"),
        settings={
            "sizes": f"N = {sizes.agents}, K = {sizes.arms}, T = {sizes.horizon:,}; "
            f"{' and '.join(problems(sizes, 0))} losses on {', '.join(networks(sizes))}; gossip "
            "max_degree; algorithms with their defaults",
            **{name: condition.what for name, condition in CONDITIONS.items()},
            "seeds": f"{sizes.draws} draws of losses and agents; intervals are over draws",
        },
    )
    with section.timed(f"{len(algorithms)} algorithms under {len(CONDITIONS)} conditions"):
        found = play(sizes, options.seed, algorithms)
    with section.timed(f"{SHOWN} under {len(RULES)} rules"):
        by_rule = play_rules(sizes, options.seed)
    section.add_csv(options.out, "robustness.csv", frame(found | by_rule))
    section.tables += [board(found), rules_table(by_rule, found), *by_losses(found)]
    section.add_picture(options.out, draw(found), PICTURE)
    section.paragraphs += findings(found, by_rule)
    return section


def play(
    sizes: Sizes, seed: int, algorithms: Mapping[str, AnyAlgorithm]
) -> dict[tuple[str, str, str, str], Entry | None]:
    """Every algorithm under every condition on every case."""
    losses, graphs = problems(sizes, seed), networks(sizes)

    def one(cell: tuple[str, str, str, str]) -> Entry | None:
        condition, family, network, name = cell
        met, algorithm = CONDITIONS[condition], algorithms[name]
        if not met.takes(algorithm):
            return None
        case = Case(losses[family], graphs[network])
        return entry(met.play, case, algorithm, sizes.draws)

    cells = list(product(CONDITIONS, losses, graphs, algorithms))
    return dict(zip(cells, in_threads(one, cells, "robustness"), strict=True))


def play_rules(sizes: Sizes, seed: int) -> dict[tuple[str, str, str, str], Entry | None]:
    """FedExp3 under every rule for messages that are missing."""
    losses, graphs = problems(sizes, seed), networks(sizes)

    def one(cell: tuple[tuple[str, str], str, str]) -> Entry:
        condition, family, network = cell
        case = Case(losses[family], graphs[network])
        return entry(BY_RULE[condition], case, fb.FedExp3(), sizes.draws)

    cells = list(product(BY_RULE, losses, graphs))
    found = in_threads(one, cells, "rules")
    return {
        (f"{rule}, {share}", family, network, SHOWN): each
        for ((rule, share), family, network), each in zip(cells, found, strict=True)
    }


def entry(
    play_case: Callable[[Case, AnyAlgorithm, int], fb.Result],
    case: Case,
    algorithm: AnyAlgorithm,
    draws: int,
) -> Entry:
    """What was found."""
    result = play_case(case, algorithm, draws)
    data = result.dataset.isel(time=-1)
    arm_loss = data["arm_loss"].mean("run") if "run" in data["arm_loss"].dims else data["arm_loss"]
    uniform = arm_loss.mean("arm") - arm_loss.min("arm")
    return Entry(data["expected_regret"].mean("run").to_numpy(), uniform.to_numpy())


def share(entries: Sequence[Entry]) -> Interval:
    """Regret over uniform play's, mean over cases, with a 95% bootstrap interval over draws."""
    draws = len(entries[0].uniform)
    again = np.vstack([np.arange(draws), resamples(draws)])
    ratios = np.mean(
        [e.regret[again].mean(axis=1) / e.uniform[again].mean(axis=1) for e in entries], axis=0
    )
    low, high = np.quantile(ratios[1:], [0.025, 0.975]) if draws > 1 else (np.nan, np.nan)
    return Interval(float(ratios[0]), float(low), float(high))


def _names(found: Found, place: int) -> list[str]:
    return list(dict.fromkeys(cell[place] for cell in found))


def select(found: Found, condition: str, algorithm: str, family: str | None = None) -> list[Entry]:
    """The entries of an algorithm under a condition; none if it was refused."""
    return [
        each
        for (c, f, _, a), each in found.items()
        if (c, a) == (condition, algorithm) and family in (None, f) and each is not None
    ]


def _cell(entries: Sequence[Entry]) -> str:
    if not entries:
        return "-"
    mean, low, high = share(entries)
    return f"{100 * mean:.1f}" + ("" if np.isnan(low) else f" ± {50 * (high - low):.1f}")


NOTE = (
    "Expected regret at T of the mean honest agent, in % of uniform play's on the same losses "
    "(100: guessing; below 0: better than the best fixed arm), mean over cases, ± half a 95% "
    "interval over draws. -: refused. Exp3 and Uniform send nothing. FedHedge sees the losses of "
    "all arms. PrivateFedExp3 and HeldFedExp3 add noise of their own in every column: ε = 1 per "
    "round for the arm and the loss of one agent, HeldFedExp3 for its loss alone (event level), "
    "even if all others collude; no guarantee for arms where watched. AcceleratedFedExp3 has no "
    "momentum over bad links, and is FedExp3 there. Maxima and floods are not clipped. "
)


def board(found: Found) -> Table:
    """Every algorithm under every condition."""
    conditions = _names(found, 0)
    rows = [
        [name, *(_cell(select(found, condition, name)) for condition in conditions)]
        for name in ranked(found)
    ]
    note = (
        f"{NOTE}ε = 1: {CONDITIONS['ε = 1'].what}. Watched: on the losses as they came, which "
        "depend on what was played: two rows do not face the same losses."
    )
    return Table("Every algorithm under every condition", ("algorithm", *conditions), rows, note)


def by_losses(found: Found) -> list[Table]:
    """The same for each kind of losses."""
    conditions = _names(found, 0)
    return [
        Table(
            f"The same on {family} losses",
            ("algorithm", *conditions),
            [
                [name, *(_cell(select(found, condition, name, family)) for condition in conditions)]
                for name in ranked(found)
            ],
            NOTE,
        )
        for family in _names(found, 1)
    ]


def rules_table(by_rule: Found, found: Found) -> Table:
    """FedExp3 under each rule and loss, for each kind of losses."""
    shares = list(dict.fromkeys(share for _, share in BY_RULE))
    families = _names(by_rule, 1)
    rows = [["no loss", *(_cell(select(found, "no fault", SHOWN, family)) for family in families)]]
    for rule, lost in BY_RULE:
        cells = [_cell(select(by_rule, f"{rule}, {lost}", SHOWN, family)) for family in families]
        rows.append([f"{rule}, {lost}", *cells])
    note = (
        NOTE + "symmetric: an edge counts if both its messages arrive; receiver: who misses a "
        "message uses its own value; flow: the ledger of live agents; lost: what is lost is lost, "
        f"the naive way. Unequal: messages of every second agent are lost with probability "
        f"{UNEQUAL}; others: {', '.join(shares[:-1])} of all."
    )
    return Table(
        f"{SHOWN}: what to do about messages that are missing", ("rule", *families), rows, note
    )


def ranked(found: Found) -> list[str]:
    """Algorithms by their regret without faults."""
    names = _names(found, 3)
    return sorted(names, key=lambda name: share(select(found, "no fault", name)).mean)


def frame(found: Found) -> pd.DataFrame:
    """Every share with its interval, tidy."""
    import pandas as pd

    rows = [
        (*cell, *share([each]), each.regret.mean(), each.uniform.mean(), len(each.uniform))
        for cell, each in found.items()
        if each is not None
    ]
    columns = ["condition", "losses", "network", "algorithm", "share", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "regret", "uniform", "draws"])


def findings(found: Found, by_rule: Found) -> list[str]:
    """What was found, in words made from the numbers."""

    def of(condition: str, algorithm: str = SHOWN) -> str:
        return _cell(select(found, condition, algorithm))

    naive, kept = (_cell(select(by_rule, f"{rule}, 30%", SHOWN)) for rule in ("lost", "flow"))
    return [
        f"{SHOWN} pays {of('no fault')} % of uniform play's regret without faults, "
        f"{of('30% lost')} % with 30% of the messages lost, {of('churn')} % under churn and "
        f"{of('unequal loss')} % where every second agent is hardly heard.",
        f"With 30% lost, {naive} % if what is lost is lost, {kept} % with live agents' ledger: the "
        "naive way is useless, and the three others are close to each other.",
        f"One liar makes it {of('a liar')} %; with differences clipped at {LIMIT:g} it is "
        f"{of('a liar, clipped')} %. Clipping bounds what a liar moves in a round, and claims no "
        "more.",
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


def draw(found: Found) -> Figure:
    """A panel for each condition, a row for each algorithm."""
    import matplotlib.pyplot as plt

    from fedbandits.results.plots import COLOURS

    conditions, names = _names(found, 0), ranked(found)
    figure, panels = plt.subplots(
        2,
        -(-len(conditions) // 2),
        figsize=(7.2, 5.4),
        sharey=True,
        sharex=True,
        layout="constrained",
    )
    places = np.arange(len(names))
    for ax, condition in zip(panels.flat, conditions, strict=False):
        for place, name in zip(places, names, strict=True):
            entries = select(found, condition, name)
            if entries:
                mean, low, high = (100 * value for value in share(entries))
                bars = np.nan_to_num([[mean - low], [high - mean]])
                colour = COLOURS[0 if name == SHOWN else 1]
                ax.errorbar([mean], [place], xerr=bars, fmt="o", ms=4, color=colour, capsize=2)
        ax.axvline(100, ls="--", lw=1, color="0.5")
        ax.set_yticks(places, names, fontsize="small")
        ax.set_title(condition, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
    panels.flat[0].invert_yaxis()
    for ax, condition in zip(panels.flat, conditions, strict=False):
        for place, name in zip(places, names, strict=True):
            if not select(found, condition, name):
                ax.text(4, place, "refused", va="center", fontsize="x-small", color="0.5")
    figure.supxlabel("regret at T, % of uniform play's", fontsize="medium")
    return figure

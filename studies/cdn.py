"""One eviction policy for a whole CDN: which agents find the policy that is best for the fleet.

16 edges, each with its own traffic, on a 4 × 4 grid, and seven policies. FedExp3's edges gossip.
Exp3's edges are alone, and may vote in the end on their recommendations. For comparison, edges that
know all their traffic vote too. All face the losses of `fb.problems.cdn()`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from scipy.stats import binomtest

import fedbandits as fb
from fedbandits.common.statistics import Interval, interval
from fedbandits.paper.intervals import Floats, with_half
from fedbandits.paper.pictures import Picture, plain_panel
from fedbandits.paper.section import Options, Section, Table
from fedbandits.problems.cdn import EdgeTraffic
from fedbandits.results.plots import COLOURS

ROWS = COLS = 4
RUNS, QUICK = 1000, 4
MOST_WATCHED = 50
"""Runs of which every round is recorded, to count misses."""
MILLION = 1e6

TOGETHER = "FedExp3, each edge"
ALONE = "Exp3, each edge alone"
VOTE = "vote of Exp3's edges"
HINDSIGHT = "vote with hindsight"


def network() -> fb.Network:
    """Return the network, in which edges hear their neighbours on the map."""
    return fb.networks.grid(ROWS, COLS)


class Means(NamedTuple):
    """Mean miss ratios of the policies.

    Attributes:
        policies: their names, K.
        edges: names of the edges, N.
        kinds: of their traffic, `[N]`.
        ratios: mean miss ratios, `[N, K]`.
    """

    policies: tuple[str, ...]
    edges: tuple[str, ...]
    kinds: tuple[str, ...]
    ratios: Floats

    @property
    def fleet(self) -> Floats:
        """Mean over edges, `[K]`."""
        means: Floats = self.ratios.mean(axis=0)
        return means

    @property
    def best(self) -> int:
        """The policy with the fewest misses over the fleet."""
        return int(self.fleet.argmin())

    @property
    def favourites(self) -> npt.NDArray[np.intp]:
        """The policy with the fewest misses at each edge, `[N]`."""
        found: npt.NDArray[np.intp] = self.ratios.argmin(axis=1)
        return found

    @property
    def votes(self) -> list[tuple[str, int]]:
        """Policies with the number of edges whose favourite they are, most votes first."""
        return Counter(self.policies[each] for each in self.favourites).most_common()

    def by_kind(self) -> dict[str, Floats]:
        """Return the mean over the edges of each kind, `[K]`."""
        kinds = np.array(self.kinds)
        return {kind: self.ratios[kinds == kind].mean(axis=0) for kind in dict.fromkeys(self.kinds)}

    def extra(self, chosen: Floats) -> float:
        """Return the misses of a million requests to the fleet in excess of its best policy.

        Args:
            chosen: the policy in use, as shares, `[..., K]`; the mean is taken.
        """
        shares = chosen.reshape(-1, chosen.shape[-1]).mean(axis=0)
        return float(MILLION * (shares @ self.fleet - self.fleet[self.best]))


def means_of(problem: EdgeTraffic) -> Means:
    """Return the mean miss ratios over all rounds."""
    assert problem.arm_names is not None
    assert problem.agent_names is not None
    ratios = problem.tensor.mean(axis=0, dtype=np.float64)
    return Means(problem.arm_names, problem.agent_names, problem.kinds, ratios)


class Choice(NamedTuple):
    """The policies that one way to decide chooses.

    Attributes:
        chosen: by each edge in the end, `[R, N, K]`: 1 for its policy, shares for tied ones.
        regret: misses of a million requests beyond those of the fleet's best, if all edges had
            used in each round the policy of one of them, mean over these, `[R]`; or empty.
        missed: misses of the edges in the rounds played, of all requests, `[some of R]`.
    """

    chosen: Floats
    regret: Floats
    missed: Floats

    def right(self, best: int) -> float:
        """Return the share of edges and runs that choose the fleet's best."""
        return float(self.chosen[:, :, best].mean())

    def everywhere(self, best: int) -> int:
        """Return the number of runs in which every edge chooses it."""
        return int((self.chosen[:, :, best] == 1).all(axis=1).sum())


def reproduce(options: Options) -> Section:
    """Play, count and write; `cdn` as .png, .pdf and .svg, and `cdn.csv`."""
    problem, runs = fb.problems.cdn(), options.runs or (QUICK if options.quick else RUNS)
    gossip, players = fb.gossip.metropolis(network()), (fb.FedExp3(), fb.Exp3())
    section = options.section(
        "cdn",
        "One eviction policy for a whole CDN",
        {
            "losses": f"fb.problems.cdn(): N = {problem.agents} edges, K = {problem.arms} "
            f"policies, T = {problem.horizon:,} rounds of {problem.requests} requests to an edge",
            "network": f"{gossip.network.name}, gossip metropolis",
            "algorithms": "; ".join(map(repr, players)),
            "seeds": f"{runs} runs of the edges' own randomness, seed {options.seed}; the traffic "
            "is the same in all; intervals are over runs",
        },
    )
    with section.timed(f"{len(players)} algorithms, {runs} runs"):
        results, missed = play(problem, gossip, players, runs, options.seed)
    means = means_of(problem)
    choices = decided(results, missed, means)
    section.add_csv(options.out, "cdn.csv", frame(choices, means))
    section.tables += [misses_table(means), choice_table(choices, means)]
    section.add_picture(options.out, draw(results[TOGETHER], choices, means), PICTURE)
    section.paragraphs += findings(choices, means, results[TOGETHER].communication)
    return section


def play(
    problem: EdgeTraffic,
    gossip: fb.Gossip,
    players: tuple[fb.FedExp3, fb.Exp3],
    runs: int,
    seed: int,
) -> tuple[dict[str, fb.Result], dict[str, Floats]]:
    """Return the results of both players, and the misses of edges in some runs, `[some of R]`.

    Regret in a result is the loss of the whole fleet if all edges used the policy of one of them.
    The losses of that edge alone are counted round by round.
    """
    results, missed = {}, {}
    for name, player in zip((TOGETHER, ALONE), players, strict=True):
        results[name] = fb.simulate(problem, player, gossip, runs, seed=seed, progress=False)
        watched = fb.trajectory(
            problem, player, gossip, min(runs, MOST_WATCHED), seed, dtype="float32"
        )
        missed[name] = watched.dataset["loss"].mean(("time", "agent"), dtype=np.float64).to_numpy()
    return results, missed


def decided(
    results: Mapping[str, fb.Result], missed: Mapping[str, Floats], means: Means
) -> dict[str, Choice]:
    """Return the choices of every way to decide."""
    one = np.eye(len(means.policies))
    found = {}
    for name, result in results.items():
        at_end = result.dataset["expected_regret"].to_numpy()[:, -1]
        regret = MILLION * at_end / result.dataset["time"].to_numpy()[-1]
        chosen = one[result.dataset["recommended_arm"].to_numpy()]
        found[name] = Choice(chosen, np.asarray(regret), missed[name])
    found[VOTE] = found[ALONE]._replace(chosen=vote(found[ALONE].chosen))
    found[HINDSIGHT] = Choice(vote(one[means.favourites][None]), np.empty(0), np.empty(0))
    return found


def vote(chosen: Floats) -> Floats:
    """Return the policy that most edges choose, for all of them; tied ones share, `[R, N, K]`.

    Example:
        >>> vote(np.eye(3)[[[0, 2, 2], [0, 1, 2]]])[:, 0].round(2).tolist()
        [[0.0, 0.0, 1.0], [0.33, 0.33, 0.33]]
    """
    counts = chosen.sum(axis=1, keepdims=True)
    most = (counts == counts.max(axis=2, keepdims=True)).astype(np.float64)
    return np.broadcast_to(most / most.sum(axis=2, keepdims=True), chosen.shape)


def share(successes: int, runs: int) -> Interval:
    """Return a share in percent, with the exact 95% interval of Clopper and Pearson.

    Example:
        >>> share(20, 20)
        Interval(mean=100.0, low=83.15..., high=100.0)
    """
    low, high = binomtest(successes, runs).proportion_ci(method="exact")
    return Interval(100 * successes / runs, 100 * float(low), 100 * float(high))


def frame(choices: Mapping[str, Choice], means: Means) -> pd.DataFrame:
    """Return the share of runs in which each edge chooses each policy, tidy."""
    rows = [
        (who, edge, policy, choice.chosen[:, v, i].mean(), len(choice.chosen))
        for who, choice in choices.items()
        for v, edge in enumerate(means.edges)
        for i, policy in enumerate(means.policies)
    ]
    return pd.DataFrame(rows, columns=["decides", "edge", "policy", "share", "runs"])


def misses_table(means: Means) -> Table:
    """Return misses of policies by kind of traffic."""
    votes, columns = dict(means.votes), {**means.by_kind(), "fleet": means.fleet}
    rows = [
        (policy, *(f"{100 * of[i]:.1f}" for of in columns.values()), str(votes.get(policy, 0)))
        for i, policy in enumerate(means.policies)
    ]
    note = (
        "Misses in % of all requests, mean over the edges with this kind of traffic and over the "
        "fleet; and of how many edges the policy is the favourite, the one that misses least there."
    )
    return Table("What each policy misses", ("policy", *columns, "favourite of"), rows, note)


def choice_table(choices: Mapping[str, Choice], means: Means) -> Table:
    """Return the share of right choices of each way to decide, and the cost of its choices."""

    def everywhere(name: str) -> str:
        choice = choices[name]
        mean, low, high = share(choice.everywhere(means.best), len(choice.chosen))
        return f"{mean:.1f}" if name == HINDSIGHT else f"{mean:.1f} ({low:.1f} to {high:.1f})"

    def mean(values: Floats, form: str) -> str:
        return with_half(interval(values), form) if values.size else "-"

    best = means.policies[means.best]
    return Table.of(
        "Who finds the fleet's best policy",
        choices,
        [
            ("who decides", str),
            ("edges right, %", lambda name: f"{100 * choices[name].right(means.best):.1f}"),
            ("all right, %", everywhere),
            ("extra", lambda name: f"{means.extra(choices[name].chosen):,.0f}"),
            ("regret", lambda name: mean(choices[name].regret, ",.0f")),
            ("missed, %", lambda name: mean(100 * choices[name].missed, ".2f")),
        ],
        f"How often {best}, with which the fleet misses least, is chosen: in % of edges and runs, "
        "and by all edges in % of runs, with an exact 95% interval. Then misses of a million "
        f"requests beyond those of {best}: if the policy chosen were rolled out to all edges "
        "(extra), and if in each round played they had used what one of them plays (regret). Last "
        "what edges did miss in these rounds, each with what it played itself, in % of requests. ± "
        "half a 95% interval over runs. Policies with as many votes share them.",
    )


def findings(
    choices: Mapping[str, Choice], means: Means, communication: Mapping[str, Any]
) -> list[str]:
    """Return the findings in sentences made from the numbers."""
    fleet, best = 100 * means.fleet, means.best
    name, elected = means.policies[best], means.votes[0][0]
    after, order = 100 * float(means.ratios.min(axis=1).mean()), fleet.argsort()
    nobodys = "" if name in dict(means.votes) else " It is the favourite of no edge."
    runs = len(choices[TOGETHER].chosen)
    found = choices[TOGETHER].everywhere(best)
    _, low, high = share(found, runs)
    extra = {who: f"{means.extra(choice.chosen):,.0f}" for who, choice in choices.items()}
    missed = {who: f"{100 * choices[who].missed.mean():.1f}%" for who in (ALONE, TOGETHER)}
    favourites = ", ".join(f"{policy} of {n}" for policy, n in means.votes)
    return [
        f"Favourites of the {len(means.edges)} edges: {favourites}. Over the fleet {name} misses "
        f"least, {fleet[best]:.1f}% of all requests, {fleet[order[1]] - fleet[best]:.1f} points "
        f"below {means.policies[order[1]]} and "
        f"{fleet[means.policies.index(elected)] - fleet[best]:.1f} below {elected}.{nobodys}",
        f"FedExp3 recommends {name} at every edge in {found:,} of {runs:,} runs (95% interval "
        f"{low:.1f} to {high:.1f}%).{_elsewhere(choices[TOGETHER], means)} Exp3, each edge alone, "
        f"does so at {100 * choices[ALONE].right(best):.0f}% of the edges, and at all of them in "
        f"{choices[ALONE].everywhere(best)} runs. A vote on the recommendations of its edges "
        f"elects {name} in {100 * choices[VOTE].right(best):.0f}% of the runs, and a vote of edges "
        f"that know all their traffic elects {elected}.",
        f"Of a million requests to the fleet {extra[HINDSIGHT]} more are missed with {elected} "
        f"than with {name}, {extra[VOTE]} with the vote of Exp3's edges, {extra[ALONE]} with the "
        f"recommendation of one of them, and {extra[TOGETHER]} with that of FedExp3, on average "
        f"over runs. In a round an edge sends {communication['messages']:g} messages, "
        f"{communication['bytes']:g} bytes in all, mean over edges.",
        "One policy for all has its price. Were every edge to keep its own favourite, the fleet "
        f"would miss {after:.1f}% of all requests. Exp3's edges, each of which looks for its own "
        f"best, missed {missed[ALONE]} in the rounds played, and FedExp3's {missed[TOGETHER]}, "
        f"where {name} from the start would have missed {fleet[best]:.1f}%.",
    ]


def _elsewhere(choice: Choice, means: Means) -> str:
    """Return the policies of most edges in the runs in which not all find the best."""
    missed = choice.chosen[(choice.chosen[:, :, means.best] < 1).any(axis=1)]
    if not len(missed):
        return ""
    settled = Counter(means.policies[i] for i in missed.sum(axis=1).argmax(axis=1)).most_common()
    listed = ", ".join(f"{policy} ({n})" for policy, n in settled)
    return f" In the others most edges settle on {listed}."


PICTURE = Picture(
    "cdn",
    "Above: misses of each policy, by kind of traffic and over the fleet; and which policies "
    "FedExp3's edges play over time, mean over runs. Below, the edges on their map: the policy "
    "that misses least at each, Exp3's recommendation at each in one run, and FedExp3's.",
    "Most edges miss least with one policy, the fleet with another; FedExp3's edges agree on the "
    "fleet's, Exp3's on none.",
)
LIGHT = ("#CC79A7", "#E69F00", "#56B4E9")
"""Colours on which black text is easier to read than white."""


def draw(together: fb.Result, choices: Mapping[str, Choice], means: Means) -> Figure:
    """Draw misses and play over time above, three maps of the edges below."""
    ranks = means.fleet.argsort().argsort()
    colours = [COLOURS[rank % len(COLOURS)] for rank in ranks]
    figure = plt.figure(figsize=(7.2, 5.6), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
    left, right = halves[0].subplots(1, 2, width_ratios=(1.1, 1.0))
    _draw_misses(left, means)
    _draw_play(right, together, means, colours)
    maps = {
        "favourite of each edge": means.favourites,
        "Exp3 alone recommends": choices[ALONE].chosen[0].argmax(axis=1),
        "FedExp3 recommends": choices[TOGETHER].chosen[0].argmax(axis=1),
    }
    for ax, (title, policies) in zip(halves[1].subplots(1, len(maps)), maps.items(), strict=True):
        _draw_map(ax, title, means.edges, [colours[policy] for policy in policies])
    figure.legend(
        handles=[Patch(color=colours[i], label=name) for i, name in enumerate(means.policies)],
        loc="outside lower center",
        ncols=len(means.policies),
        frameon=False,
        fontsize="small",
    )
    return figure


def _draw_misses(ax: Axes, means: Means) -> None:
    places = np.arange(len(means.policies))
    for marker, (kind, ratios) in zip("o^sv", means.by_kind().items(), strict=True):
        ax.plot(100 * ratios, places, marker, color="0.55", ms=4.5, label=kind)
    ax.plot(100 * means.fleet, places, "D", color="black", ms=5.5, label="fleet")
    ax.set_yticks(places, means.policies)
    ax.invert_yaxis()
    ax.set_xlabel("misses, % of requests")
    ax.set_title("What each policy misses", fontsize="medium")
    plain_panel(ax)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.45, -0.22),
        ncols=5,
        fontsize="x-small",
        frameon=False,
        handletextpad=0.1,
        columnspacing=0.8,
    )


def _draw_play(ax: Axes, result: fb.Result, means: Means, colours: list[str]) -> None:
    time, shares = played(result)
    order = means.fleet.argsort()
    ax.stackplot(time, shares.T[order], colors=[colours[i] for i in order], linewidth=0)
    ax.set(xlabel="round $t$", ylabel="share of the edges", ylim=(0, 1), xlim=(time[0], time[-1]))
    ax.set_title("FedExp3: policies played", fontsize="medium")


def played(result: fb.Result) -> tuple[Floats, Floats]:
    """Return the share of the edges that play each policy, in each fiftieth of the time.

    Returns:
        times at the ends of the fiftieths, and shares `[times, K]`, mean over runs.
    """
    time = result.dataset["time"].to_numpy().astype(np.float64)
    upto = result.dataset["arm_frequency"].mean("run").to_numpy() * time[:, None]
    step = max(1, len(time) // 50)
    time, upto = time[::-step][::-1], upto[::-step][::-1]
    return time[1:], np.diff(upto, axis=0) / np.diff(time)[:, None]


def _draw_map(ax: Axes, title: str, edges: tuple[str, ...], colours: list[str]) -> None:
    for v, (edge, colour) in enumerate(zip(edges, colours, strict=True)):
        row, col = divmod(v, COLS)
        ax.add_patch(Rectangle((col - 0.48, row - 0.48), 0.96, 0.96, color=colour, linewidth=0))
        ink = "black" if colour in LIGHT else "white"
        ax.text(col, row, edge, ha="center", va="center", fontsize=5.5, color=ink)
    ax.set(xlim=(-0.55, COLS - 0.45), ylim=(ROWS - 0.45, -0.55), aspect="equal")
    ax.set_title(title, fontsize="small")
    ax.axis("off")

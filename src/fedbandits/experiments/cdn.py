"""One eviction policy for a whole CDN: who finds the one that is best for the fleet.

16 edges with traffic of their own, on a 4 × 4 grid, seven policies. FedExp3's edges gossip; Exp3's
are alone, and may vote in the end on what they found. Beside them stands a vote of edges that know
everything of themselves. The losses are those of `fb.problems.cdn()`, the same for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fedbandits as fb
from fedbandits.problems.cdn import EdgeTraffic

from .measure import Interval, interval
from .section import Options, Picture, Section, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS = COLS = 4
RUNS, QUICK = 1000, 4
MOST_WATCHED = 50
"""Runs of which every round is kept, to count what was missed in them."""
MILLION = 1e6

TOGETHER = "FedExp3, each edge"
ALONE = "Exp3, each edge alone"
VOTE = "vote of Exp3's edges"
HINDSIGHT = "vote with hindsight"

Floats = npt.NDArray[np.float64]


def network() -> fb.Network:
    """Edges hear their neighbours on the map."""
    return fb.networks.grid(ROWS, COLS)


class Means(NamedTuple):
    """What policies miss, of all requests.

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
        """The policy with which the fleet misses least."""
        return int(self.fleet.argmin())

    @property
    def favourites(self) -> npt.NDArray[np.intp]:
        """The policy with which each edge misses least, `[N]`."""
        found: npt.NDArray[np.intp] = self.ratios.argmin(axis=1)
        return found

    @property
    def votes(self) -> list[tuple[str, int]]:
        """Whose favourite each policy is, most votes first."""
        return Counter(self.policies[each] for each in self.favourites).most_common()

    def by_kind(self) -> dict[str, Floats]:
        """Mean over the edges of a kind, `[K]` each."""
        kinds = np.array(self.kinds)
        return {kind: self.ratios[kinds == kind].mean(axis=0) for kind in dict.fromkeys(self.kinds)}

    def extra(self, chosen: Floats) -> float:
        """Of a million requests to the fleet, how many more are missed than with its best policy.

        Args:
            chosen: the policy that would be rolled out, as shares, `[..., K]`; the mean is taken.
        """
        shares = chosen.reshape(-1, chosen.shape[-1]).mean(axis=0)
        return float(MILLION * (shares @ self.fleet - self.fleet[self.best]))


def means_of(problem: EdgeTraffic) -> Means:
    """What policies miss in all rounds together."""
    assert problem.arm_names is not None
    assert problem.agent_names is not None
    ratios = problem.tensor.mean(axis=0, dtype=np.float64)
    return Means(problem.arm_names, problem.agent_names, problem.kinds, ratios)


class Choice(NamedTuple):
    """What one way to decide would have the fleet use.

    Attributes:
        chosen: as each edge says in the end, `[R, N, K]`: 1 for its policy, shares for tied ones.
        regret: misses of a million requests beyond those of the fleet's best, if all edges had
            used in each round what one of them played, mean over these, `[R]`; empty if none was.
        missed: what the edges did miss in the rounds played, of all requests, `[some of R]`.
    """

    chosen: Floats
    regret: Floats
    missed: Floats

    def right(self, best: int) -> float:
        """The share of edges and runs that choose the fleet's best."""
        return float(self.chosen[:, :, best].mean())

    def everywhere(self, best: int) -> int:
        """The number of runs in which every edge does."""
        return int((self.chosen[:, :, best] == 1).all(axis=1).sum())


def reproduce(options: Options) -> Section:
    """Play, count and write; `cdn` as .png, .pdf and .svg, and `cdn.csv`."""
    problem, runs = fb.problems.cdn(), options.runs or (QUICK if options.quick else RUNS)
    gossip, players = fb.gossip.metropolis(network()), (fb.FedExp3(), fb.Exp3())
    section = Section(
        "cdn",
        "One eviction policy for a whole CDN",
        options.command("cdn"),
        settings={
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
    section.tables.append(recommended_table(choices, means))
    section.add_picture(options.out, draw(results[TOGETHER], choices, means), PICTURE)
    section.paragraphs += findings(choices, means, results[TOGETHER].communication)
    return section


Players = tuple[fb.FedExp3, fb.Exp3]


def play(
    problem: EdgeTraffic, gossip: fb.Gossip, players: Players, runs: int, seed: int
) -> tuple[dict[str, fb.Result], dict[str, Floats]]:
    """Both players: their results, and what edges missed in some of the runs, `[some of R]`.

    A result speaks of the fleet: what all edges would lose by what one of them plays. What that
    edge loses itself is counted round by round.
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
    """Every way to decide, from what was played."""
    one = np.eye(len(means.policies))
    found = {
        name: Choice(
            one[result.dataset["recommended_arm"].to_numpy()], _regret(result), missed[name]
        )
        for name, result in results.items()
    }
    found[VOTE] = found[ALONE]._replace(chosen=vote(found[ALONE].chosen))
    found[HINDSIGHT] = Choice(vote(one[means.favourites][None]), np.empty(0), np.empty(0))
    return found


def _regret(result: fb.Result) -> Floats:
    regret = result.dataset["expected_regret"].to_numpy()[:, -1]
    return np.asarray(MILLION * regret / result.dataset["time"].to_numpy()[-1])


def vote(chosen: Floats) -> Floats:
    """The policy that most edges choose, for all of them; tied ones share, `[R, N, K]`.

    Example:
        >>> vote(np.eye(3)[[[0, 2, 2], [0, 1, 2]]])[:, 0].round(2).tolist()
        [[0.0, 0.0, 1.0], [0.33, 0.33, 0.33]]
    """
    counts = chosen.sum(axis=1, keepdims=True)
    most = (counts == counts.max(axis=2, keepdims=True)).astype(np.float64)
    return np.broadcast_to(most / most.sum(axis=2, keepdims=True), chosen.shape)


def share(successes: int, runs: int) -> Interval:
    """In percent, with the exact 95% interval of Clopper and Pearson.

    Example:
        >>> share(20, 20)
        Interval(mean=100.0, low=83.15..., high=100.0)
    """
    from scipy.stats import binomtest

    low, high = binomtest(successes, runs).proportion_ci(method="exact")
    return Interval(100 * successes / runs, 100 * float(low), 100 * float(high))


def frame(choices: Mapping[str, Choice], means: Means) -> pd.DataFrame:
    """How often each policy is chosen at each edge, tidy."""
    import pandas as pd

    rows = [
        (who, edge, policy, choice.chosen[:, v, i].mean(), len(choice.chosen))
        for who, choice in choices.items()
        for v, edge in enumerate(means.edges)
        for i, policy in enumerate(means.policies)
    ]
    return pd.DataFrame(rows, columns=["decides", "edge", "policy", "share", "runs"])


def misses_table(means: Means) -> Table:
    """Policies by kind of traffic."""
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
    """Who decides, how often the fleet's best is chosen, and what other choices cost."""
    rows = []
    for name, choice in choices.items():
        runs = len(choice.chosen)
        mean, low, high = share(choice.everywhere(means.best), runs)
        everywhere = f"{mean:.1f} ({low:.1f} to {high:.1f})"
        rows.append(
            (
                name,
                f"{100 * choice.right(means.best):.1f}",
                everywhere if name != HINDSIGHT else f"{mean:.1f}",
                f"{means.extra(choice.chosen):,.0f}",
                _with_half(choice.regret, ",.0f"),
                _with_half(100 * choice.missed, ".2f"),
            )
        )
    best = means.policies[means.best]
    note = (
        f"How often {best}, with which the fleet misses least, is chosen: in % of edges and runs, "
        "and by all edges in % of runs, with an exact 95% interval. Then misses of a million "
        f"requests beyond those of {best}: if the policy chosen were rolled out to all edges "
        "(extra), and if in each round played they had used what one of them plays (regret). Last "
        "what edges did miss in these rounds, each with what it played itself, in % of requests. ± "
        "half a 95% interval over runs. Policies with as many votes share them."
    )
    columns = ("who decides", "edges right, %", "all right, %", "extra", "regret", "missed, %")
    return Table("Who finds the fleet's best policy", columns, rows, note)


def _with_half(values: Floats, form: str) -> str:
    if not values.size:
        return "-"
    mean, low, high = interval(values)
    return f"{mean:{form}}" + ("" if np.isnan(low) else f" ± {(high - low) / 2:{form}}")


def recommended_table(choices: Mapping[str, Choice], means: Means) -> Table:
    """Which policies are chosen."""
    shares = {name: choice.chosen.mean(axis=(0, 1)) for name, choice in choices.items()}
    rows = [
        (policy, *(f"{100 * of[i]:.1f}" for of in shares.values()))
        for i, policy in enumerate(means.policies)
    ]
    note = "In % of edges and runs."
    return Table("Which policy is chosen", ("policy", *choices), rows, note)


def findings(
    choices: Mapping[str, Choice], means: Means, communication: Mapping[str, Any]
) -> list[str]:
    """What was found, in words made from the numbers."""
    fleet, best = 100 * means.fleet, means.best
    name, elected = means.policies[best], means.votes[0][0]
    after, order = 100 * float(means.ratios.min(axis=1).mean()), fleet.argsort()
    nobodys = "" if name in dict(means.votes) else " It is the favourite of no edge."
    runs = len(choices[TOGETHER].chosen)
    found = choices[TOGETHER].everywhere(best)
    _, low, high = share(found, runs)
    extra = {who: f"{means.extra(choice.chosen):,.0f}" for who, choice in choices.items()}
    return [
        f"{_listed(means.votes)} of {len(means.edges)} edges. Over the fleet {name} misses least, "
        f"{fleet[best]:.1f}% of all requests, {fleet[order[1]] - fleet[best]:.1f} points below "
        f"{means.policies[order[1]]} and {fleet[means.policies.index(elected)] - fleet[best]:.1f} "
        f"below {elected}.{nobodys}",
        f"FedExp3 recommends {name} at every edge in {found:,} of {runs:,} runs (95% interval "
        f"{low:.1f} to {high:.1f}%).{_elsewhere(choices[TOGETHER], means)} Exp3, each edge alone, "
        f"does so at {100 * choices[ALONE].right(best):.0f}% of the edges, and at all of them in "
        f"{choices[ALONE].everywhere(best)} runs; a vote on what its edges recommend elects {name} "
        f"in {100 * choices[VOTE].right(best):.0f}% of the runs, and a vote of edges that know all "
        f"about themselves elects {elected}.",
        f"Of a million requests to the fleet {extra[HINDSIGHT]} more are missed with {elected} "
        f"than with {name}, {extra[VOTE]} with what Exp3's edges vote for, {extra[ALONE]} with "
        f"what one of them recommends, and {extra[TOGETHER]} with what FedExp3 recommends, on "
        f"average over runs. In a round an edge sends {communication['messages']:g} messages, "
        f"{communication['bytes']:g} bytes in all, mean over edges.",
        "One policy for all has its price. Were every edge to keep its own favourite, the fleet "
        f"would miss {after:.1f}% of all requests. So in the rounds played Exp3's edges, each of "
        "which looks for what is best for itself, missed "
        f"{100 * choices[ALONE].missed.mean():.1f}%, and FedExp3's "
        f"{100 * choices[TOGETHER].missed.mean():.1f}%, where {name} from the start would have "
        f"missed {fleet[best]:.1f}%.",
    ]


def _elsewhere(choice: Choice, means: Means) -> str:
    """What most edges settle on in the runs in which not all find the best."""
    missed = choice.chosen[(choice.chosen[:, :, means.best] < 1).any(axis=1)]
    if not len(missed):
        return ""
    settled = Counter(means.policies[i] for i in missed.sum(axis=1).argmax(axis=1)).most_common()
    listed = ", ".join(f"{policy} ({n})" for policy, n in settled)
    return f" In the others most edges settle on {listed}."


def _listed(votes: list[tuple[str, int]]) -> str:
    first, *others = (f"{policy} is the favourite of {n}" for policy, n in votes)
    return ", ".join([first, *(other.replace("is the favourite ", "") for other in others)])


PICTURE = Picture(
    "cdn",
    "Above: what each policy misses, by kind of traffic and over the fleet; and which policies "
    "FedExp3's edges play over time, mean over runs. Below, the edges on their map: the policy "
    "that misses least at each, what Exp3 recommends at each in one run, and FedExp3.",
    "Most edges miss least with one policy, the fleet with another; FedExp3's edges agree on the "
    "fleet's, Exp3's on none.",
)


def draw(together: fb.Result, choices: Mapping[str, Choice], means: Means) -> Figure:
    """Misses and play over time above, three maps of the edges below."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    colours = colours_of(means)
    figure = plt.figure(figsize=(7.2, 5.6), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
    above, below = halves
    left, right = above.subplots(1, 2, width_ratios=(1.1, 1.0))
    _draw_misses(left, means)
    _draw_play(right, together, means)
    maps = {
        "favourite of each edge": means.favourites,
        "Exp3 alone recommends": choices[ALONE].chosen[0].argmax(axis=1),
        "FedExp3 recommends": choices[TOGETHER].chosen[0].argmax(axis=1),
    }
    for ax, (title, policies) in zip(below.subplots(1, len(maps)), maps.items(), strict=True):
        _draw_map(ax, title, policies, means)
    figure.legend(
        handles=[Patch(color=colours[i], label=name) for i, name in enumerate(means.policies)],
        loc="outside lower center",
        ncols=len(means.policies),
        frameon=False,
        fontsize="small",
    )
    return figure


def colours_of(means: Means) -> list[str]:
    """A colour for each policy, in the order of what the fleet misses."""
    from fedbandits.results.plots import COLOURS

    ranks = means.fleet.argsort().argsort()
    return [COLOURS[rank % len(COLOURS)] for rank in ranks]


LIGHT = ("#CC79A7", "#E69F00", "#56B4E9")
"""Colours on which black text is read more easily than white."""


def _draw_misses(ax: Axes, means: Means) -> None:
    places = np.arange(len(means.policies))
    for marker, (kind, ratios) in zip("o^sv", means.by_kind().items(), strict=True):
        ax.plot(100 * ratios, places, marker, color="0.55", ms=4.5, label=kind)
    ax.plot(100 * means.fleet, places, "D", color="black", ms=5.5, label="fleet")
    ax.set_yticks(places, means.policies)
    ax.invert_yaxis()
    ax.set_xlabel("misses, % of requests")
    ax.set_title("What each policy misses", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.45, -0.22),
        ncols=5,
        fontsize="x-small",
        frameon=False,
        handletextpad=0.1,
        columnspacing=0.8,
    )


def _draw_play(ax: Axes, result: fb.Result, means: Means) -> None:
    colours, order = colours_of(means), means.fleet.argsort()
    time, shares = played(result)
    ax.stackplot(time, shares.T[order], colors=[colours[i] for i in order], linewidth=0)
    ax.set(xlabel="round $t$", ylabel="share of the edges", ylim=(0, 1), xlim=(time[0], time[-1]))
    ax.set_title("FedExp3: policies played", fontsize="medium")


def played(result: fb.Result) -> tuple[Floats, Floats]:
    """Which share of the edges plays each policy, mean over runs and a fiftieth of the time.

    Returns:
        times at the ends of the fiftieths, and shares `[times, K]`.
    """
    time = result.dataset["time"].to_numpy().astype(np.float64)
    upto = result.dataset["arm_frequency"].mean("run").to_numpy() * time[:, None]
    step = max(1, len(time) // 50)
    time, upto = time[::-step][::-1], upto[::-step][::-1]
    return time[1:], np.diff(upto, axis=0) / np.diff(time)[:, None]


def _draw_map(ax: Axes, title: str, policies: npt.NDArray[np.intp], means: Means) -> None:
    from matplotlib.patches import Rectangle

    colours = colours_of(means)
    for v, (edge, policy) in enumerate(zip(means.edges, policies, strict=True)):
        (row, col), colour = divmod(v, COLS), colours[policy]
        ax.add_patch(Rectangle((col - 0.48, row - 0.48), 0.96, 0.96, color=colour, linewidth=0))
        ink = "black" if colour in LIGHT else "white"
        ax.text(col, row, edge, ha="center", va="center", fontsize=5.5, color=ink)
    ax.set(xlim=(-0.55, COLS - 0.45), ylim=(ROWS - 0.45, -0.55), aspect="equal")
    ax.set_title(title, fontsize="small")
    ax.axis("off")

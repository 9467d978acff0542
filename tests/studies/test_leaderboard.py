"""The leaderboard and robustness: algorithms compared, their numbers, and fair tuning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits import tuning
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.engine.executors.program import compilations
from fedbandits.paper.cells import KeptCells
from fedbandits.paper.section import Section, versions
from studies import Options, leaderboard, robustness, suite
from studies.entries import Entry, Sizes, percent, share
from studies.leaderboard import DEFAULT, TUNED, Cost
from studies.robustness import CONDITIONS, NO_FAULT
from tests.sections import Made, check_section

FAMILY = "4 moderate"
SMALL = replace(
    leaderboard.QUICK,
    suite=replace(suite.QUICK, rows=2, cols=4, arms=4, horizon=240),
    tuning=leaderboard.Tuning(budget=3, runs=1, draws=2),
)
"""A board of the same kind that takes seconds."""
PLAYERS: dict[str, AnyAlgorithm] = {"Uniform": fb.Uniform(), "FedExp3": fb.FedExp3(1e-4)}
"""Two algorithms, one of them tunable."""
ENTRIES = [
    *(("FedExp3", DEFAULT), ("FedExp3", TUNED), ("Uniform", DEFAULT)),
]


def make(out: Path) -> Section:
    return leaderboard.reproduce(Options(out, quick=True), SMALL, PLAYERS)


def entry(
    algorithm: str = "FedExp3",
    regret: Any = ((1, 3), (3, 5)),
    uniform: Any = (10, 20),
    *,
    setting: str = DEFAULT,
    family: str = "1 paper",
    network: str = "grid",
) -> Entry:
    return Entry(
        *(algorithm, setting, family, network), np.array(regret, float), np.array(uniform, float)
    )


FLAT = entry()  # 2/10, 4/20: the same share in both draws
SECOND = entry(regret=((0, 0), (0, 12)), uniform=(6, 6), network="path")  # 0, then all of it
FIRST = entry(regret=((0, 12), (0, 0)), uniform=(6, 6), network="star")  # the other way round


def test_every_algorithm_is_on_the_board_or_left_out_by_name() -> None:
    on, out = set(leaderboard.players()), set(leaderboard.LEFT_OUT)
    assert on | out == set(fb.algorithms.REGISTRY)
    assert not on & out


@pytest.mark.parametrize(
    ("cases", "mean", "worst"),
    [
        ([FLAT], (0.2, 0.2, 0.2), 4 / 15),
        ([SECOND], (0.5, 0.0, 1.0), 1.0),  # each draw twice in a quarter of the resamples
        ([FLAT, SECOND], (0.35, 0.1, 0.6), 19 / 30),
        ([SECOND, FIRST], (0.5, 0.5, 0.5), 1.0),  # all cases have the same draws resampled
        (
            [entry(regret=(1, 2), uniform=(2, 4)), entry(regret=(3, 3), uniform=(2, 2))],
            (1, 1, 1),
            1,
        ),
        ([entry(regret=(1, 3), uniform=(4, 4))], (0.5, 0.25, 0.75), 0.5),  # without agents
    ],
)
def test_shares_by_hand(cases: list[Entry], mean: tuple[float, ...], worst: float) -> None:
    assert share(cases) == pytest.approx(mean)
    assert share(cases, worst=True).mean == pytest.approx(worst)


def test_cells_are_per_cent_with_half_an_interval() -> None:
    alone = entry(regret=[[-1, -3]], uniform=[8])
    assert [percent(cases) for cases in ([SECOND], [alone], [])] == ["50.0 ± 50.0", "-25.0", "-"]


def by_hand() -> tuple[list[Entry], dict[str, Cost]]:
    """Three algorithms, the worst first, one of which cannot be tuned."""
    entries = [
        entry("Uniform", [[10, 10]] * 2, [10, 10]),
        entry("Uniform", [[20, 20]] * 2, [20, 20], family="5 switching"),
        entry("FedExp3", [[4, 6]] * 2, [10, 10]),
        entry("FedExp3", [[4, 4]] * 2, [10, 10], setting=TUNED, network="star"),
        entry("FedExp3", [[-3, -1]] * 2, [20, 20], family="5 switching"),
        entry("Exp3Coop", [[1, 3]] * 2, [10, 10]),
        entry("Exp3Coop", [[6, 6]] * 2, [10, 10], setting=TUNED),
        entry("Exp3Coop", [[8, 8]] * 2, [20, 20], family="5 switching"),
    ]
    costs = {
        "Uniform": Cost(0.0, {}, 1.2),
        "FedExp3": Cost(1234.4, {"z": "estimate"}, 2.6),
        "Exp3Coop": Cost(99.0, {"arm": "raw", "loss": "raw", "unplayed": "estimate"}, 7.0),
    }
    return entries, costs


def test_the_board_is_sorted_and_shows_each_column() -> None:
    entries, costs = by_hand()
    table = leaderboard.board(entries, costs, "2 × abacus")
    tail = {row[0]: tuple(row[1:]) for row in table.rows}
    assert list(tail) == ["Exp3Coop", "FedExp3", "Uniform"]
    assert tail["Exp3Coop"] == (
        *("20.0 ± 0.0", "60.0 ± 0.0", "30.0 ± 0.0", "40.0 ± 0.0"),
        *("raw + estimate", "99", "7"),
    )
    assert tail["FedExp3"] == (
        *("50.0 ± 0.0", "40.0 ± 0.0", "60.0 ± 0.0", "-10.0 ± 0.0"),
        *("estimate", "1,234", "3"),
    )
    assert tail["Uniform"][1] == "-"
    assert tail["Uniform"][4:] == ("nothing", "0", "1")
    assert "on 2 × abacus." in table.note


def test_breakdowns_and_words() -> None:
    entries, costs = by_hand()
    family, network = leaderboard.by_family(entries), leaderboard.by_network(entries)
    assert family.columns == ("algorithm", "1 paper", "5 switching")
    assert family.rows[1] == ("FedExp3", "50.0 / 40.0", "-10.0 / -")
    assert network.columns == ("algorithm", "grid", "star")
    assert network.rows[1] == ("FedExp3", "50.0 / -", "- / 40.0")
    (words,) = leaderboard.findings(entries, costs)
    assert "Exp3Coop pays least" in words
    assert "(20.0 ± 0.0 % of" in words
    assert "then FedExp3 (50.0 ± 0.0 %); tuned for each case, FedExp3 (40.0 ± 0.0 %)" in words
    assert "leave the agents of Exp3Coop. The default rate of FedExp3" in words
    # FedHedge sees the losses of all arms: it does not compete with bandit feedback.
    seer = entry("FedHedge", [[0.1, 0.1]] * 2, [10, 10])
    with_seer = [*entries, seer, seer._replace(setting=TUNED)]
    assert leaderboard.findings(with_seer, costs | {"FedHedge": costs["FedExp3"]}) == [words]


def test_defaults_chosen_in_view_of_the_families_are_named() -> None:
    entries, costs = by_hand()
    said = (*leaderboard.findings(entries, costs), leaderboard.board(entries, costs, "").note)
    assert all("was chosen with these families, among others, in view" in words for words in said)
    chosen = (fb.schedules.small_loss(), fb.schedules.mixing_aware())
    rates = {n: getattr(p, "learning_rate", None) for n, p in leaderboard.players().items()}
    named = [name for name, rate in rates.items() if rate in chosen]
    expected = ["AcceleratedFedExp3", "Exp3", "FedExp3", "SharingFedExp3", "TrackingFedExp3"]
    assert sorted(named) == expected
    assert all(
        f"{name} " in leaderboard.IN_VIEW or f"{name}, " in leaderboard.IN_VIEW for name in named
    )


def test_noise_is_on_the_board_with_its_guarantee() -> None:
    noised = [name for name, kind in leaderboard.players().items() if kind.guarantee is not None]
    assert noised == ["PrivateFedExp3", "HeldFedExp3"]
    entries, costs = by_hand()
    assert "adds noise" not in leaderboard.board(entries, costs, "").note
    entries += [entry(name) for name in noised]
    note = leaderboard.board(entries, costs | dict.fromkeys(noised, costs["FedExp3"]), "").note
    for name, what in zip(noised, ("the arm and the loss", "the losses"), strict=True):
        assert f"{name} adds noise: ε = 1 per round for {what} of one agent (event level)" in note
    assert note.count("all other agents collude") == 2


def test_the_picture_leaves_out_shares_at_or_below_0() -> None:
    entries, _ = by_hand()
    figure = leaderboard.draw([*entries, entry("Exp3", [[-2, -2]] * 2)])
    ax = figure.axes[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["Uniform", "FedExp3", "Exp3Coop", "Exp3"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    containers: list[Any] = ax.containers
    assert {each.get_label(): sorted(each.lines[0].get_xdata()) for each in containers} == {
        "default": pytest.approx([20, 50, 100]),
        "tuned for each case": pytest.approx([40, 60]),
    }
    plt.close(figure)


def test_the_second_call_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 20.0, 20.6])
    sent = SimpleNamespace(communication={"bytes": 5.0, "leaves": {"z": "estimate"}})
    monkeypatch.setattr(leaderboard, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(fb, "simulate", lambda *_, **__: sent)
    costs = leaderboard.measure_costs({"FedExp3": fb.FedExp3()}, runs=3)
    assert costs["FedExp3"].milliseconds == pytest.approx(200)
    assert next(clock, None) is None


@pytest.mark.slow
@pytest.mark.soak
def test_quick_writes_all_entries(made: Made) -> None:
    out, section = made
    assert [table.title for table in section.tables] == [
        "The board",
        "By family, mean over networks: default / tuned",
        "By network, families 1 to 4: default / tuned",
    ]
    assert versions()["device"] in section.tables[0].note
    assert "a simulated run of 240 rounds" in section.tables[0].note
    assert "the best of at most 3 candidates" in section.settings["tuned"]
    table = pd.read_csv(out / "leaderboard.csv")
    found = table[["family", "network", "algorithm", "setting"]].itertuples(index=False, name=None)
    families = (FAMILY, "5 switching")
    expected = [(family, "grid", *player) for family in families for player in ENTRIES]
    assert sorted(found) == expected
    assert not table.isna().any(axis=None)
    # Uniform play's expected regret has no randomness but the losses'; float32 sums of 240 rounds.
    shares = [name for name in table if "share" in str(name)]
    assert len(shares) == 6
    uniform = table[table["algorithm"] == "Uniform"]
    np.testing.assert_allclose(uniform[shares], 1, rtol=1e-5)
    # Tuning helps where the default hardly learns.
    rows = table[(table["family"] == FAMILY) & (table["algorithm"] == "FedExp3")]
    of = dict(zip(rows["setting"], rows["share_mean"], strict=True))
    assert of[DEFAULT] > 0.95
    assert of[TUNED] < 0.8


@pytest.mark.slow
def test_costs_count_bytes_and_kinds() -> None:
    """On the grid of 2 by 4, 10 edges: K numbers of 4 bytes to each of 2.5 neighbours."""
    players: dict[str, AnyAlgorithm] = {"FedExp3": fb.FedExp3(1e-4), "Exp3Coop": fb.Exp3Coop()}
    costs = leaderboard.measure_costs(players, 2, SMALL.suite)
    assert costs["FedExp3"].bytes == 4 * 4 * (2 * 10 / 8)
    assert costs["FedExp3"].leaves == {"z": "estimate"}
    assert costs["Exp3Coop"].leaves == {"arm": "raw", "loss": "raw", "unplayed": "estimate"}
    assert all(cost.milliseconds > 0 for cost in costs.values())


@pytest.mark.slow
@pytest.mark.usefixtures("made")
@pytest.mark.soak
def test_networks_share_programs_and_no_draw_is_tuned_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned: set[int] = set()
    judged: set[int] = set()
    play, regret_of = tuning.play.play_each, suite.regret_of

    def tuning_on(simulation: Any, players: Any, seed: int, progress: Any) -> Any:
        tuned.add(seed)
        return play(simulation, players, seed, progress)

    def judging_on(problems: Any, *rest: Any) -> Any:
        judged.update(int(problem.seed) for problem in problems)
        return regret_of(problems, *rest)

    monkeypatch.setattr(tuning.choice, "play_each", tuning_on)
    monkeypatch.setattr(suite, "regret_of", judging_on)
    seeds = suite.fresh_seeds(0, 2)
    before = compilations()
    chosen, networks = {FAMILY: suite.families(SMALL.suite)[FAMILY]}, suite.networks(SMALL.suite)
    kept = KeptCells(tmp_path, "leaderboard")
    entries = leaderboard.play(PLAYERS, chosen, networks, seeds, SMALL.tuning, kept)
    assert compilations() == before  # the grid's programs, from before, play the other three
    assert judged == set(seeds.judging)
    assert len(tuned) == SMALL.tuning.draws
    assert not tuned & judged
    # A tuned entry exactly where there is something to tune, on every network.
    found = sorted((e.algorithm, e.setting, e.network) for e in entries)
    assert found == sorted((*player, network) for player in ENTRIES for network in networks)
    assert all(e.regret.shape == (2, 8) and e.uniform.shape == (2,) for e in entries)
    # After Ctrl-C, kept cells are not played again, and have the same numbers.
    judged.clear()
    again = leaderboard.play(PLAYERS, chosen, networks, seeds, SMALL.tuning, kept)
    assert not judged
    assert [e[:4] for e in again] == [e[:4] for e in entries]
    for one, other in zip(again, entries, strict=True):
        np.testing.assert_array_equal(one.regret, other.regret)
        np.testing.assert_array_equal(one.uniform, other.uniform)


# Robustness.

TINY = Sizes(agents=4, arms=3, horizon=20, draws=2)
CASE = robustness.cases(TINY, 0)["paper", "complete"]


def test_rejected_algorithms_are_dashes_and_ranks_are_without_faults() -> None:
    one, two = (entry("A", [x], [2], setting=NO_FAULT, network="ring") for x in (1.0, 0.5))
    found = [one, two._replace(algorithm="B"), one._replace(algorithm="B", setting="a liar")]
    assert robustness.board(found).rows == [["B", "25.0", "50.0"], ["A", "50.0", "-"]]


@pytest.mark.slow
@pytest.mark.soak
def test_robustness_plays_all_conditions_and_rules(tmp_path: Path) -> None:
    players: dict[str, AnyAlgorithm] = {"FedExp3": fb.FedExp3(), "Exp3": fb.Exp3()}
    section = robustness.reproduce(Options(tmp_path, quick=True), TINY, players)
    check_section(tmp_path, section)
    board, rules = section.tables
    assert board.columns == ("algorithm", *CONDITIONS)
    [exp3] = [row for row in board.rows if row[0] == "Exp3"]
    sends = [place for place, name in enumerate(board.columns) if "liar" in name]
    assert [place for place, cell in enumerate(exp3) if cell == "-"] == sends
    assert [row[0] for row in rules.rows] == ["no loss", *robustness.BY_RULE]
    assert rules.columns == ("rule", "paper", "heterogeneous")


@pytest.mark.slow
def test_entries_are_results_of_simulate() -> None:
    """With an adaptive adversary, uniform play's regret is on the losses as they came."""
    regret, uniform = robustness.regrets(CONDITIONS["watched"].play(CASE, fb.FedExp3(), 2))
    problem = fb.problems.hit_favourite(CASE.problem)
    result = fb.simulate(problem, fb.FedExp3(), CASE.gossip, 1, draws=2, progress=False)
    np.testing.assert_allclose(regret, result.dataset["expected_regret"].isel(time=-1, run=0))
    assert uniform.mean() == pytest.approx(result.uniform_regret)


def test_every_sentence_about_noise_names_epsilon_unit_and_adversary() -> None:
    note = robustness.board([entry(regret=[1], uniform=[2], setting=NO_FAULT)]).note
    for said in (robustness.NOTE, CONDITIONS["ε = 1"].what, note):
        for words in ("ε = 1 per round", "of one agent", "(event level)", "all others collude"):
            assert words in said
    assert "no guarantee for arms where watched" in robustness.NOTE
    assert CONDITIONS["ε = 1"].what in note


def test_algorithms_that_a_condition_skips_are_those_that_simulate_rejects() -> None:
    """Other errors end the study."""
    refused = 0
    for condition in CONDITIONS.values():
        for algorithm in leaderboard.players(robustness.LEFT_OUT).values():
            if not condition.takes(algorithm):
                refused += 1
                with pytest.raises(ValueError, match=r"floods|sends nothing|losses of all arms"):
                    condition.play(CASE, algorithm, 2)
    assert refused == 14  # three that flood, on three kinds of bad links; two that send nothing

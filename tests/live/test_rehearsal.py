"""Rehearsals: real agents in memory, played as a simulation is, with and without faults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import fedbandits as fb
from fedbandits.algorithms import AnyAlgorithm
from fedbandits.arrays import Array
from fedbandits.engine.trajectory import trajectory
from fedbandits.live import Away, ClockJump, Faults, Federation, Partition, rehearse
from fedbandits.live.protocol.edge import EdgeState
from fedbandits.live.protocol.ledger import AgentLedger
from fedbandits.live.protocol.messages import MessageFormat
from fedbandits.live.rehearsal.memory import MemoryNetwork
from fedbandits.live.rehearsal.rehearsal import Rehearsal, _game, _runs
from fedbandits.live.rehearsal.rehearsal_run import AWAY, RunOutcome

ARMS = ("tea", "coffee", "cocoa")
BAD = Faults(
    loss=0.3,
    delay=(0.0, 2.0),
    repeat=0.2,
    one_way={("agent1", "agent2"): 0.9},
    partitions=[Partition(10, 15, frozenset({"agent1"}))],
    away=[Away("agent2", 5, 12), Away("agent3", 8, 20, disk_lost=True)],
    clock_jumps=[ClockJump("agent3", 10, -3600)],
)


def game(horizon: int = 30, **more: Any) -> tuple[fb.problems.Problem, Federation]:
    problem = fb.problems.heterogeneous(4, len(ARMS), horizon, seed=1)
    return problem, Federation(ARMS, fb.networks.ring(4), **more)


def one_run(*given: Any, **more: Any) -> RunOutcome:
    rehearsal = Rehearsal(*given, **more)
    [run] = _runs(rehearsal, _game(rehearsal))
    return run.play()


# Lockstep

NETWORKS = {
    "grid": fb.networks.grid(3, 3),
    "star": fb.networks.star(7),
    "random geometric": fb.networks.random_geometric(8, 0.6, seed=1),
    "path": fb.networks.path(6),
}
# With the default rate FedExp3 doubles a difference in the last digit every few rounds on losses
# like these: after 300 rounds two correct computations may part. With a constant one it does not.
ALGORITHMS: dict[str, AnyAlgorithm] = {
    "FedExp3": fb.FedExp3(0.1),
    "FedExp3 that forgets": fb.FedExp3(0.1, memory=40),
    "FedHedge": fb.FedHedge(),
    "GossipUCB": fb.GossipUCB(),
}


def plays_as_simulated(
    problem: fb.problems.Problem, algorithm: AnyAlgorithm, gossip: fb.Gossip
) -> None:
    """The very arms, and distributions that differ by rounding alone."""
    arms = [f"arm{i}" for i in range(problem.arms)]
    federation = Federation(arms, gossip, algorithm=algorithm)
    live = one_run(problem, federation, seed=3, lockstep=True)
    simulated = trajectory(problem, algorithm, gossip, seed=3)
    np.testing.assert_array_equal(live.action, simulated.action[:, 0])
    expected = np.einsum("tnk,tk->tn", simulated.distribution[:, 0], live.arm_loss)
    np.testing.assert_allclose(live.expected, expected, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("network", NETWORKS)
def test_lockstep_is_simulation(network: str, algorithm: str) -> None:
    graph = NETWORKS[network]
    problem = fb.problems.heterogeneous(graph.agents, 5, 300, seed=2)
    plays_as_simulated(problem, ALGORITHMS[algorithm], fb.gossip.metropolis(graph))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["max_degree", "metropolis", "fastest"])
def test_lockstep_with_other_weights(rule: str) -> None:
    problem = fb.problems.heterogeneous(7, 5, 300, seed=2)
    gossip = getattr(fb.gossip, rule)(NETWORKS["star"])
    plays_as_simulated(problem, fb.FedExp3(0.1), gossip)


@pytest.mark.slow
def test_lockstep_with_the_default_on_the_papers_losses() -> None:
    problem = fb.problems.activated_bernoulli(9, 5, 300, seed=2)
    plays_as_simulated(problem, fb.FedExp3(), fb.gossip.max_degree(NETWORKS["grid"]))


@pytest.mark.parametrize("memory", [None, 7])
def test_lockstep_briefly(memory: float | None) -> None:
    problem = fb.problems.heterogeneous(4, 3, 30, seed=2)
    algorithm = fb.FedExp3(0.1, memory=memory)
    plays_as_simulated(problem, algorithm, fb.gossip.metropolis(fb.networks.path(4)))


def test_lockstep_with_several_memories() -> None:
    problem = fb.problems.activated_bernoulli(4, 3, 30, seed=2)
    gossip = fb.gossip.metropolis(fb.networks.path(4))
    plays_as_simulated(problem, fb.TrackingFedExp3(0.1), gossip)


@pytest.mark.parametrize("limit", [0.5, 3.0])
def test_lockstep_with_a_limit(limit: float) -> None:
    """Live agents and simulated ones mean the same by it."""
    problem = fb.problems.heterogeneous(5, 3, 60, seed=2)
    gossip = fb.gossip.clipped(fb.gossip.metropolis(fb.networks.star(5)), limit)
    plays_as_simulated(problem, fb.FedExp3(0.1), gossip)


@dataclass(frozen=True)
class Always:
    """Says the same whatever is true, so that the liar's own state does not matter."""

    value: float

    def lie(self, x: Array, t: Array) -> Array:
        xp = x.__array_namespace__()
        return xp.zeros_like(x) + self.value * xp.arange(x.shape[0])[:, None]


@pytest.mark.parametrize("liars", [{1: Always(-50.0)}, {"agent1": Always(3.0), 3: Always(-0.5)}])
@pytest.mark.parametrize("limit", [1.0, np.inf])
def test_lockstep_with_liars_is_simulation(liars: dict[int | str, Always], limit: float) -> None:
    problem = fb.problems.heterogeneous(5, 3, 40, seed=2)
    gossip = fb.gossip.clipped(fb.gossip.metropolis(fb.networks.star(5)), limit)
    federation = Federation(ARMS, gossip, algorithm=fb.FedExp3(0.1))
    live = rehearse(problem, federation, runs=2, seed=5, lockstep=True, liars=liars)
    numbers = {0 if who == "agent1" else int(who): attack for who, attack in liars.items()}
    simulated = fb.simulate(
        problem, fb.FedExp3(0.1), gossip, 2, seed=5, dtype="float64", liars=numbers
    )
    assert np.isnan(live.dataset["agent_regret"][:, [*numbers]]).all()
    for name, variable in simulated.dataset.items():
        if name != "recommended_arm":  # the liar recommends from its state
            found = live.dataset[name]
            np.testing.assert_allclose(found, variable, rtol=0, atol=1e-9, err_msg=str(name))
    assert live.config == simulated.config | {"live": {"lockstep": True}}


def test_a_liar_without_a_round_in_common_ruins_a_rehearsal_that_has_no_limit() -> None:
    problem = fb.problems.bernoulli([0.1, 0.9], horizon=100, agents=4)
    ring = fb.gossip.metropolis(fb.networks.ring(4))
    regret = {}
    for limit in (0.5, np.inf):
        shops = Federation(["tea", "coffee"], fb.gossip.clipped(ring, limit))
        result = rehearse(problem, shops, liars={"agent2": fb.attacks.promote(arm=1)})
        regret[limit] = float(result.dataset["expected_regret"][0, -1])
    assert regret[0.5] < 20 < 70 < regret[np.inf]


@pytest.mark.slow
def test_a_result_in_lockstep_is_that_of_simulate() -> None:
    problem, federation = game(algorithm=fb.FedExp3(0.1))
    live = rehearse(problem, federation, runs=2, seed=5, lockstep=True)
    gossip = federation.gossip
    assert isinstance(gossip, fb.Gossip)
    simulated = fb.simulate(problem, fb.FedExp3(0.1), gossip, 2, seed=5, dtype="float64")
    for name, variable in simulated.dataset.items():
        found = live.dataset[name]
        np.testing.assert_allclose(found, variable, rtol=0, atol=1e-9, err_msg=str(name))
    there = simulated.config | {"live": {"lockstep": True}}
    assert live.config == there
    # A message either way over each of the ring's 4 edges.
    assert live.communication["messages"] == simulated.communication["messages"] == 2
    assert abs(fb.compare(live, simulated).difference).max() < 1e-9


# Without a round in common


def same(a: fb.Result, b: fb.Result) -> None:
    xr.testing.assert_identical(a.dataset, b.dataset)


def test_a_seed_is_a_history() -> None:
    problem, federation = game()
    once = rehearse(problem, federation, BAD, seed=1)
    same(once, rehearse(problem, federation, BAD, seed=1))
    other = rehearse(problem, federation, BAD, seed=2)
    assert not once.dataset["arm_frequency"].equals(other.dataset["arm_frequency"])


@pytest.mark.slow  # two processes that import JAX
def test_processes_change_nothing() -> None:
    problem, federation = game()
    problem = fb.problems.from_tensor(problem.block(1, 30))  # losses that no salt can change
    alone = rehearse(problem, federation, BAD, runs=3, seed=1)
    same(alone, rehearse(problem, federation, BAD, runs=3, seed=1, processes=2))


@pytest.mark.slow
def test_runs_do_not_depend_on_each_other() -> None:
    problem, federation = game()
    one, three = (rehearse(problem, federation, BAD, runs=n, seed=1) for n in (1, 3))
    for name in ("regret", "recommended_arm", "arm_frequency"):
        np.testing.assert_array_equal(one.dataset[name][0], three.dataset[name][0])


def test_all_that_was_sent_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    carried = []
    carry = MemoryNetwork.carry

    def listen(self: MemoryNetwork, sender: str, to: str, message: bytes) -> None:
        carried.append(len(message))
        carry(self, sender, to, message)

    monkeypatch.setattr(MemoryNetwork, "carry", listen)
    problem, federation = game()
    sent = rehearse(problem, federation, BAD, runs=2).communication
    per = 2 * 30 * 4  # runs, rounds, agents
    assert sent["messages"] * per == pytest.approx(len(carried), rel=1e-12)
    assert sent["bytes"] * per == pytest.approx(sum(carried), rel=1e-12)
    assert sum(sent["leaf_bytes"].values()) == pytest.approx(sent["bytes"])
    assert sent["leaves"] == {"z": "estimate"}


def test_gossip_is_as_frequent_as_it_should_be() -> None:
    """No faults: one report and one answer over each of 4 edges, twice a second, jitter apart."""
    problem, federation = game(horizon=200, gossip_period=0.5)
    sent = rehearse(problem, federation).communication
    assert sent["messages"] == pytest.approx(4, rel=0.05)


def test_who_is_not_answered_asks_again() -> None:
    """Everything is lost: two reports a period over each of 4 edges, and no answer.

    With nothing lost no report is repeated, as the test above says.
    """
    problem, federation = game(horizon=200, gossip_period=0.5)
    sent = rehearse(problem, federation, Faults(loss=1.0)).communication
    assert sent["messages"] == pytest.approx(4, rel=0.05)


@pytest.mark.slow
def test_who_sends_nothing_sends_nothing() -> None:
    problem, federation = game(algorithm=fb.Exp3())
    live = rehearse(problem, federation, Faults(loss=0.5), seed=5)
    assert (live.communication["messages"], live.communication["bytes"]) == (0, 0)
    alone = fb.simulate(problem, fb.Exp3(), runs=1, seed=5, dtype="float64")
    np.testing.assert_allclose(live.dataset["regret"], alone.dataset["regret"], atol=1e-9)


def test_who_is_away_plays_nothing() -> None:
    problem, federation = game()
    played = one_run(problem, federation, BAD)
    away = np.zeros((30, 4), bool)
    away[4:11, 1] = away[7:19, 2] = True
    np.testing.assert_array_equal(played.action == AWAY, away)
    np.testing.assert_array_equal(np.isnan(played.expected), away)


def test_a_round_is_the_mean_of_those_who_play() -> None:
    problem, federation = game()
    played, result = one_run(problem, federation, BAD), rehearse(problem, federation, BAD)
    data = result.dataset
    mean_loss = np.asarray(problem.block(1, 30), np.float64).mean(axis=1)
    here = played.action != AWAY
    incurred = [
        np.mean([mean_loss[t, arm] for arm in played.action[t][here[t]]]) for t in range(30)
    ]
    best = np.cumsum(mean_loss, axis=0).min(axis=1)
    np.testing.assert_allclose(data["regret"][0], np.cumsum(incurred) - best, atol=1e-9)
    shares = [
        np.bincount(played.action[t][here[t]], minlength=3) / here[t].sum() for t in range(30)
    ]
    frequency = np.cumsum(shares, axis=0) / np.arange(1, 31)[:, None]
    np.testing.assert_allclose(data["arm_frequency"][0], frequency, atol=1e-12)
    # So the agents' own regrets have the mean agent's as their mean, as without faults.
    for own, mean in (("agent_regret", "regret"), ("agent_expected_regret", "expected_regret")):
        assert float(data[own].mean()) == pytest.approx(float(data[mean][0, -1]))
    worst = data["agent_expected_regret"].mean("run").max()
    assert float(data["worst_regret"][-1]) == pytest.approx(float(worst))


def test_a_disk_that_is_kept_remembers() -> None:
    """An agent on its own, down for a moment: with its disk nothing changes, without it does."""
    problem = fb.problems.heterogeneous(2, 3, 60, seed=1)
    federation = Federation(ARMS, fb.networks.path(2), algorithm=fb.Exp3())
    undisturbed, kept, lost = (
        one_run(problem, federation, Faults(away=away)).expected
        for away in ([], [Away("agent1", 30, 30)], [Away("agent1", 30, 30, disk_lost=True)])
    )
    np.testing.assert_array_equal(kept, undisturbed)
    np.testing.assert_array_equal(lost[:29], undisturbed[:29])
    assert lost[29, 0] == pytest.approx(  # it begins anew, with all arms alike
        np.asarray(problem.block(30, 30), np.float64).mean()
    )


def test_all_learn_in_spite_of_it() -> None:
    """Two arms that always and never lose, in all faults: everyone is right in the end."""
    problem = fb.problems.bernoulli([1.0, 0.0, 1.0], 60, agents=4)
    found = rehearse(problem, Federation(ARMS, fb.networks.ring(4)), BAD)
    assert found.recommended_arm.to_numpy().tolist() == [["coffee"] * 4]
    assert found.best_arm.agreement == 1


@pytest.mark.slow
def test_live_and_simulated_side_by_side(tmp_path: Path) -> None:
    problem, federation = game()
    live = rehearse(problem, federation, BAD, runs=2)
    gossip = federation.gossip
    assert isinstance(gossip, fb.Gossip)
    simulated = fb.simulate(problem, fb.FedExp3(), gossip, 2)
    assert fb.compare(live, simulated).summary().shape == (1, 3)
    names = fb.plot(live, simulated).get_legend_handles_labels()[1]
    assert names[0].startswith("FedExp3, live=(gossip_period=0.5, faults=(loss=0.3, delay=[0, 2]")
    assert names[1] == "FedExp3"
    again = fb.load(live.save(tmp_path / "live.nc"))
    assert again.config["live"]["gossip_period"] == federation.gossip_period
    assert again.config["live"]["faults"] == BAD.describe()
    assert again.config["live"]["faults"]["away"][1] == {
        "member": "agent3",
        "start": 8,
        "end": 20,
        "disk_lost": True,
    }
    same(fb.live.rehearse(problem, federation, BAD, runs=2), again)


# Refusals


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults(away=[Away("agent9", 1, 2)]), "no member 'agent9'; did you mean 'agent"),
        (Faults(one_way={("agent1", "x"): 0.5}), "no member 'x'"),
        (Faults(partitions=[Partition(1, 2, frozenset({"y"}))]), "no member 'y'"),
        (Faults(clock_jumps=[ClockJump("z", 1, 2)]), "no member 'z'"),
        (Faults(away=[Away("agent1", 0, 2)]), "rounds are 1 to 30"),
        (Faults(away=[Away("agent1", 5, 4)]), "the end is not before the start"),
        (Faults(away=[Away("agent1", 31, 40)]), "rounds are 1 to 30"),
        (
            Faults(away=[Away("agent1", 5, 9), Away("agent1", 8, 12)]),
            "agent1 goes away in round 8, but is away already",
        ),
        (
            Faults(away=[Away(f"agent{v}", v, 10) for v in (1, 2, 3, 4)]),
            "everyone is away in round 4",
        ),
    ],
)
def test_faults_that_cannot_be(faults: Faults, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        rehearse(*game(), faults)


def test_what_cannot_be_rehearsed() -> None:
    problem, federation = game()
    with pytest.raises(ValueError, match="lockstep excludes faults"):
        rehearse(problem, federation, Faults(loss=0.1), lockstep=True)
    with pytest.raises(ValueError, match="the problem has 2 arms, and the federation 3: tea"):
        rehearse(fb.problems.bernoulli([0.1, 0.2], 30, agents=4), federation)
    with pytest.raises(ValueError, match="the problem has 5 agents but the network has 4"):
        rehearse(fb.problems.heterogeneous(5, 3, 30), federation)
    with pytest.raises(TypeError, match=r"federation must be an fb\.live\.Federation"):
        rehearse(problem, fb.networks.ring(4))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"faults must be an fb\.live\.Faults, not 0\.3"):
        rehearse(problem, federation, 0.3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delay must be"):
        Faults(delay=(2.0, 1.0))


def test_what_other_processes_cannot_be_given() -> None:
    problem = fb.problems.from_function(
        lambda t: t * np.full((4, 3), 0.01), agents=4, arms=3, horizon=30
    )
    with pytest.raises(ValueError, match="cannot be sent to other processes"):
        rehearse(problem, game()[1], runs=2, processes=2)


def test_flows_are_summed_in_one_order() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1: what a disk gives back in another order must not be
    another number, or histories would differ from process to process."""
    form = MessageFormat(b"game", {"z": 1}, {})

    def ledger(order: str) -> AgentLedger:
        found = AgentLedger("me", form)
        edges = {
            name: EdgeState.new(form, 0.1, False, 1)._replace(
                flow={"z": np.array([0.1 * int(name)])}
            )
            for name in order
        }
        found.restore({"z": np.array([0.0])}, {}, edges)
        return found

    assert ledger("123").values["z"] == ledger("321").values["z"]

"""A curious neighbour's attack: exact where it sees all, and made of what it sees alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.privacy.reconstruction import Reconstruction, reconstruct
from fedbandits.results.trajectory import Trajectory

SENDERS = [fb.FedExp3, fb.AcceleratedFedExp3, fb.GossipUCB, fb.FedFTRL, fb.Exp3Coop, fb.DelayedFTRL]


def played(algorithm: Any, network: fb.Network, rounds: int = 60, seed: int = 0) -> Trajectory:
    losses = np.random.default_rng(seed).uniform(0.05, 0.95, (rounds, network.agents, 4))
    problem = fb.problems.from_tensor(losses)
    return fb.trajectory(problem, algorithm, fb.gossip.max_degree(network), 2, seed)


@pytest.mark.parametrize("kind", SENDERS)
def test_who_hears_all_that_the_victim_hears_finds_every_arm_and_loss(kind: type) -> None:
    found = reconstruct(played(kind(), fb.networks.complete(5)), 0, 3)
    assert found.unseen == 0
    np.testing.assert_array_equal(found.arm, found.true_arm)
    np.testing.assert_allclose(found.loss, found.true_loss, atol=1e-7)


def test_with_full_information_the_losses_show_and_the_arm_does_not() -> None:
    found = reconstruct(played(fb.FedHedge(), fb.networks.complete(5)), 0, 3)
    np.testing.assert_allclose(found.loss, found.true_loss, atol=1e-9)
    np.testing.assert_array_equal(found.arm, found.likeliest)


def test_the_first_message_of_a_block_is_the_sum_of_the_agents_own_estimates() -> None:
    run = played(fb.BlockGossip(block=5), fb.networks.ring(4))
    data = run.dataset.isel(agent=2, run=1)
    arms, p = data["action"].to_numpy(), data["distribution"].to_numpy()
    own = np.zeros(4)
    for t in range(5):
        own[arms[t]] += data["loss"][t] / p[t, arms[t]]
    np.testing.assert_allclose(data["message_x"][5], own, rtol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in SENDERS if kind is not fb.FedFTRL])
def test_the_attack_uses_what_the_attacker_sees_and_nothing_else(kind: type) -> None:
    """Neither the truth, nor messages of agents that are not its neighbours.

    Floods are told on, and seen within their reach: FedFTRL's reach everyone.
    """
    run = played(kind(), fb.networks.path(12))
    messages = {name: sent.copy() for name, sent in run.messages.items()}
    for sent in messages.values():
        sent[:, :, [0, 11]] = 7.0
    other = dataclasses.replace(
        run, messages=messages, action=0 * run.action, losses=np.full_like(run.losses, 0.5)
    )
    mine, its = (reconstruct(each, 5, 6) for each in (run, other))
    np.testing.assert_array_equal(mine.arm, its.arm)
    np.testing.assert_array_equal(mine.loss, its.loss)


def test_on_a_ring_it_is_the_arm_with_the_largest_estimate_times_its_chance() -> None:
    """argmax R p with R = z_{t+1} - Σ_known W z_t - (Σ_unseen W) z_t^v."""
    network = fb.networks.ring(8)
    run = played(fb.FedExp3(), network, 80)
    found = reconstruct(run, 0, 1)
    assert found.unseen == 1
    z, p = (run.dataset[name].to_numpy() for name in ("message_z", "distribution"))
    assert run.gossip is not None
    W = run.gossip.matrix.toarray()
    left = z[1:, :, 1] - W[0, 1] * z[:-1, :, 0] - (1 - W[0, 1]) * z[:-1, :, 1]
    arm = (left * p[:-1, :, 1]).argmax(axis=-1)
    # They differ only where the formula's loss lies above 1, which no loss does.
    within = np.take_along_axis(left * p[:-1, :, 1], arm[..., None], -1)[..., 0] <= 1
    np.testing.assert_array_equal(found.arm[within], arm[within])


def test_a_trajectory_is_that_of_simulate() -> None:
    problem = fb.problems.bernoulli([0.2, 0.5, 0.8], horizon=40, agents=4)
    gossip = fb.gossip.max_degree(fb.networks.ring(4))
    run = fb.trajectory(problem, fb.FedExp3(), gossip, 3, seed=5)
    result = fb.simulate(problem, fb.FedExp3(), gossip, 3, seed=5, dtype="float64", progress=False)
    share = np.stack([(run.dataset["action"] == i).mean(("time", "agent")) for i in range(3)])
    np.testing.assert_allclose(result.dataset["arm_frequency"][:, -1].T, share)
    assert set(run.messages) == {"z"}


def test_what_cannot_be_seen_is_refused() -> None:
    run = played(fb.FedExp3(), fb.networks.path(4), 5)
    with pytest.raises(ValueError, match=r"0 and 2 are no neighbours .* its neighbours are 1"):
        reconstruct(run, 0, 2)
    with pytest.raises(ValueError, match="victim must be"):
        reconstruct(run, 0, 9)
    with pytest.raises(ValueError, match="Exp3 sends nothing"):
        reconstruct(played(fb.Exp3(), fb.networks.path(4), 5), 0, 1)
    with pytest.raises(ValueError, match="makes nothing: no evidence either way"):
        reconstruct(played(fb.PrivateFedExp3(), fb.networks.path(4), 5), 0, 1)
    with pytest.raises(TypeError, match=r"fb.trajectory\(.*\), not Dataset"):
        reconstruct(run.dataset, 0, 1)  # type: ignore[arg-type]  # what a user might give


def test_shares_are_of_rounds_that_left_a_trace() -> None:
    arms = np.array([[0], [1], [2]])
    losses = np.array([[0.0], [1.0], [1.0]])
    found = Reconstruction(0, 1, 0, arms, losses, arms * 0, np.array([[1], [1], [0]]), losses)
    assert found.arms_found == 0.5
    assert found.arms_guessed == 0.5
    assert found.loss_error == 0.0
    assert found.losses_found == 1.0
    assert found.loss_spread == 0.0
    assert "arms found 50.0%, by guessing 50.0%, of 2 rounds" in repr(found)

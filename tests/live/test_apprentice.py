"""A fixed arm is played while the agent tells what it would have: what may be learnt from that."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.live import Agent, Federation
from fedbandits.live.protocol.tickets import ChoiceError
from fedbandits.live.rehearsal.memory import MemoryStore

from .members import exchange, member, members

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1), algorithm=fb.FedExp3(0.3))


def test_the_baseline_is_played_and_the_draw_is_told() -> None:
    """The same numbers draw what an agent without a baseline plays."""
    apprentice, free = member(ALONE), member(ALONE)
    tickets = [apprentice.choose(0.0, baseline="tea") for _ in range(30)]
    assert {(each.arm, each.probability) for each in tickets} == {("tea", 1.0)}
    assert [each.would for each in tickets] == [free.choose(0.0).arm for _ in range(30)]
    assert {each.would for each in tickets} == set(ARMS)


def test_one_arm_alone_moves_no_share() -> None:
    """Nothing is known of arms that nobody played: they are charged the same, exactly."""
    one = member(ALONE)
    one.ledger.set_values({"z": np.array([0.5, 0.0, 1.0])})
    before = one.ledger.values["z"]
    for loss in (1.0, 0.25, 0.5):
        one.observe(one.choose(0.0, baseline="tea").id, loss, 0.0)
    np.testing.assert_array_equal(one.ledger.values["z"] - before, 1.75)


def test_neighbours_that_play_teach_it() -> None:
    shops = Federation(ARMS, fb.networks.path(2), algorithm=fb.FedExp3(0.3))
    both = members(shops)
    apprentice, free = both.values()
    for _ in range(300):
        ticket = free.choose(0.0)
        free.observe(ticket.id, 0.1 if ticket.arm == "cocoa" else 0.9, 0.0)
        apprentice.observe(apprentice.choose(0.0, baseline="tea").id, 0.9, 0.0)
        exchange(both)
    assert apprentice.recommended == "cocoa"
    last = [apprentice.choose(0.0, baseline="tea") for _ in range(40)]
    assert {each.arm for each in last} == {"tea"}
    assert sum(each.would == "cocoa" for each in last) > 20


def test_losses_of_all_arms_teach_it_all() -> None:
    shops = Federation(ARMS, fb.networks.path(1), algorithm=fb.FedHedge())
    one = member(shops)
    one.observe(one.choose(0.0, baseline="tea").id, [0.5, 0.25, 1.0], 0.0)
    np.testing.assert_array_equal(one.ledger.values["z"], [0.5, 0.25, 1.0])


def test_a_repeated_event_tells_the_same_draw_and_counts_once() -> None:
    async def twice() -> None:
        async with Agent("agent1", ALONE, MemoryStore()) as agent:
            first = await agent.choose(event="order 1", baseline="tea")
            await agent.observe(first.id, 0.5)
            assert await agent.choose(event="order 1", baseline="tea") == first
            assert first.would is not None
            assert agent.would == {first.would: 1}

    asyncio.run(twice())


def test_what_cannot_be() -> None:
    one = member(ALONE)
    with pytest.raises(ChoiceError, match=r"no arm 'te'.*tea"):
        one.choose(0.0, baseline="te")
    with pytest.raises(ChoiceError, match="baseline 'tea' is played in every round"):
        one.choose(0.0, ["coffee", "cocoa"], baseline="tea")
    ucb = Federation(ARMS, fb.networks.path(1), algorithm=fb.GossipUCB())
    with pytest.raises(ChoiceError, match="plays all arms or none"):
        member(ucb).choose(0.0, baseline="tea")
    assert one.rounds == 0

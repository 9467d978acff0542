"""The agent around its part: disk before word, shared commits, failures, and two faces."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.gossip.scatter import scatter
from fedbandits.live import Agent, Federation, StoppedError, Ticket
from fedbandits.live.protocol.messages import VERSION, EdgeTerms, ReportMessage, encode, packed
from fedbandits.live.protocol.records import Changes
from fedbandits.live.rehearsal.memory import Links, MemoryNetwork, MemoryStore
from fedbandits.live.rehearsal.virtual_clock import StuckError, run_virtual

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1))
PAIR = Federation(ARMS, fb.networks.path(2), gossip_period=1.0)


class Slow(MemoryStore):
    """Takes a second for every write, and counts them."""

    writes = 0

    async def write(self, changes: Changes) -> None:
        await asyncio.sleep(1.0)
        await super().write(changes)
        self.writes += 1


class Full(MemoryStore):
    """Has no room after some writes."""

    room = 3

    async def write(self, changes: Changes) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError("no space left on device")
        await super().write(changes)


def agent(
    federation: Federation = ALONE,
    store: Any = None,
    network: MemoryNetwork | None = None,
    name: str = "agent1",
    **options: Any,
) -> Agent:
    """An agent under a virtual clock, reproducible."""
    return Agent(
        name,
        federation,
        store or MemoryStore(random.Random(name)),
        None if network is None else network.transport(name),
        clock=lambda: 1e9 + asyncio.get_running_loop().time(),
        chance=random.Random(name),
        **options,
    )


def virtually(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run under the virtual clock."""

    async def run() -> Any:
        return await work()

    return run_virtual(run())


def test_a_choice_is_on_disk_before_it_is_returned() -> None:
    store = Slow()

    async def work() -> None:
        async with agent(store=store) as one:
            choice = asyncio.create_task(one.choose())
            await asyncio.sleep(0.5)
            assert not choice.done()
            assert store.tickets == {}
            ticket = await choice
            assert [record.id for record in store.tickets.values()] == [ticket.id]
            observed = asyncio.create_task(one.observe(ticket.id, 0.5))
            await asyncio.sleep(0.5)
            assert not observed.done()
            await observed
            assert store.tickets[1].status == "observed"
            assert store.state is not None
            assert store.state.observed == 1

    virtually(work)


def test_concurrent_calls_share_a_commit() -> None:
    store = Slow()

    async def work() -> None:
        async with agent(store=store) as one:
            before = store.writes
            tickets = await asyncio.gather(*[one.choose() for _ in range(64)])
            await asyncio.gather(*[one.observe(ticket.id, 0.5) for ticket in tickets])
            assert len({ticket.id for ticket in tickets}) == 64
            assert store.writes - before <= 4

    virtually(work)


def test_a_caller_that_gives_up_harms_nobody() -> None:
    async def work() -> None:
        async with agent(store=Slow()) as one:
            impatient = asyncio.create_task(one.choose())
            patient = asyncio.create_task(one.choose())
            await asyncio.sleep(0.1)
            impatient.cancel()
            assert isinstance(await patient, Ticket)
            assert one.rounds == one.open_tickets == 2

    virtually(work)


def test_an_agent_whose_store_fails_stops_and_loses_nothing_it_acknowledged() -> None:
    store = Full()

    async def work() -> None:
        one = agent(store=store)
        await one.start()
        ticket = await one.choose()
        await one.observe(ticket.id, 0.5)
        await one.choose()
        with pytest.raises(StoppedError, match="could not save this: no space left"):
            await one.choose()
        with pytest.raises(StoppedError, match="its store failed"):
            await one.choose()
        await one.stop()
        store.room = 100
        await one.start()
        assert (one.rounds, one.open_tickets) == (2, 1)
        await one.observe(ticket.id, 0.5)  # the same again
        await one.stop()

    virtually(work)


def test_rewards_and_other_ranges() -> None:
    async def work() -> None:
        async with agent(low=1, high=5) as one:
            stars = await one.choose(["tea"])
            await one.observe(stars.id, reward=4)
            assert one._running().ledger.inputs["z"].tolist() == [0.25, 0.25, 0.25]
            with pytest.raises(ValueError, match=r"must be in \[1, 5\], not 6.*in agent.toml"):
                await one.observe((await one.choose()).id, reward=6)
            with pytest.raises(TypeError, match="a loss or a reward"):
                await one.observe(stars.id, 0.5, reward=4)

    virtually(work)


def test_neighbours_and_who_is_silent_since_when() -> None:
    network = MemoryNetwork()

    async def work() -> None:
        one, other = (agent(PAIR, None, network, name) for name in PAIR.members)
        async with one:
            assert dict(one.neighbours)["agent2"].silent_for is None
            async with other:
                await one.observe((await one.choose()).id, 1.0)
                await asyncio.sleep(60.0)
                heard = one.neighbours["agent2"].silent_for
                assert heard is not None
                assert heard < 2.5
                assert one.disagreement < 1e-9
                assert one.recommended == other.recommended
                status = one.status()
                assert status.recommended == one.recommended
                assert dict(zip(ARMS, status.probabilities, strict=True)) == one.probabilities
                assert (status.rounds, status.observed, status.agents) == (1, 1, 2)
                assert status.neighbours["agent2"].disagreement == one.disagreement
                assert status.uptime == pytest.approx(60.0)
                assert status.time == pytest.approx(1e9 + 60.0)
                await other.leave()
            await asyncio.sleep(30.0)
            there = one.neighbours["agent2"]
            assert there.left
            assert there.silent_for == pytest.approx(30.0, abs=2.5)

    virtually(work)


def test_messages_that_are_not_believed_are_counted() -> None:
    network = MemoryNetwork()

    async def work() -> None:
        one = agent(PAIR, None, network)
        async with one:
            network.carry("agent2", "agent1", b"nonsense")
            network.carry("eve", "agent1", b"nonsense")
            await asyncio.sleep(0.1)
            there = one.neighbours["agent2"]
            assert there.refused == 1
            assert "not a message" in str(there.last_refusal)
            assert there.silent_for is None
            await one.choose()

    virtually(work)


def test_a_clock_that_jumps_expires_nothing() -> None:
    """Within a life, time is by a clock that never jumps."""
    federation = Federation(ARMS, fb.networks.path(1), expire_after=60.0)
    jump = 0.0

    async def work() -> None:
        nonlocal jump
        one = agent(federation)
        one._clock = lambda: 1e9 + jump + asyncio.get_running_loop().time()
        async with one:
            ticket = await one.choose()
            jump = 86_400.0
            await asyncio.sleep(30.0)
            await one.observe(ticket.id, 0.5)
            ticket = await one.choose()
            await asyncio.sleep(61.0)
            assert one.expired == 1

    virtually(work)


def test_members_come_and_go() -> None:
    network = MemoryNetwork()
    three = Federation(ARMS, fb.networks.path(3), gossip_period=1.0)
    two = Federation(ARMS, fb.networks.path(2), gossip_period=1.0)

    async def work() -> None:
        agents = [agent(three, None, network, name) for name in three.members]
        for one in agents:
            await one.start()
            await one.observe((await one.choose(["tea"])).id, 1.0)
        await asyncio.sleep(60.0)
        await agents[2].stop()
        for one in agents[:2]:
            await one.adopt(two)
        await asyncio.sleep(60.0)
        z = [one._running().ledger.values["z"] for one in agents[:2]]
        inputs = [one._running().ledger.inputs["z"] for one in agents[:2]]
        np.testing.assert_allclose(z[0] + z[1], inputs[0] + inputs[1])
        assert float(agents[0]._running().learner.state.agents) == 2
        told: Any = agents[0]._running().learner.algorithm
        assert isinstance(two.gossip, fb.Gossip)
        assert told.learning_rate.scatter == scatter(two.gossip)
        assert set(agents[1].neighbours) == {"agent1"}
        for one in agents:
            await one.stop()

    virtually(work)


def test_an_agent_is_used_only_while_it_runs() -> None:
    async def work() -> None:
        one = agent()
        with pytest.raises(StoppedError, match="is not running"):
            await one.choose()
        async with one:
            with pytest.raises(StoppedError, match="running already"):
                await one.start()
        with pytest.raises(StoppedError, match="is not running"):
            one.recommended  # noqa: B018

    virtually(work)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"algorithm": fb.FedHedge()}, "the federation plays FedExp3"),
        ({"arms": ["tea", "cocoa", "coffee"]}, "in this order"),
        ({"low": 1.0, "high": 1.0}, "low < high"),
        ({"store": 3}, "name of a file"),
        ({"name": "agent7"}, "no member 'agent7'"),
        ({"federation": "file"}, "must be a Federation"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises((ValueError, TypeError), match=why):
        agent(**options)


def test_what_is_the_same_may_be_said_again() -> None:
    agent(algorithm=fb.FedExp3(), arms=list(ARMS))


def test_calls_under_way_when_it_ends_are_told_so() -> None:
    async def work() -> None:
        one = agent(store=Slow())
        await one.start()
        waiting = [asyncio.create_task(one.choose()) for _ in range(3)]
        await asyncio.sleep(0.1)
        await one.abort()
        for each in waiting:
            with pytest.raises(StoppedError, match="stopped before this was saved"):
                await each

    virtually(work)


def test_what_fails_on_stopping_leaves_no_lock(tmp_path: Path) -> None:
    class Broken:
        name = "agent1"

        async def start(self, receive: Any) -> None: ...

        def send(self, to: str, message: bytes) -> None: ...

        async def stop(self) -> None:
            raise OSError("the cable is gone")

    async def twice() -> None:
        for _ in range(2):
            one = Agent("agent1", ALONE, tmp_path / "one.db", Broken())
            await one.start()
            with pytest.raises(OSError, match="cable"):
                await one.stop()

    asyncio.run(twice())


def test_a_flood_of_reports_moves_no_more_than_a_few() -> None:
    """Under a limit of 1, weight 1/2: at most four exchanges in an instant."""
    gossip = fb.gossip.clipped(fb.gossip.metropolis(fb.networks.path(2)), 1.0)
    clipped = Federation(ARMS, gossip, gossip_period=1.0)
    network = MemoryNetwork()

    async def work() -> None:
        agents = {n: agent(clipped, None, network, n) for n in clipped.members}
        for one in agents.values():
            await one.start()
        owner = next(a for a in agents.values() if not a._running().ledger.reports())
        [liar] = owner.neighbours
        await agents[liar].abort()
        await asyncio.sleep(3.0)
        edge = owner._running().ledger.edges[liar]
        before = owner._running().ledger.values["z"]
        moved = []
        for number in range(1000):
            lie = ReportMessage(
                VERSION,
                owner._running().ledger.form.game,
                edge.neighbour_incarnation + 1,
                edge.incarnation,
                number,
                EdgeTerms(0.5, 1.0),
                packed({"z": np.full(3, -1e6)}),
            )
            owner._receive(liar, encode(lie))
            moved.append(np.abs(owner._running().ledger.values["z"] - before).max())
        assert 0 < max(moved) <= 4 * 0.5 + 1e-9
        await owner.stop()

    virtually(work)


def test_answers_do_not_pile_up_while_the_disk_is_slow() -> None:
    network = MemoryNetwork()

    async def work() -> None:
        agents = [agent(PAIR, Slow(), network, name) for name in PAIR.members]
        for one in agents:
            await one.start()
        await asyncio.sleep(30.0)
        for one in agents:
            commit = one._commit
            assert commit is not None
            for _ in range(1000):
                commit.post([("agent1", b"x"), ("agent2", b"y")])
            assert len(commit._outbox) <= 2
            await one.abort()

    virtually(work)


def test_a_clock_that_was_ahead_keeps_no_ticket_open() -> None:
    federation = Federation(ARMS, fb.networks.path(1), expire_after=60.0)
    store = MemoryStore()

    async def work() -> None:
        one = agent(federation, store)
        one._clock = lambda: 2e9  # decades ahead
        async with one:
            await one.choose()
        one = agent(federation, store)
        async with one:
            await one.choose()
            await asyncio.sleep(70.0)
            assert (one.expired, one.open_tickets) == (2, 0)

    virtually(work)


def test_bad_links_lose_what_they_say() -> None:
    """3,000 messages at 30%: five standard errors are 4.2 points."""
    network = MemoryNetwork(Links(loss=0.3, one_way={("b", "a"): 1.0}), seed=1)
    got: list[str] = []

    async def work() -> None:
        for name in "ab":
            await network.transport(name).start(lambda sender, _: got.append(sender))
        for _ in range(3000):
            network.transport("a").send("b", b"")
            network.transport("b").send("a", b"")
        await asyncio.sleep(1.0)

    virtually(work)
    assert abs(got.count("a") / 3000 - 0.7) < 0.042
    assert got.count("b") == 0


def test_a_world_in_which_nothing_will_happen_is_reported() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StuckError, match="everything waits"):
        run_virtual(work())

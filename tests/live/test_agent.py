"""The agent around its core: saving before returning, shared commits, failures and neighbours."""

from __future__ import annotations

import asyncio
import random
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

from .members import virtually

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1))
PAIR = Federation(ARMS, fb.networks.path(2), gossip_period=1.0)


class SlowStore(MemoryStore):
    """A store that takes a second for every write, and counts them."""

    writes = 0

    async def write(self, changes: Changes) -> None:
        await asyncio.sleep(1.0)
        await super().write(changes)
        self.writes += 1


class FullStore(MemoryStore):
    """A store that has no room after some writes."""

    room = 3

    async def write(self, changes: Changes) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError("no space left on device")
        await super().write(changes)


def agent(
    federation: Any = ALONE,
    store: Any = None,
    network: MemoryNetwork | None = None,
    name: str = "agent1",
    **options: Any,
) -> Agent:
    """Return a reproducible agent under a virtual clock."""
    options.setdefault("clock", lambda: 1e9 + asyncio.get_running_loop().time())
    return Agent(
        name,
        federation,
        store or MemoryStore(random.Random(name)),
        None if network is None else network.transport(name),
        chance=random.Random(name),
        **options,
    )


async def started(
    federation: Federation, network: MemoryNetwork, store: type[MemoryStore] = MemoryStore
) -> list[Agent]:
    agents = [agent(federation, store(), network, name) for name in federation.members]
    for one in agents:
        await one.start()
    return agents


@virtually
async def test_choices_and_observations_are_saved_before_they_return() -> None:
    store = SlowStore()

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


@virtually
async def test_concurrent_calls_share_a_commit_and_one_may_be_cancelled() -> None:
    store = SlowStore()

    async with agent(store=store) as one:
        before = store.writes
        cancelled = asyncio.create_task(one.choose())
        calls = [asyncio.create_task(one.choose()) for _ in range(64)]
        await asyncio.sleep(0.1)
        cancelled.cancel()
        tickets = await asyncio.gather(*calls)
        await asyncio.gather(*[one.observe(ticket.id, 0.5) for ticket in tickets])
        assert all(isinstance(ticket, Ticket) for ticket in tickets)
        assert len({ticket.id for ticket in tickets}) == 64
        assert store.writes - before <= 4
        assert (one.rounds, one.open_tickets) == (65, 1)


@virtually
async def test_an_agent_whose_store_fails_stops_and_loses_nothing_acknowledged() -> None:
    store = FullStore()

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
    await one.observe(ticket.id, 0.5)  # repeated
    await one.stop()


@virtually
async def test_rewards_and_other_ranges() -> None:
    async with agent(low=1, high=5) as one:
        stars = await one.choose(["tea"])
        await one.observe(stars.id, reward=4)
        assert one._running().ledger.inputs["z"].tolist() == [0.25, 0.25, 0.25]
        with pytest.raises(ValueError, match=r"must be in \[1, 5\], not 6.*in agent.toml"):
            await one.observe((await one.choose()).id, reward=6)
        with pytest.raises(TypeError, match="a loss or a reward"):
            await one.observe(stars.id, 0.5, reward=4)


@virtually
async def test_the_status_of_an_agent_and_its_neighbours() -> None:
    network = MemoryNetwork()

    one, other = (agent(PAIR, None, network, name) for name in PAIR.members)
    async with one:
        assert dict(one.neighbours)["agent2"].silent_for is None
        async with other:
            await one.observe((await one.choose()).id, 1.0)
            await asyncio.sleep(60.0)
            silent = one.neighbours["agent2"].silent_for
            assert silent is not None
            assert silent < 2.5
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


@virtually
async def test_a_status_names_neighbours_with_another_file() -> None:
    """The edge of two neighbours whose files agree about it continues."""
    three = Federation(ARMS, fb.networks.path(3), gossip_period=1.0)
    edges = fb.networks.from_edges(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    agents = await started(three, MemoryNetwork())
    await agents[2].adopt(Federation(ARMS, edges, gossip_period=1.0))
    await asyncio.sleep(3.0)
    status = agents[1].status()
    assert (status.federation_version, status.gossip_period) == (1, 1.0)
    there = status.neighbours["agent3"]
    assert there.refused == there.reasons["file"] > 0
    why = "agent3 has another file of the federation: weight 0.25 there and 0.333333 here"
    assert why in str(there.last_refusal)
    assert agents[2].neighbours["agent2"].reasons["file"] > 0
    assert status.neighbours["agent1"].refused == 0
    for one in agents:
        await one.stop()


@virtually
async def test_rejected_messages_are_counted() -> None:
    network = MemoryNetwork()

    async with agent(PAIR, None, network) as one:
        network.carry("agent2", "agent1", b"nonsense")
        network.carry("eve", "agent1", b"nonsense")
        await asyncio.sleep(0.1)
        there = one.neighbours["agent2"]
        assert there.refused == 1
        assert "not a message" in str(there.last_refusal)
        assert there.silent_for is None
        await one.choose()


EXPIRING = Federation(ARMS, fb.networks.path(1), expire_after=60.0)


@virtually
async def test_a_clock_that_jumps_expires_nothing() -> None:
    """While an agent runs, its time comes from a clock that never jumps."""
    jump = 0.0

    clock = asyncio.get_running_loop().time
    async with agent(EXPIRING, clock=lambda: 1e9 + jump + clock()) as one:
        ticket = await one.choose()
        jump = 86_400.0
        await asyncio.sleep(30.0)
        await one.observe(ticket.id, 0.5)
        ticket = await one.choose()
        await asyncio.sleep(61.0)
        assert one.expired == 1


@virtually
async def test_a_clock_that_was_ahead_keeps_no_ticket_open() -> None:
    store = MemoryStore()

    async with agent(EXPIRING, store, clock=lambda: 2e9) as one:  # decades ahead
        await one.choose()
    async with agent(EXPIRING, store) as one:
        await one.choose()
        await asyncio.sleep(70.0)
        assert (one.expired, one.open_tickets) == (2, 0)


@virtually
async def test_members_leave_a_federation() -> None:
    network = MemoryNetwork()
    three = Federation(ARMS, fb.networks.path(3), gossip_period=1.0)

    agents = await started(three, network)
    for one in agents:
        await one.observe((await one.choose(["tea"])).id, 1.0)
    await asyncio.sleep(60.0)
    await agents[2].stop()
    for one in agents[:2]:
        await one.adopt(PAIR)
    await asyncio.sleep(60.0)
    ledgers = [one._running().ledger for one in agents[:2]]
    np.testing.assert_allclose(
        sum(ledger.values["z"] for ledger in ledgers),
        sum(ledger.inputs["z"] for ledger in ledgers),
    )
    learner: Any = agents[0]._running().learner
    assert float(learner.state.agents) == 2
    assert isinstance(PAIR.gossip, fb.Gossip)
    assert learner.algorithm.learning_rate.scatter == scatter(PAIR.gossip)
    assert set(agents[1].neighbours) == {"agent1"}
    for one in agents[:2]:
        await one.stop()


@virtually
async def test_an_agent_is_used_only_while_it_runs() -> None:
    one = agent(store=SlowStore())
    with pytest.raises(StoppedError, match="is not running"):
        await one.choose()
    await one.start()
    with pytest.raises(StoppedError, match="running already"):
        await one.start()
    waiting = [asyncio.create_task(one.choose()) for _ in range(3)]
    await asyncio.sleep(0.1)
    await one.abort()
    for each in waiting:
        with pytest.raises(StoppedError, match="stopped before this was saved"):
            await each
    with pytest.raises(StoppedError, match="is not running"):
        one.recommended  # noqa: B018


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"algorithm": fb.FedHedge()}, "the federation plays FedExp3"),
        ({"arms": ["tea", "cocoa", "coffee"]}, "in this order"),
        ({"low": 1.0, "high": 1.0}, "low < high"),
        ({"store": 3}, "name of a file"),
        ({"name": "agent7"}, "no member 'agent7'"),
        ({"federation": "file"}, "must be a Federation"),
        ({"algorithm": fb.FedExp3(), "arms": list(ARMS)}, None),
    ],
)
def test_arguments_that_do_not_fit_are_rejected(options: dict[str, Any], why: str | None) -> None:
    if why is None:
        agent(**options)
        return
    with pytest.raises((ValueError, TypeError), match=why):
        agent(**options)


def test_a_transport_that_fails_to_stop_leaves_no_lock(tmp_path: Path) -> None:
    class BrokenTransport:
        name = "agent1"

        async def start(self, receive: Any) -> None: ...

        def send(self, to: str, message: bytes) -> None: ...

        async def stop(self) -> None:
            raise OSError("the cable is gone")

    async def twice() -> None:
        for _ in range(2):
            one = Agent("agent1", ALONE, tmp_path / "one.db", BrokenTransport())
            await one.start()
            with pytest.raises(OSError, match="cable"):
                await one.stop()

    asyncio.run(twice())


@virtually
async def test_a_flood_of_reports_moves_no_more_than_four_exchanges() -> None:
    """Each exchange moves at most a limit of 1 times a weight of 1/2."""
    gossip = fb.gossip.clipped(fb.gossip.metropolis(fb.networks.path(2)), 1.0)
    clipped = Federation(ARMS, gossip, gossip_period=1.0)
    network = MemoryNetwork()

    agents = {one.name: one for one in await started(clipped, network)}
    owner = next(a for a in agents.values() if not a._running().ledger.reports())
    [liar] = owner.neighbours
    await agents[liar].abort()
    await asyncio.sleep(3.0)
    ledger = owner._running().ledger
    edge, before = ledger.edges[liar], ledger.values["z"]
    moved = []
    for number in range(1000):
        lie = ReportMessage(
            VERSION,
            ledger.form.game,
            edge.neighbour_incarnation + 1,
            edge.incarnation,
            number,
            EdgeTerms(0.5, 1.0),
            packed({"z": np.full(3, -1e6)}),
        )
        owner._receive(liar, encode(lie))
        moved.append(np.abs(ledger.values["z"] - before).max())
    assert 0 < max(moved) <= 4 * 0.5 + 1e-9
    await owner.stop()


@virtually
async def test_answers_do_not_accumulate_while_the_disk_is_slow() -> None:
    agents = await started(PAIR, MemoryNetwork(), SlowStore)
    await asyncio.sleep(30.0)
    for one in agents:
        commit = one._commit
        assert commit is not None
        for _ in range(1000):
            commit.post([("agent1", b"x"), ("agent2", b"y")])
        assert len(commit._outbox) <= 2
        await one.abort()


@virtually
async def test_links_lose_messages_at_their_rates() -> None:
    """3,000 messages at 30%: five standard errors are 4.2 points."""
    network = MemoryNetwork(Links(loss=0.3, one_way={("b", "a"): 1.0}), seed=1)
    received: list[str] = []

    for name in "ab":
        await network.transport(name).start(lambda sender, _: received.append(sender))
    for _ in range(3000):
        network.transport("a").send("b", b"")
        network.transport("b").send("a", b"")
    await asyncio.sleep(1.0)
    assert abs(received.count("a") / 3000 - 0.7) < 0.042
    assert received.count("b") == 0


def test_a_loop_in_which_nothing_will_happen_is_reported() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StuckError, match="everything waits"):
        run_virtual(work())

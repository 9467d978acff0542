"""Mean losses over windows of time, as operators see them."""

from __future__ import annotations

import asyncio
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console

import fedbandits as fb
from fedbandits.cli.live_tables import losses_table
from fedbandits.live import Agent, Federation, MemoryStore, read_journal
from fedbandits.live.protocol.loss_sums import LossSums, MeanLosses
from fedbandits.live.protocol.noisy_bits import NoisyBits
from fedbandits.live.protocol.observations import ConflictingObservationError
from fedbandits.live.protocol.records import StateRecord
from fedbandits.live.service.metrics import Metrics

from .members import virtually

ARMS = ("tea", "coffee", "cocoa")
HOUR, DAY, WEEK = 3600.0, 86_400.0, 7 * 86_400.0
MONDAY = 1_700_438_400.0  # 2023-11-20


def federation(**options: Any) -> Federation:
    return Federation(ARMS, fb.networks.path(1), **options)


def losses_of(agent: Agent) -> MeanLosses:
    found = agent.status().losses
    assert found is not None
    return found


def test_windows_hold_the_current_period_and_the_one_before() -> None:
    """Compared with a list of all losses, over five weeks of irregular observations."""
    luck = random.Random(0)
    sums = LossSums(3)
    seen: list[tuple[float, int, float]] = []
    now = MONDAY + 1000.0
    for _ in range(3000):
        now += luck.choice([1.0, 60.0, 1000.0, 4000.0])
        if luck.random() < 0.002:
            now += luck.choice([DAY, WEEK, 2 * WEEK])
        arm, loss = luck.randrange(3), luck.random()
        sums.add(arm, {arm: loss}, now)
        seen.append((now, arm, loss))
        then = now + luck.choice([0.0, 500.0, 5000.0, 2 * DAY])
        if luck.random() < 0.1:
            check(LossSums(3, sums.record()), seen, then)
    check(sums, seen, now)


def check(sums: LossSums, seen: list[tuple[float, int, float]], now: float) -> None:
    for name, length in {"hour": HOUR, "day": DAY, "week": WEEK, "all": math.inf}.items():
        since = seen[0][0]
        if length < math.inf:
            since = max(since, MONDAY + ((now - MONDAY) // length - 1) * length)
        begin, counts, totals = sums.windows(now)[name]
        assert begin == since
        within = [(arm, loss) for time, arm, loss in seen if time >= since]
        by_arm = [[loss for arm, loss in within if arm == i] for i in range(3)]
        assert counts.tolist() == [len(within), *map(len, by_arm)]
        expected = [sum(loss for _, loss in within), *map(sum, by_arm)]
        np.testing.assert_allclose(totals, expected, atol=1e-9)


def test_a_clock_that_was_ahead_does_not_stop_a_window() -> None:
    sums = LossSums(1)
    sums.add(0, {0: 0.5}, MONDAY + 100 * WEEK)
    sums = LossSums(1, sums.record())
    sums.add(0, {0: 0.5}, MONDAY)

    def counts(now: float) -> list[float]:
        return [counts[0] for _, counts, _ in sums.windows(now).values()]

    assert counts(MONDAY) == [2, 2, 2, 2]
    assert [since for since, *_ in sums.windows(MONDAY).values()] == [MONDAY] * 4
    assert counts(MONDAY + 2 * HOUR) == [0, 2, 2, 2]
    assert counts(MONDAY + 2 * DAY) == [0, 0, 2, 2]
    assert counts(MONDAY + 2 * WEEK) == [0, 0, 0, 2]


def play(agent: Agent, losses: dict[str, list[float]], **how: Any) -> Any:
    """Play each arm as often as it has losses."""

    async def work() -> None:
        for arm, values in losses.items():
            for value in values:
                ticket = await agent.choose(allowed=[arm])
                await agent.observe(ticket, **(how or {"loss": value}))

    return work()


LOSSES = {"tea": [0.25, 0.5], "cocoa": [0.0, 1.0, 1.0, 1.0]}


def test_mean_losses_survive_a_restart(tmp_path: Path) -> None:
    """The commit that acknowledges an observation also saves its loss."""
    path = tmp_path / "shop.db"

    async def work() -> tuple[MeanLosses, MeanLosses]:
        agent = Agent("agent1", federation(), path)
        async with agent:
            await play(agent, LOSSES)
            state = read_journal(path).saved.state
            assert state is not None
            assert state.losses is not None
            assert LossSums(3, state.losses).windows(0.0)["all"][1][0] == 6
            first = losses_of(agent)
            ticket = await agent.choose(allowed=["tea"])
            await agent.observe(ticket, 0.75)
            await agent.observe(ticket, 0.75)  # repeated
            with pytest.raises(ConflictingObservationError):
                await agent.observe(ticket, 0.5)
        async with agent:
            return first, losses_of(agent)

    first, last = asyncio.run(work())
    assert not first.rewards
    assert first.noise is None
    for window in first.windows.values():
        assert (window.observed, window.loss, window.reward) == (6, 0.625, 0.375)
        assert window.arm_observed == (2, 0, 4)
        assert window.arm_loss == (0.375, None, 0.75)
    assert last.windows["all"].arm_loss == (0.5, None, 0.75)
    assert last.windows["all"].since == first.windows["all"].since


@virtually
async def test_losses_are_in_the_units_of_the_application() -> None:
    async with Agent("agent1", federation(), MemoryStore(), low=1, high=5) as agent:
        for reward in (5, 4, 4, 3):
            await agent.observe(await agent.choose(allowed=["tea"]), reward=reward)
        losses = losses_of(agent)
    assert losses.rewards
    assert (losses.low, losses.high) == (1, 5)
    assert (losses.windows["all"].reward, losses.windows["all"].loss) == (4, 2)
    assert losses.windows["day"].arm_loss == (2, None, None)


@virtually
async def test_full_information_counts_the_losses_of_all_arms() -> None:
    hedge = federation(algorithm=fb.FedHedge())
    async with Agent("agent1", hedge, MemoryStore()) as agent:
        ticket = await agent.choose(allowed=["tea", "cocoa"])
        await agent.observe(ticket, {"tea": 0.25, "cocoa": 0.75})
        window = losses_of(agent).windows["all"]
    assert (window.observed, window.loss) == (1, 0.25 if ticket.arm == "tea" else 0.75)
    assert (window.arm_observed, window.arm_loss) == ((1, 0, 1), (0.25, None, 0.75))


@virtually
async def test_charged_losses_are_not_observations() -> None:
    late = federation(expire_after=1.0, expired_loss=1.0)
    async with Agent("agent1", late, MemoryStore()) as agent:
        await agent.choose()
        await asyncio.sleep(2.0)
        await agent.choose()
        assert (agent.expired, agent.status().losses) == (1, None)


def test_with_epsilon_only_noisy_bits_are_summed() -> None:
    """Each loss is 0.5. The estimate is off by five standard errors at most."""

    async def work() -> tuple[MemoryStore, MeanLosses, str]:
        store, luck = MemoryStore(), random.Random(3)
        bits = NoisyBits(1.0, draw=luck.getrandbits)
        async with Agent("agent1", federation(), store, epsilon=bits, high=10) as agent:
            for _ in range(2000):
                await agent.observe(await agent.choose(allowed=["tea"]), 5.0)
            return store, losses_of(agent), Metrics(agent).text().decode()

    store, found, metrics = asyncio.run(work())
    assert store.state is not None
    assert store.state.losses is not None
    _, counts, totals = LossSums(3, store.state.losses).windows(0.0)["all"]
    assert counts.tolist() == [2000, 2000, 0, 0]
    assert all(total.is_integer() for total in totals.tolist())  # sums of bits
    flip = 1 / (1 + math.e)
    window = found.windows["all"]
    assert window.loss == pytest.approx(10 * (totals[0] / 2000 - flip) / (1 - 2 * flip))
    assert found.noise is not None
    assert found.noise == pytest.approx(10 * 0.5 / (1 - 2 * flip))
    assert window.loss is not None
    assert abs(window.loss - 5.0) < 5 * found.noise / math.sqrt(2000)
    assert f"fedbandits_played_noisy_bit_sum {totals[0]}" in metrics
    assert "fedbandits_played_loss" not in metrics
    assert "fedbandits_arm_loss" not in metrics


def test_metrics_are_sums_that_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    async def text() -> str:
        agent = Agent("agent1", federation(), path, low=-1, high=1)
        async with agent:
            await play(agent, LOSSES)
        async with agent:  # a restart resets no counter
            return Metrics(agent).text().decode()

    lines = asyncio.run(text()).splitlines()
    for line in (
        "fedbandits_played_loss_count 6.0",
        "fedbandits_played_loss_sum 4.875",  # of losses in [0, 1]: 0.625, 0.75, 0.5 and 1 thrice
        'fedbandits_arm_loss_count{arm="tea"} 2.0',
        'fedbandits_arm_loss_sum{arm="tea"} 1.375',
        'fedbandits_arm_loss_count{arm="coffee"} 0.0',
        'fedbandits_arm_loss_sum{arm="cocoa"} 3.5',
        'fedbandits_loss_range{end="low"} -1.0',
        'fedbandits_loss_range{end="high"} 1.0',
        "# TYPE fedbandits_played_loss summary",
    ):
        assert line in lines


def shown(status: Any) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        table = losses_table(status)
        assert table is not None
        console.print(table)
    return captured.get()


def test_the_command_shows_means_by_arm_and_window() -> None:
    async def work(**options: Any) -> Any:
        async with Agent("agent1", federation(), MemoryStore(), **options) as agent:
            before = msgspec.to_builtins(agent.status())
            assert losses_table(before) is None
            await play(agent, LOSSES)
            agent.baseline = "tea"
            return msgspec.to_builtins(agent.status())

    table = shown(asyncio.run(work()))
    assert "mean loss and number of observations" in table
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert rows["played"] == ["0.625", "(6)"] * 4
    assert rows["tea"] == ["0.375", "(2)"] * 4
    assert rows["coffee"] == ["-"] * 4
    private = shown(asyncio.run(work(epsilon=1.0)))
    assert "estimated from noisy bits" in private
    assert "±" in private


def test_older_journals_and_agents_have_no_losses() -> None:
    state = msgspec.to_builtins(StateRecord(1, 1, 0, {}, {}, {}))
    del state["losses"]
    older = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=StateRecord)
    assert older.losses is None
    assert losses_table({"losses": None}) is None
    assert losses_table({}) is None

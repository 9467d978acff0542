"""Live agents that learn from noisy bits: the odds are exact, and no loss is saved."""

from __future__ import annotations

import asyncio
import math
import random
import struct
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.cli.live_tables import journal_lines, status_lines
from fedbandits.config.experiment import ConfigError
from fedbandits.live import Agent, Federation
from fedbandits.live.journal import read_journal
from fedbandits.live.journal.errors import JournalError
from fedbandits.live.journal.summary import summary
from fedbandits.live.operations.site import read_site
from fedbandits.live.protocol.edge import owns
from fedbandits.live.protocol.noisy_bits import BITS, NoisyBits
from fedbandits.live.protocol.observations import ObservationError
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.rehearsal.virtual_clock import run_virtual
from fedbandits.live.service.metrics import Metrics

from .members import virtually

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1))
SAID = (
    "privacy: ε = 1 per round for the losses of one agent (event level); arms are public; holds "
    "even if all other agents collude"
)


def test_no_two_losses_change_the_odds_of_a_bit_by_more_than_e_to_epsilon() -> None:
    """Exactly, of 2^64 draws. With one flip less they would."""
    losses = [0.0, 5e-324, 1e-17, 0.3, 0.5, 1 - 2.0**-53, 1.0]
    for epsilon in (1e-6, 0.01, 0.1, 1.0, 5.0, 10.0, 40.0, 44.0, 60.0, 700.0):
        responses, odds = NoisyBits(epsilon), Decimal(epsilon).exp()
        ones = [responses.ones(loss) for loss in losses]
        least, most = ones[0], ones[-1]
        assert ones == sorted(ones)
        assert least + most == 2**BITS
        assert Decimal(most) <= odds * Decimal(least)
        assert Decimal(most + 1) > odds * Decimal(least - 1)
        f = Fraction(least, 2**BITS)
        for loss, count in zip(losses, ones, strict=True):
            assert 0 <= f + (1 - 2 * f) * Fraction(loss) - Fraction(count, 2**BITS) < 2.0**-BITS
            assert responses.expected(loss) == count / 2**BITS


def test_a_bit_is_drawn_below_the_count() -> None:
    count = NoisyBits(1.0).ones(0.3)
    assert NoisyBits(1.0, lambda _: count - 1).bit(0.3) == 1.0
    assert NoisyBits(1.0, lambda _: count).bit(0.3) == 0.0


def test_bits_come_from_the_operating_system() -> None:
    """Null: Bernoulli(f + ℓ/c), independent; five standard errors."""
    responses = NoisyBits(1.0)
    p = responses.expected(0.25)
    bits = [responses.bit(0.25) for _ in range(20_000)]
    assert {*bits} == {0.0, 1.0}
    assert abs(np.mean(bits) - p) < 5 * math.sqrt(p * (1 - p) / len(bits))


def agent(store: Any = None, federation: Federation = ALONE, **options: Any) -> Agent:
    return Agent("agent1", federation, store or MemoryStore(random.Random(0)), **options)


def test_the_journal_contains_no_loss(tmp_path: Path) -> None:
    """Nor the bit in its ticket. Without ε it contains the loss, so the search can find it."""
    loss = 0.1234567890123
    packed = struct.pack("<d", loss)
    for epsilon in (None, 1.0):
        path = tmp_path / f"{epsilon}.db"

        async def work(path: Path = path, epsilon: float | None = epsilon) -> None:
            async with agent(path, epsilon=epsilon) as one:
                for _ in range(20):
                    ticket = await one.choose()
                    await one.observe(ticket.id, loss)
                log = path.with_name(f"{path.name}-wal")
                held = path.read_bytes() + log.read_bytes()
                assert (packed in held) == (epsilon is None)

        asyncio.run(work())
        content = read_journal(path)
        assert (packed in path.read_bytes()) == (epsilon is None)
        kept = {ticket.feedback for ticket in content.saved.tickets}
        assert kept == ({packed} if epsilon is None else {b""})
        assert content.saved.state is not None
        # The inputs are bits over probabilities, each 0 or at least 1.
        z = np.frombuffer(content.saved.state.inputs["z"])
        assert epsilon is None or all(value == 0 or value >= 1 for value in z)
        lines = journal_lines(summary(content, 0.0))
        assert lines[-1] == ("privacy: no guarantee" if epsilon is None else SAID)


def test_an_agent_learns_from_the_bit() -> None:
    """As if it observed the bits."""

    def played(epsilon: Any, loss: float) -> Any:
        async def work() -> Any:
            one = agent(epsilon=epsilon, seed=bytes(32))
            async with one:
                for _ in range(10):
                    ticket = await one.choose()
                    await one.observe(ticket, loss)
                return one.probabilities

        return run_virtual(work())

    always = NoisyBits(1.0, lambda _: 0)
    assert played(always, 0.0) == played(None, 1.0) != played(None, 0.0)


@virtually
async def test_every_repeated_observation_counts_as_the_same() -> None:
    async with agent(epsilon=1.0) as one:
        ticket = await one.choose()
        await one.observe(ticket, 0.25)
        before = one.probabilities
        await one.observe(ticket, 0.25)
        await one.observe(ticket, 0.75)  # the first loss is not known
        assert (one.probabilities, one.status().observed) == (before, 1)
        with pytest.raises(ObservationError, match=r"must be in \[0, 1\], not 2.0"):
            await one.observe(ticket, 2.0)


class Wire:
    """A transport that records sent messages."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def start(self, receive: Any) -> None:
        """Deliver nothing."""

    def send(self, to: str, message: bytes) -> None:
        self.sent.append(message)

    async def stop(self) -> None:
        """Do nothing."""


def test_a_bit_that_a_crash_loses_was_not_sent() -> None:
    """The repeated observation draws another bit, so nothing of the first may have been sent."""
    pair = Federation(ARMS, fb.networks.path(2), gossip_period=1.0)

    async def work(crash: bool) -> tuple[int, int]:
        wire, store, drawn = Wire(), MemoryStore(random.Random(0), delay=8.0), [0]

        def draw(bits: int) -> int:
            drawn[0] += 1
            return bits * 0  # gives a 1

        bits = NoisyBits(1.0, draw)
        one = Agent(reports, pair, store, wire, epsilon=bits)
        await one.start()
        ticket = await one.choose()
        await asyncio.sleep(5)
        before = {*wire.sent}
        observing = asyncio.ensure_future(one.observe(ticket, 0.5))
        await asyncio.sleep(0.01 if crash else 20)  # gossip continues while the disk is slow
        if crash:
            one.report()
            await one.abort()
            await asyncio.gather(observing, return_exceptions=True)
            assert {*wire.sent} == before
            again = Agent(reports, pair, store, Wire(), epsilon=bits)
            async with again:
                await again.observe(ticket.id, 0.5)
                assert again.status().observed == 1
        await one.stop()
        return drawn[0], len({*wire.sent} - before)

    reports = next(name for name in ("agent1", "agent2") if not owns(name, other(name)))
    assert run_virtual(work(crash=True)) == (2, 0)
    draws, news = run_virtual(work(crash=False))
    assert draws == 1
    assert news > 0  # otherwise the test could not fail


def other(name: str) -> str:
    return {"agent1": "agent2", "agent2": "agent1"}[name]


@virtually
async def test_an_expired_loss_is_charged_on_the_scale_of_bits() -> None:
    federation = Federation(ARMS, fb.networks.path(1), expire_after=10.0, expired_loss=1.0)

    async with agent(federation=federation, epsilon=1.0) as one:
        ticket = await one.choose()
        await asyncio.sleep(11)
        await one.choose()
        charged = one._running().ledger.values["z"].max() * ticket.probability
        assert charged == pytest.approx(math.e / (1 + math.e))


def test_the_status_reports_epsilon() -> None:
    async def status(epsilon: float | None) -> Any:
        async with agent(epsilon=epsilon) as one:
            numbers = Metrics(one).text().decode()
            assert ("fedbandits_privacy_epsilon 1.0\n" in numbers) == (epsilon == 1.0)
            return one.status()

    found = run_virtual(status(1.0))
    assert found.epsilon == 1.0
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    assert SAID in status_lines(fields)
    assert run_virtual(status(None)).epsilon is None
    del fields["epsilon"]  # as an older agent reports it
    assert "privacy: no guarantee" in status_lines(fields)


def test_another_epsilon_needs_another_journal(tmp_path: Path) -> None:
    async def begun(epsilon: float | None) -> None:
        async with agent(tmp_path / "a.db", epsilon=epsilon):
            pass

    asyncio.run(begun(1.0))
    for other in (2.0, None):
        with pytest.raises(JournalError, match=f"with epsilon 1.0, not {other}"):
            asyncio.run(begun(other))
    asyncio.run(begun(1.0))


def test_impossible_epsilons_are_rejected() -> None:
    for wrong, why in ((0.0, "at least 1e-06"), (math.inf, "finite, not inf; leave it out")):
        with pytest.raises(ValueError, match=why):
            agent(epsilon=wrong)
    with pytest.raises(TypeError, match="epsilon must be a number"):
        agent(epsilon="1")
    full = Federation(ARMS, fb.networks.path(1), algorithm=fb.FedHedge())
    with pytest.raises(ValueError, match="FedHedge learns from the losses of all arms"):
        agent(federation=full, epsilon=1.0)


def test_a_site_chooses_its_own_epsilon(tmp_path: Path) -> None:
    """Other mistakes in [privacy] are in the tests of agent files."""

    def epsilon(more: str, algorithm: str = "FedExp3") -> float | None:
        (tmp_path / "federation.toml").write_text(
            'arms = ["tea", "coffee"]\nmembers = ["north"]\nlinks = []\n'
            f'[algorithm]\nname = "{algorithm}"\n'
        )
        path = tmp_path / "agent.toml"
        path.write_text(f'name = "north"\nfederation = "federation.toml"\n{more}')
        return read_site(path).epsilon

    assert epsilon("") is None
    assert epsilon("[privacy]\nepsilon = 1\n") == 1.0
    for more, why in (
        ("[privacy]\neps = 1\n", "did you mean 'epsilon'"),
        ("privacy = 1\n", r"write \[privacy\]"),
        ("[privacy]\nepsilon = 0\n", r"\[privacy\]: epsilon must be a number of at least 1e-06"),
    ):
        with pytest.raises(ConfigError, match=why):
            epsilon(more)
    with pytest.raises(ConfigError, match="FedHedge learns from the losses of all arms"):
        epsilon("[privacy]\nepsilon = 1\n", "FedHedge")


@pytest.mark.slow
def test_rehearsed_in_lockstep_it_is_the_simulation() -> None:
    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=15)
    federation = Federation(ARMS, fb.networks.ring(4))
    privacy = fb.privacy.randomised_response(1.0)
    live = fb.live.rehearse(problem, federation, runs=2, seed=5, lockstep=True, privacy=privacy)
    gossip = federation.gossip
    assert isinstance(gossip, fb.Gossip)
    simulated = fb.simulate(
        problem, federation.algorithm, gossip, 2, 5, dtype="float64", privacy=privacy
    )
    np.testing.assert_array_equal(live.dataset["arm_frequency"], simulated.dataset["arm_frequency"])
    assert live.epsilon == 1.0

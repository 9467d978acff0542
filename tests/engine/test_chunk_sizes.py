"""How a run is cut into chunks and stretches of rounds."""

from __future__ import annotations

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common.backend import playing_on
from fedbandits.engine.chunk_sizes import Chunking, chunking
from fedbandits.engine.recording.summing_kernel import worth_a_kernel
from tests.tiers import soak_but


def test_chunks_cover_the_horizon() -> None:
    for horizon in (1, 7, 500, 512, 513, 1009, 3000, 12_800):
        problem = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=horizon)
        chunks = chunking(problem, 10)
        done, sizes = 0, set()
        while done < horizon:
            rounds, block = chunks.after(done)
            assert rounds % block == 0
            sizes.add(rounds)
            done += rounds
        assert done == horizon
        assert max(sizes) <= 512
        assert len(sizes) <= 2
    problem = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=90)
    assert chunking(problem, 10) == Chunking(90, 90, 90, True)
    # Where the fate of 2^22 messages is drawn a round, 64 MiB of float32 hold four rounds.
    assert chunking(problem, 1, messages=2**22).stretch <= 4


def test_a_million_agents_are_played_in_small_chunks() -> None:
    problem = fb.problems.activated_bernoulli(agents=10**6, arms=20, horizon=1000)
    at_once, in_tiles = chunking(problem, 1), chunking(problem, 1, tiled=True)
    assert (at_once.rounds, in_tiles.rounds) == (1, 2)
    assert (at_once.ahead, in_tiles.ahead) == (False, False)


@pytest.mark.parametrize("agents", [10**6, 10**7])
@pytest.mark.parametrize("arms", soak_but([9, 20], [9, 20, 32]))
def test_stretches_of_a_large_network_are_even_and_small_beside_its_state(
    agents: int, arms: int
) -> None:
    for horizon in (85, 600, 1000):
        problem = fb.problems.bernoulli(np.full(arms, 0.5), horizon, agents=agents)
        with playing_on("gpu"):
            summed, plain = chunking(problem, 1, fused=True), chunking(problem, 1)
            assert chunking(problem, 2, fused=True) == chunking(problem, 2)
            # A round whose messages' fates take all there is is alone.
            assert chunking(problem, 1, messages=2**24, fused=True).stretch == 1
        assert summed.stretch > plain.stretch or arms == 9  # with few arms there is little room
        for chunks in (summed, plain):
            assert chunks.stretch % 2 == 0
            assert not chunks.ahead
        # The kernel that sums up needs an arm and an expected loss, XLA an incurred one as well.
        assert worth_a_kernel((summed.stretch, 1, agents), arms)
        for chunks, size in ((summed, 5), (plain, 9)):
            assert chunks.stretch == 2 or chunks.stretch * size <= 4 * arms * 0.65

"""Live agents and the simulator's rule `flow` make the same of the same lost messages.

The agents are those of `fb.live.rehearse` in lockstep, with nothing changed but the network in
memory, which loses what it is told to: by (round, sender, receiver), as the simulator drew it.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common import streams
from fedbandits.engine.preparation import precision
from fedbandits.live.protocol.ledger import owns
from fedbandits.live.rehearsal import run as rehearsed_run
from fedbandits.live.rehearsal.memory import MemoryNetwork


def named(network: fb.Network) -> list[str]:
    """Names for which the owner of every edge is its lower number, as in the simulator."""
    names: list[str] = []
    for v in range(network.agents):
        lower = [u for u, w in network.edges.tolist() if w == v]
        tried = (f"agent{v}{'x' * more}" for more in itertools.count())
        names.append(next(name for name in tried if all(owns(names[u], name) for u in lower)))
    return names


def arrivals(gossip: fb.Gossip, horizon: int, seed: int) -> Any:
    """Which messages arrive in the only run, `[T, 2E]`."""
    assert gossip.faults is not None
    loss = gossip.faults.loss

    def of_round(t: Any) -> Any:
        key = streams.round_key(streams.LINKS, np.uint32(seed), t)
        return streams.uniforms(key, (1, len(loss)), "float64")[0] >= loss

    with precision("float64"):
        times = np.arange(1, horizon + 1, dtype=np.int32)
        return np.asarray(jax.jit(jax.vmap(of_round))(times))


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", [fb.FedExp3(0.3, 0.1), pytest.param(fb.GossipUCB(), marks=pytest.mark.soak)]
)
def test_flow_is_the_live_protocol_on_the_same_losses(
    algorithm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, horizon, seed = fb.networks.grid(2, 3), 60, 3
    plain = fb.gossip.metropolis(network)
    bad = fb.gossip.unreliable(plain, lambda u, v: 0.2 + ((u + 2 * v) % 3) / 5, "flow")
    names, arrive = named(network), arrivals(bad, horizon, seed)
    pairs = np.concatenate([network.edges, network.edges[:, ::-1]]).tolist()
    number = {(names[u], names[v]): i for i, (u, v) in enumerate(pairs)}
    lost = []

    class Scheduled(MemoryNetwork):
        def carry(self, sender: str, to: str, message: bytes) -> None:
            t = int(asyncio.get_running_loop().time())
            if arrive[t - 1, number[sender, to]]:
                super().carry(sender, to, message)
            else:
                lost.append((t, sender, to))

    monkeypatch.setattr(rehearsed_run, "MemoryNetwork", Scheduled)
    problem = fb.problems.bernoulli([0.2, 0.5, 0.6], horizon=horizon, agents=6)
    federation = fb.live.Federation(["a", "b", "c"], plain, algorithm=algorithm, members=names)
    live = fb.live.rehearse(problem, federation, seed=seed, lockstep=True)
    simulated = fb.simulate(problem, algorithm, bad, runs=1, seed=seed, dtype="float64")
    assert len(lost) > horizon
    for name in ("arm_frequency", "regret"):
        np.testing.assert_allclose(live.dataset[name], simulated.dataset[name], rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        live.dataset["expected_regret"], simulated.dataset["expected_regret"], rtol=0, atol=1e-9
    )
    without = fb.simulate(problem, algorithm, plain, runs=1, seed=seed, dtype="float64")
    assert abs(without.dataset["expected_regret"] - live.dataset["expected_regret"]).max() > 1e-3

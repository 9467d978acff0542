"""The golden programs, each described by public calls alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

import fedbandits as fb
from tests.engine.simulations import simulate_draws, simulate_each

from .capture import Kind, Platform, captured


class Golden(NamedTuple):
    """A simulation, and which of its programs is pinned."""

    simulate: Callable[[], object]
    kind: Kind = "rounds"
    platform: Platform = "cpu"

    def text(self) -> str:
        """Return the program's normal form."""
        return captured(self.simulate, self.kind, self.platform)


def play(
    problem: Callable[[], fb.Problem],
    algorithm: Callable[[], Any],
    gossip: Callable[[], fb.Gossip] | None = None,
    **options: Any,
) -> object:
    """Simulate on one device of the CPU, so that the number of cores makes no difference."""
    made = None if gossip is None else gossip()
    usual = {"runs": 2, "devices": jax.devices("cpu")[:1], "progress": False}
    given: dict[str, Any] = {**usual, **options}
    return fb.simulate(problem(), algorithm(), made, **given)


def coins(agents: int = 9, arms: int = 4, horizon: int = 20) -> fb.Problem:
    """Return coins whose losses are drawn."""
    return fb.problems.activated_bernoulli(agents, arms, horizon, seed=1)


def means(agents: int, arms: int = 4, horizon: int = 20) -> fb.Problem:
    """Return coins with the same means for every agent."""
    return fb.problems.bernoulli(np.arange(arms) / arms, horizon, agents=agents, seed=1)


def stored() -> fb.Problem:
    """Return losses of a tensor."""
    return fb.problems.from_tensor(np.arange(20 * 9 * 4).reshape(20, 9, 4) % 7 / 7)


def on_host() -> fb.Problem:
    """Return losses of a plain Python function."""

    def losses(t: Any) -> Any:
        return np.full((9, 4), 0.5) if t % 2 else np.zeros((9, 4))

    return fb.problems.from_function(losses, agents=9, arms=4, horizon=20, host=True)


def computed() -> fb.Problem:
    """Return losses of a function that JAX traces, which are checked during the simulation."""

    def losses(t: Any) -> Any:
        return (jax.numpy.arange(36).reshape(9, 4) + t) % 5 / 5

    return fb.problems.from_function(losses, agents=9, arms=4, horizon=20)


def spiteful() -> fb.Problem:
    """Return losses of the arms that were played in the round before."""

    def losses(t: Any, memory: Any) -> Any:
        return (memory[:, None] == jax.numpy.arange(4)) * 1.0

    def watch(memory: Any, action: Any, t: Any) -> Any:
        return action

    start = np.full(9, -1, np.int32)
    return fb.problems.adaptive(losses, watch, start, agents=9, arms=4, horizon=20)


def linear(seed: int = 1) -> fb.Problem:
    """Return losses of arms that are vectors."""
    return fb.problems.linear(agents=9, arms=8, horizon=20, dimension=3, seed=seed)


def matrix(network: fb.Network) -> fb.Gossip:
    """Return the matrix that every program has unless it is about another."""
    return fb.gossip.max_degree(network)


def grid(rows: int = 3, columns: int = 3) -> fb.Gossip:
    """Return gossip on a grid."""
    return matrix(fb.networks.grid(rows, columns))


def geometric(agents: int, radius: float) -> fb.Gossip:
    """Return gossip on a random geometric graph."""
    return matrix(fb.networks.random_geometric(agents, radius, seed=0))


def unreliable(rule: str = "symmetric", **options: Any) -> Callable[[], fb.Gossip]:
    """Return gossip over links that lose a fifth of the messages."""
    return lambda: fb.gossip.unreliable(grid(), 0.2, rule, **options)


FED = fb.FedExp3
SECRET = fb.privacy.randomised_response(1.0)
LIARS = {2: fb.attacks.promote(1), 5: fb.attacks.swap(), 7: fb.attacks.defame(0)}
POWER = fb.schedules.power(0.5, 1 / 3)

ALGORITHMS: dict[str, Callable[[], object]] = {
    "FedExp3": partial(play, coins, FED, grid),
    "FedExp3 with chosen rates": partial(
        play, coins, lambda: FED(fb.schedules.anytime(1.5), POWER), grid
    ),
    "Exp3": partial(play, coins, fb.Exp3),
    "FedHedge": partial(play, coins, fb.FedHedge, grid),
    "GossipUCB": partial(play, coins, fb.GossipUCB, grid),
    "BlockGossip": partial(play, coins, lambda: fb.BlockGossip(0.3, POWER, 3), grid),
    "AcceleratedFedExp3": partial(play, coins, fb.AcceleratedFedExp3, grid),
    "Exp3Coop": partial(play, coins, lambda: fb.Exp3Coop(hops=2), grid),
    "DelayedFTRL": partial(play, coins, lambda: fb.DelayedFTRL(hops=3), grid),
    "FedFTRL": partial(play, coins, fb.FedFTRL, grid),
    "PrivateFedExp3": partial(
        play, coins, lambda: fb.PrivateFedExp3(2.0, 2.5, 3, 0.2, POWER), grid
    ),
    "HeldFedExp3": partial(play, coins, lambda: fb.HeldFedExp3(2.0, 3, 0.2, POWER), grid),
    "TrackingFedExp3": partial(play, coins, fb.TrackingFedExp3, grid),
    "SharingFedExp3": partial(play, coins, fb.SharingFedExp3, grid),
    "LinearBlockGossip": partial(play, linear, fb.LinearBlockGossip, grid),
    "Uniform": partial(play, coins, fb.Uniform),
    "FedExp3 in float64": partial(play, coins, FED, grid, dtype="float64"),
    "GossipUCB in float64": partial(play, coins, fb.GossipUCB, grid, dtype="float64"),
}

LOSSES: dict[str, Callable[[], object]] = {
    "losses drawn round by round": partial(play, partial(means, 4096, 4097), fb.Exp3, runs=1),
    "losses of a tensor": partial(play, stored, FED, grid),
    "losses from the host": partial(play, on_host, FED, grid),
    "losses checked during the simulation": partial(play, computed, FED, grid),
    "adaptive losses with a memory": partial(play, spiteful, FED, grid),
    "adaptive losses over coins": partial(
        play, lambda: fb.problems.hit_favourite(coins()), fb.GossipUCB, grid
    ),
}

EXCHANGES: dict[str, Callable[[], object]] = {
    "a complete graph": partial(
        play, partial(coins, 300), FED, lambda: matrix(fb.networks.complete(300))
    ),
    "shifts": partial(play, partial(coins, 340), FED, partial(grid, 20, 17)),
    "neighbour lists": partial(
        play, partial(coins, 300), FED, lambda: matrix(fb.networks.ring(300))
    ),
    "edge lists": partial(play, partial(coins, 300), FED, lambda: matrix(fb.networks.star(300))),
    "rows": partial(play, partial(coins, 1000), FED, partial(geometric, 1000, 0.07)),
    "maxima over shifts": partial(
        play, partial(coins, 340), fb.GossipUCB, partial(grid, 20, 17)
    ),
    "a random edge a round": partial(
        play, coins, FED, lambda: fb.gossip.random_edge(fb.networks.path(9))
    ),
    "differences up to a limit": partial(
        play, coins, FED, lambda: fb.gossip.clipped(grid(), 2.0)
    ),
    "links by rule symmetric": partial(play, coins, FED, unreliable()),
    "links by rule receiver, with delays": partial(
        play, coins, FED, unreliable("receiver", delay=3)
    ),
    "links by rule flow": partial(play, coins, FED, unreliable("flow")),
    "links by rule lost": partial(play, coins, FED, unreliable("lost")),
    "links that go down": partial(
        play, coins, fb.GossipUCB, unreliable(up=5, down=2, active=0.8)
    ),
    "links of a large network": partial(
        play,
        partial(coins, 340),
        FED,
        lambda: fb.gossip.unreliable(grid(20, 17), 0.2, "flow"),
    ),
    "floods in a large network": partial(
        play, partial(coins, 300), lambda: fb.Exp3Coop(hops=2),
        lambda: matrix(fb.networks.ring(300)),
    ),
}  # fmt: skip

CONDITIONS: dict[str, Callable[[], object]] = {
    "privacy": partial(play, coins, FED, grid, privacy=SECRET),
    "liars": partial(play, coins, FED, grid, liars=LIARS),
    "privacy with liars": partial(play, coins, FED, grid, privacy=SECRET, liars=LIARS),
    "liars over unreliable links": partial(play, coins, FED, unreliable("flow"), liars=LIARS),
    "liars about rewards": partial(play, coins, fb.GossipUCB, grid, liars=LIARS),
    "liars in floods": partial(
        play, coins, lambda: fb.Exp3Coop(hops=3), grid, liars=LIARS, privacy=SECRET
    ),
    "liars with adaptive losses": partial(play, spiteful, FED, grid, liars=LIARS),
    "privacy over differences up to a limit": partial(
        play, coins, FED, lambda: fb.gossip.clipped(grid(), 2.0), privacy=SECRET, liars=LIARS
    ),
}


def several_algorithms(**options: Any) -> object:
    """Simulate two algorithms at once; one run, so that the number of cores changes nothing."""
    return simulate_each(coins(), [FED(0.1), FED(0.3)], grid(), 1, progress=False, **options)


def several_draws(make: Callable[[int], fb.Problem], **options: Any) -> object:
    """Simulate on three draws at once; one run, so that the number of cores changes nothing."""
    return simulate_draws([make(d) for d in range(3)], FED(), grid(), **options)


def drawn(seed: int) -> fb.Problem:
    """Return coins by seed."""
    return fb.problems.activated_bernoulli(9, 4, 20, seed=seed)


SEVERAL: dict[str, Callable[[], object]] = {
    "several algorithms": several_algorithms,
    "several algorithms, privacy with liars": partial(
        several_algorithms, privacy=SECRET, liars=LIARS
    ),
    "several draws": partial(several_draws, drawn),
    "several draws, privacy with liars": partial(several_draws, drawn, privacy=SECRET, liars=LIARS),
    "several draws of adaptive losses": partial(
        several_draws, lambda d: fb.problems.hit_favourite(drawn(d))
    ),
}

TILES: dict[str, Callable[[], object]] = {
    "tiles that see their neighbours": partial(
        play, partial(coins, 2**15), FED, partial(grid, 256, 128), runs=1
    ),
    "tiles that send nothing": partial(play, partial(coins, 2**15), fb.Exp3),
    "tiles that receive before": partial(
        play, partial(means, 2**15), FED, lambda: matrix(fb.networks.star(2**15)), runs=1
    ),
    "tiles of rows": partial(
        play, partial(means, 2**15), FED, partial(geometric, 2**15, 0.012), runs=1
    ),
    "tiles over unreliable links": partial(
        play, partial(coins, 2**15), FED,
        lambda: fb.gossip.random_edge(fb.networks.grid(256, 128)), runs=1,
    ),
}  # fmt: skip

KERNELS: dict[str, Callable[[], object]] = {
    "kernels with losses made before, near neighbours": partial(
        play, partial(coins, 340), FED, partial(grid, 20, 17)
    ),
    "kernels with losses of a tensor, no gossip": partial(play, stored, fb.Exp3),
    "kernels that draw losses, near neighbours": partial(
        play, partial(means, 2**16, 32), FED, partial(grid, 256, 256), runs=1
    ),
    "kernels that draw losses and sum up": partial(
        play, partial(means, 2**17, 20), FED, partial(grid, 512, 256), runs=1
    ),
    "kernels that receive before": partial(
        play, partial(coins, 300), fb.GossipUCB, lambda: matrix(fb.networks.star(300))
    ),
    "kernels and a kernel that gathers": partial(
        play, partial(coins, 1000), FED, partial(geometric, 1000, 0.07)
    ),
    "kernels of equal weights, liars": partial(
        play, partial(coins, 270), FED, partial(geometric, 270, 0.5), liars=LIARS
    ),
    "kernels of BlockGossip": partial(
        play, partial(coins, 340), lambda: fb.BlockGossip(block=2), partial(grid, 20, 17)
    ),
    "an accelerator without kernels": partial(
        play, coins, FED, grid, privacy=SECRET, dtype="float64"
    ),
}

PLACED: dict[str, Callable[[], object]] = {
    "runs on two devices": partial(play, coins, FED, grid, devices=2),
    "agents on two devices": partial(
        play, partial(coins, 340), FED, partial(grid, 20, 17), devices=2, runs=1
    ),
}

LOOKS: dict[str, Callable[[], object]] = {
    "a look at agents": partial(play, coins, FED, grid, record="agents"),
    "a look at honest agents": partial(
        play, coins, lambda: fb.Exp3Coop(hops=2), grid, record="agents", liars=LIARS
    ),
    "a look at several algorithms": partial(several_algorithms, record="agents"),
}

RECOMMENDATIONS: dict[str, Callable[[], object]] = {
    "a recommendation": partial(play, coins, FED, grid),
    "a recommendation in tiles": partial(play, partial(coins, 2**15, horizon=1), fb.Exp3),
}

PROGRAMS: dict[str, Golden] = (
    {
        name: Golden(simulate)
        for group in (ALGORITHMS, LOSSES, EXCHANGES, CONDITIONS, SEVERAL, TILES, PLACED)
        for name, simulate in group.items()
    }
    | {name: Golden(simulate, platform="cuda") for name, simulate in KERNELS.items()}
    | {name: Golden(simulate, kind="look") for name, simulate in LOOKS.items()}
    | {name: Golden(simulate, kind="recommend") for name, simulate in RECOMMENDATIONS.items()}
)

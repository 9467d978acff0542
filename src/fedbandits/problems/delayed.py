"""The instance of the paper's lower bounds: losses in one cluster alone, repeated in blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.common.streams import LOSSES, as_uniforms, round_key, words

from .base import check_sizes, static
from .coins import Coins


@dataclass(frozen=True, eq=False, repr=False)
class DelayedExperts(Coins):
    """Fair coins, the same for all agents of a cluster and for all rounds of a block."""

    cluster: int = field(metadata=static)
    length: Array
    """Rounds in a block."""
    seed: Array

    def losses(self, t: Array) -> Array:
        """Return ℓ_t^v = ℓ'_b with b = ⌈t/block⌉ for v < cluster, else 0: `[N, K]`."""
        import jax.numpy as jnp

        drawn = words(round_key(LOSSES, self.seed, (t - 1) // self.length + 1), (1, self.arms))
        coins = (as_uniforms(drawn) < 0.5).astype("float32")
        return jnp.where(jnp.arange(self.agents)[:, None] < self.cluster, coins, 0.0)


def delayed_experts(
    agents: int, arms: int, horizon: int, *, cluster: int, block: int, seed: int = 0
) -> DelayedExperts:
    """Make the losses of Theorem 1: fair coins that only the first agents see, in blocks.

    ℓ_t^v = ℓ'_{⌈t/block⌉} for v = 0, ..., cluster - 1 and 0 for everyone else. With blocks of
    Δ + 1 rounds an agent Δ hops away hears of a block when it is over: whatever the algorithm, its
    expected regret is `fedbandits.theory.bounds.delayed_experts_regret`.

    Args:
        agents: N.
        arms: K.
        horizon: T.
        cluster: how many agents see losses, |I₀|.
        block: rounds in a block, Δ + 1.
        seed: the adversary's own seed.

    Example:
        >>> import fedbandits as fb
        >>> network = fb.networks.two_clusters(4, 8)  # Δ = 9
        >>> problem = delayed_experts(network.agents, 2, 1000, cluster=4, block=10)
        >>> problem.agents, bool((problem.losses(1) == problem.losses(10)).all())
        (16, True)

    Reference:
        Yi and Vojnović, Doubly Adversarial Federated Bandits, ICML 2023, proof of Theorem 1.
    """
    agents, arms, horizon = check_sizes(agents, arms, horizon)
    cluster = checks.whole(cluster, "cluster", least=1)
    if cluster > agents:
        raise ValueError(f"cluster must be at most the number of agents {agents}, not {cluster}")
    block = checks.whole(block, "block", least=1, most=checks.INT32)
    return DelayedExperts(
        agents, arms, horizon, cluster, np.int32(block), np.uint32(checks.seed32(seed))
    )

"""What a stretch of rounds of very many agents leaves, summed up by one kernel in one pass.

XLA makes several kernels of these sums, and each reads again what rounds have left. Here a block of
agents reads its arms and expected losses once: it goes on with the sums of each agent, and leaves
of each round the sum, the largest excess and the counts of the arms of its agents,

    e_v(t) = e_v(t - 1) + x_v(t),   max_v e_v(t) - Σ_{s ≤ t} x̄(s),

x being expected losses and e their excess: what all agents have in common is taken off at the end.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from fedbandits.arrays import Array
from fedbandits.engine.executors.kernel_support import triton_takes
from fedbandits.results.record import AgentTotals

BLOCK, WARPS = 128, 1
"""Agents of a block: in one warp, so that no thread waits for others, and fewer than 256, as a byte
counts them."""
LEAST = 2**17
"""Agents from which on there are enough blocks for an accelerator."""
LONGEST = 16
"""Rounds of a stretch: each of them makes the kernel longer."""


def worth_a_kernel(sizes: tuple[int, ...], arms: int) -> bool:
    """Whether a stretch that kernels played is summed up so: `sizes` are C, R and N."""
    rounds, runs, agents = sizes
    large = runs == 1 and agents >= LEAST and rounds <= LONGEST
    return large and _triton_takes_it(rounds, arms)


@functools.cache
def _triton_takes_it(rounds: int, arms: int) -> bool:
    """Asked of one block: how many there are makes no difference."""

    def shaped(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    plays = shaped(rounds, 1, BLOCK, dtype="int8"), shaped(rounds, 1, BLOCK), shaped(rounds, arms)
    totals = AgentTotals(shaped(1, BLOCK), shaped(1, BLOCK))
    return triton_takes("summing up", in_one_pass, *plays, shaped(BLOCK), totals)


def in_one_pass(
    action: Array,
    expected: Array,
    arm_loss: Array,
    excess: Array,
    totals: AgentTotals,
    *,
    interpret: bool = False,
) -> tuple[Array, Array, Array, Array, AgentTotals]:
    """The sums of a stretch of a single run.

    Args:
        action: the arms played, `[C, 1, N]`.
        expected: expected losses, `[C, 1, N]`.
        arm_loss: ℓ̄_t(i), `[C, K]`.
        excess: before the stretch, `[N]`.
        totals: before the stretch, `[1, N]` each.
        interpret: step by step on any device, to test it.

    Returns:
        of each round the mean expected loss, `[C, 1]`, how many agents played each arm,
        `[C, K, 1]`, and the largest excess, `[C]`; the excess and the totals after the stretch.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    (rounds, arms), agents, dtype = arm_loss.shape, excess.size, excess.dtype
    blocks = -(-agents // BLOCK)
    words = -(-arms // 4)  # a byte for each arm

    def kernel(
        action: Any, expected: Any, arm_loss: Any, excess: Any, incurred: Any, paid: Any, *out: Any
    ) -> None:
        """A block of agents."""
        sums, largest, counts, excess_after, incurred_after, paid_after = out
        block = pl.program_id(0)
        agent = block * BLOCK + jnp.arange(BLOCK, dtype="int32")
        here = agent < agents
        of = jnp.minimum(agent, agents - 1)  # beyond the last one there is nobody to read
        before, gone, lost = excess[of], jnp.zeros(BLOCK, dtype), jnp.zeros(BLOCK, dtype)
        for c in range(rounds):
            arm, x = action[c * agents + of].astype("uint32"), expected[c * agents + of]
            gone, lost = gone + x, lost + arm_loss[c * arms + arm.astype("int32")]
            sums[c * blocks + block] = jnp.where(here, x, 0).sum()
            largest[c * blocks + block] = jnp.where(here, before + gone, -jnp.inf).max()
            one = jnp.where(here, jnp.uint32(1) << (arm & 3) * 8, 0)
            for j in range(words):
                count = jnp.where(arm >> 2 == j, one, 0).sum(dtype="uint32")
                counts[(c * words + j) * blocks + block] = count
        after = before + gone, incurred[of] + lost, paid[of] + gone
        for ref, value in zip((excess_after, incurred_after, paid_after), after, strict=True):
            triton.store(ref.at[agent], value, mask=here)

    def new(size: int, dtype: Any = dtype) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((size,), dtype)

    sums, largest, counts, *after = pl.pallas_call(
        kernel,
        out_shape=[
            *(new(rounds * blocks), new(rounds * blocks), new(rounds * words * blocks, "uint32")),
            *(new(agents), new(agents), new(agents)),
        ],
        grid=(blocks,),
        input_output_aliases={3: 3, 4: 4, 5: 5},
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        name="in_one_pass",
    )(*(x.reshape(-1) for x in (action, expected, arm_loss, excess, *totals)))
    mean = sums.reshape(rounds, blocks).sum(axis=1) / agents
    common = jnp.cumsum(mean)
    in_words = counts.reshape(rounds, words, blocks)
    of_each = [(in_words >> 8 * j & 0xFF).sum(axis=2, dtype="int32") for j in range(4)]
    return (
        mean[:, None],
        jnp.stack(of_each, axis=2).reshape(rounds, -1)[:, :arms, None],
        largest.reshape(rounds, blocks).max(axis=1) - common,
        after[0] - common[-1],
        AgentTotals(*(x.reshape(1, agents) for x in after[1:])),
    )

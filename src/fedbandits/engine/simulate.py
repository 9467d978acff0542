"""`fb.simulate`: play a problem with an algorithm over a gossip network, many runs at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedbandits.algorithms.base import AnyAlgorithm
from fedbandits.gossip.base import Gossip
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.problems.base import Problem
from fedbandits.simulation.liars import Attacks
from fedbandits.simulation.options import Callback, Options, Recorded
from fedbandits.simulation.simulation import DType, Simulation, conditions_of
from fedbandits.simulation.validation import check_against

from .play import play

if TYPE_CHECKING:
    import jax

    from fedbandits.results.result import Result


def simulate(
    problem: Problem,
    algorithm: AnyAlgorithm,
    gossip: Gossip | None = None,
    runs: int = 10,
    seed: int = 0,
    *,
    against: Literal["current", "final"] = "current",
    dtype: DType = "float32",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    draws: int | None = None,
    privacy: RandomisedResponse | None = None,
    liars: Attacks | None = None,
    record: Recorded = None,
    callback: Callback | None = None,
) -> Result:
    """Play T rounds, `runs` times over, all runs facing the same losses.

    Runs differ in the agents' own randomness, a function of (seed, run, round, agent): two
    algorithms simulated with one seed are paired, and `fb.compare` makes use of it. Intervals are
    over that randomness, on these losses; with `draws` they are over the losses too.

    Args:
        problem: the losses.
        algorithm: what each agent does.
        gossip: the network and its matrix; may be left out for algorithms that send nothing.
        runs: R. Run r has the same random numbers whatever R is, but not the same rounding: XLA
            adds up in an order that depends on the sizes of arrays. In float32 this flips an arm
            now and then, and run r continues differently; in float64 that is 2^29 times rarer.
        seed: of the agents' randomness.
        against: regret at time t is against the arm best up to t (`current`, the paper's
            definition), or against the arm best at T (`final`).
        dtype: `float32`, or `float64`, which horizons beyond a million rounds need.
        checkpoint: a directory, for what is written every half minute and on an interruption. If
            the run is interrupted, or killed, the same call goes on from there and ends
            bit-identical to an undisturbed one on as many devices of the same kind.
        progress: show a progress bar; by default on a terminal only.
        devices: how many of `jax.devices()` to use, or which: runs are spread over them, then
            agents, as many as divide evenly. By default all cores of a CPU (one, if JAX was at
            work before the first simulation), or one accelerator. On another number of devices
            sums round differently, which in float32 flips an arm now and then.
        draws: play on so many draws of the losses, the problem's own and others by seeds made from
            its seed, each `runs` times. The result then has a dimension `draw` in front, is as many
            times as large, and its intervals are over draws. Draws are played one after another.
        privacy: how losses are blurred before the algorithm sees them, such as
            `fb.privacy.randomised_response(1.0)`: ε = 1 per round for the losses of one agent
            (event level), against all others; arms are public. Regret is of the true losses.
        liars: who sends something else than it should, and what, such as
            `{0: fb.attacks.swap()}`; agents by number, or by name where they have one. Everything
            recorded is of the honest agents, regret against the arm that is best for them.
        record: `"agents"` keeps of every agent, after up to 500 rounds, its leading arm and how it
            stands, which `Result.plot` makes pictures of. That takes 5 bytes for each agent, run
            and snapshot (6 with more than 256 arms): 8.4 MB a run at N = 3,364. There are fewer
            snapshots where all would take more than 128 MiB, and less than 10 are refused. Arms are
            the same with it and without; what is summed over rounds may differ in the last bit.
        callback: called after every chunk of rounds (about half a second of work, at most 512
            rounds; with `record`, after every snapshot) with a `Milestone`: round, horizon,
            seconds, regret of each run so far. An exception that it raises ends the run, once what
            is done is in `checkpoint`; the same call then goes on, and tells first where it stands.
            Results do not change.

    Returns:
        the regret curves and what else is worth keeping; see `Result`.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> fb.simulate(problem, fb.FedExp3(), gossip, runs=2).dataset.sizes["run"]
        2
        >>> tell = lambda milestone: print(milestone.round, "of", milestone.horizon)
        >>> result = fb.simulate(problem, fb.FedExp3(), gossip, callback=tell)
        100 of 100
    """
    check_against(against)
    options = Options(
        devices=devices,
        checkpoint=checkpoint,
        progress=progress,
        record=record,
        callback=callback,
    )
    simulation = Simulation(
        problem, algorithm, gossip, runs, seed, dtype, draws, conditions_of(privacy, liars)
    )
    for doubt in simulation.doubts():
        warnings.warn(doubt, stacklevel=2)
    return play([simulation], options)[0].against(against)

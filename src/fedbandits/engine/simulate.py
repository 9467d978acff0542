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
    """Play T rounds, `runs` times; all runs face the same losses.

    Runs differ in the agents' randomness, a function of (seed, run, round, agent). Two algorithms
    that are simulated with one seed are therefore paired, and `fb.compare` uses that. Intervals
    cover this randomness; with `draws` they cover the losses too.

    Args:
        problem: the losses.
        algorithm: the behaviour of each agent.
        gossip: the network and its matrix; None for algorithms that send nothing.
        runs: R. Run r has the same random numbers for every R, but not the same rounding: XLA adds
            in an order that depends on array sizes. In float32 this changes an arm now and then,
            and run r continues differently; in float64 that is 2^29 times rarer.
        seed: the seed of the agents' randomness.
        against: `current` compares with the arm that is best up to t (the paper's definition),
            `final` with the arm that is best at T.
        dtype: `float32`, or `float64`, which horizons beyond a million rounds need.
        checkpoint: a folder for a checkpoint, written every half minute and on an interruption. The
            same call resumes an interrupted or killed simulation. The result is bit-identical to
            that of an undisturbed one on as many devices of the same kind.
        progress: show a progress bar; by default on a terminal only.
        devices: the number of `jax.devices()` to use, or a list of them. Runs are spread over them,
            then agents, as many as divide evenly. By default all cores of a CPU (one core, if JAX
            started before the first simulation), or one accelerator. Another number of devices
            rounds sums differently, which in float32 changes an arm now and then.
        draws: the number of draws of the losses: the problem's own, and others by seeds made from
            its seed, each played `runs` times, one after another. The result gets a first dimension
            `draw`, is as many times as large, and its intervals are over draws.
        privacy: a mechanism that blurs losses before the algorithm sees them, such as
            `fb.privacy.randomised_response(1.0)`: ε = 1 per round for the losses of one agent
            (event level), against all others; arms are public. Regret is of the true losses.
        liars: the agents that lie and their attacks, such as `{0: fb.attacks.swap()}`, by number or
            by name. Results cover honest agents only, and regret compares with their best arm.
        record: `"agents"` records snapshots of every agent for `Result.plot`, after up to 500
            rounds: its leading arm and its excess. A snapshot takes 5 bytes per agent and run (6
            with more than 256 arms): 8.4 MB a run at N = 3,364. There are fewer snapshots where all
            would take more than 128 MiB; fewer than 10 are rejected. Snapshots change no arm; sums
            over rounds may differ in the last bit.
        callback: a function that takes a `Milestone` (round, horizon, seconds, regret of each run
            so far) after every chunk of rounds: about half a second of work, at most 512 rounds;
            with `record`, after every snapshot. An exception that it raises ends the simulation
            after a checkpoint is saved. The same call then resumes, and first reports the round of
            the checkpoint. Results do not change.

    Returns:
        The regret curves, totals and communication; see `Result`.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> gossip = fb.gossip.max_degree(fb.networks.ring(4))
        >>> fb.simulate(problem, fb.FedExp3(), gossip, runs=2).dataset.sizes["run"]
        2
        >>> report = lambda milestone: print(milestone.round, "of", milestone.horizon)
        >>> result = fb.simulate(problem, fb.FedExp3(), gossip, callback=report)
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

"""Every quick form of a round beside the plain one in float64: regret, and a stop on the way.

On an accelerator rounds are one kernel each, on a CPU tiles; neither adds up in the same order as
the plain form, and float32 rounds. Both play the same losses and uniforms, and are the same until
rounding flips an arm for the first time. The null: the mean regret is that of float64. A row is the
distance between the two in standard errors of its mean over the runs, rounding added. It fails
where a simulation that was stopped and went on differs in a single bit from one that was not.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

import fedbandits as fb
from benchmarks.rows import Measure, Measured
from fedbandits.engine import chunk_sizes
from fedbandits.engine import play as engine
from fedbandits.engine.recording import summing_up
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation

ARMS, RUNS = 20, 16
GOAL = 5.0
"""Standard errors."""
ROUNDING = 2.0**-23
"""Of a loss, in every round: where no arm is flipped, runs differ by that alone, and all alike."""


class Form(NamedTuple):
    """A network that has a form of its own.

    Attributes:
        side: the square root of N.
        network: made of it.
        alone: whether runs are played one by one.
    """

    side: int
    network: Callable[[int], fb.Network]
    alone: bool = False


def _along_a_curve(side: int) -> fb.Network:
    radius = math.sqrt(20 / math.pi) / side
    return fb.networks.random_geometric(side**2, radius, seed=0, numbering="hilbert")


FORMS = {
    "grid, losses drawn": Form(230, lambda side: fb.networks.grid(side, side)),
    # So many agents that a kernel sums up what a run leaves, and not so many as fill its blocks.
    "grid, runs one by one": Form(385, lambda side: fb.networks.grid(side, side), alone=True),
    "grid, losses known": Form(64, lambda side: fb.networks.grid(side, side)),
    "complete": Form(64, lambda side: fb.networks.complete(side**2)),
    "dense": Form(58, lambda side: fb.networks.random_geometric(side**2, 0.5, seed=0)),
    "along a curve": Form(230, _along_a_curve),
}


def measures(quick: bool) -> list[Measure]:
    """One row for each network."""
    return [
        Measure(f"forms/{name}", "standard errors", lambda form=form: _row(form, quick))  # type: ignore[misc]
        for name, form in FORMS.items()
    ]


def _row(form: Form, quick: bool) -> Measured:
    side, runs = (6, 2) if quick else (form.side, RUNS)
    horizon = 20 if quick else 30 if jax.default_backend() == "cpu" else 600
    gossip = fb.gossip.max_degree(form.network(side))
    means = np.random.default_rng(0).random((gossip.network.agents, ARMS))
    problem = fb.problems.bernoulli(means, horizon, seed=1)

    seeds, each = (range(runs), 1) if form.alone else (range(1), runs)

    def play(seed: int = 0, **more: Any) -> fb.Result:
        # One device: a kernel is for one, and so is a tile of agents.
        dtype = more.pop("dtype", "float32")
        simulation = Simulation(problem, fb.FedExp3(), gossip, each, seed, dtype)
        options = Options(devices=1, progress=False, **more)
        return engine.play([simulation], options)[0]

    def regret(seeds: Sequence[int], **more: Any) -> list[np.ndarray[Any, Any]]:
        return [_regret(play(seed, **more)) for seed in seeds]

    # What is kept of an agent is added up chunk by chunk: all have the same ones.
    with mock.patch.object(chunk_sizes, "MOST_ROUNDS", horizon // 5):
        with _answers(summing_up, "worth_a_kernel") as summed:
            whole = play(dtype="float32")
        executor = json.loads(whole.dataset.attrs["played"])["executor"]
        differs = _differing(whole, _stopped_and_gone_on(play, horizon))
        if differs:
            raise AssertionError(f"stopped on the way, {', '.join(differs)} differ")
        if any(summed):
            _refuse_other_sums(whole, _summed_by_xla(play), horizon)
        elif form.alone and executor == "kernels" and not quick:
            raise AssertionError("no kernel has summed up what a run left")
        found = np.concatenate([_regret(whole), *regret(seeds[1:], dtype="float32")])
    plain = np.concatenate(regret(seeds, dtype="float64", executor="plain"))
    apart = found - plain
    error = float(apart.std(ddof=1)) / math.sqrt(runs) + horizon * ROUNDING
    value = abs(float(apart.mean())) / error
    facts = f"N={gossip.network.agents:,}, K={ARMS}, T={horizon}, {runs} runs"
    return Measured(
        value,
        (value,),
        GOAL,
        note=f"{facts}, {_how(executor, summed)}; regret {plain.mean():.4g}, "
        f"{apart.mean():+.1g} ± {error:.1g}; stopped and gone on, the same to the last bit",
    )


@contextmanager
def _answers(module: ModuleType, name: str) -> Iterator[list[Any]]:
    """What a function by which the engine chooses a form says meanwhile."""
    asked, said = getattr(module, name), []

    def spy(*arguments: Any) -> Any:
        said.append(asked(*arguments))
        return said[-1]

    with mock.patch.object(module, name, spy):
        yield said


def _how(executor: str, summed: list[bool]) -> str:
    return f"by the {executor} executor{', summed up by a kernel' if any(summed) else ''}"


def _regret(result: fb.Result) -> np.ndarray[Any, Any]:
    """Expected regret at T of every run, the mean over agents."""
    found: np.ndarray[Any, Any] = result.dataset["agent_expected_regret"].mean("agent").to_numpy()
    return found.astype(np.float64)


def _stopped_and_gone_on(play: Callable[..., fb.Result], horizon: int) -> fb.Result:
    told: list[int] = []

    def stop(_: fb.Milestone) -> None:
        raise InterruptedError

    with tempfile.TemporaryDirectory() as folder:
        with suppress(InterruptedError):
            play(dtype="float32", checkpoint=folder, callback=stop)
        kept = any(Path(folder).iterdir())
        resumed = play(dtype="float32", checkpoint=folder, callback=lambda m: told.append(m.round))
    # What was done before is told first.
    if not (kept and told[0] < horizon):
        raise AssertionError(f"nothing was stopped: it went on after {told[0]} of {horizon} rounds")
    return resumed


def _summed_by_xla(play: Callable[..., fb.Result]) -> fb.Result:
    with mock.patch.object(summing_up, "worth_a_kernel", return_value=False):
        jax.clear_caches()
        found = play(dtype="float32")
    jax.clear_caches()
    return found


def _refuse_other_sums(one: fb.Result, other: fb.Result, horizon: int) -> None:
    """Refuse sums of the same rounds that differ by more than rounding can make them."""
    # At each round of a chunk a sum of at most as many numbers below 1 is rounded.
    rounding = horizon * (horizon // 5) * ROUNDING
    for name in one.dataset:
        a, b = (np.asarray(result.dataset[name], np.float64) for result in (one, other))
        # Of agents that are counted, none may be missing.
        most = rounding if "regret" in str(name) or "loss" in str(name) else ROUNDING
        apart = float(np.max(np.abs(a - b), initial=0.0))
        if not apart <= most:  # nor where it is NaN
            raise AssertionError(f"{name}: a kernel and XLA are {apart:g} apart, not {most:g}")


def _differing(one: fb.Result, other: fb.Result) -> list[str]:
    """What is not the same to the last bit."""
    a, b = one.dataset, other.dataset
    return [str(name) for name in a if not np.array_equal(a[name], b[name], equal_nan=True)]

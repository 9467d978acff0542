"""The engine: precision, interruption, and what it refuses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.exponential_weights import LossEstimates
from fedbandits.arrays import Array
from fedbandits.engine import checkpoint
from fedbandits.engine.trajectory import trajectory
from fedbandits.results.record import Record
from tests.instances import sent_by

slow = pytest.mark.slow
PROBLEM = fb.problems.activated_bernoulli(agents=6, arms=3, horizon=90, seed=0)
GOSSIP = fb.gossip.max_degree(fb.networks.ring(6))


# Precision.


@pytest.mark.slow
def test_float64_and_float32_agree_to_rounding() -> None:
    """With FedHedge, whose distributions no arm decides: the only difference is rounding.

    A round rounds z, at most t, by less than 4 t ε, ε = 2^-24: z is 2 t² ε off after t rounds, and
    the expected loss η_t = sqrt(ln 3/(1.5 t)) times as much. In 90 rounds that is below 0.004.
    """
    import jax.numpy as jnp

    narrow, wide = (
        fb.simulate(PROBLEM, fb.FedHedge(), GOSSIP, runs=1, dtype=d).dataset["expected_regret"]
        for d in ("float32", "float64")
    )
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=0.004)
    assert (np.asarray(narrow) != np.asarray(wide)).any()  # it did compute otherwise
    assert jnp.asarray(1.0).dtype == jnp.float32  # and left no trace


@slow
def test_no_exponent_overflows_in_200_000_rounds() -> None:
    """One arm always wins. A raw-weights Exp3 dies at round 14,198 of this."""
    problem = fb.problems.bernoulli([0.0, 1.0, 1.0], horizon=200_000, agents=2)
    gossip = fb.gossip.max_degree(fb.networks.path(2))
    for algorithm in (fb.Exp3(0.5), fb.FedExp3(0.5), fb.FedHedge(0.5)):
        result = fb.simulate(problem, algorithm, gossip, runs=1)
        for name, values in result.dataset.data_vars.items():
            assert np.isfinite(values).all(), name
        assert (result.recommended_arm == 0).all()
        assert float(result.dataset["arm_frequency"][0, -1, 0]) > 0.99


@slow
def test_no_exploration_at_all_stays_finite() -> None:
    problem = fb.problems.bernoulli([0.2, 0.9], horizon=3000, agents=3)
    result = fb.simulate(problem, fb.Exp3(2.0, exploration=0), runs=4)
    assert np.isfinite(result.dataset["regret"]).all()


# Regret is what the paper says it is.


@pytest.mark.slow
def test_regret_of_the_sampled_arms_worked_out_by_hand() -> None:
    losses = np.random.default_rng(4).uniform(size=(80, 6, 3))
    problem = fb.problems.from_tensor(losses)
    data = fb.simulate(problem, fb.FedExp3(), GOSSIP, runs=2, seed=8, dtype="float64").dataset
    run = trajectory(problem, fb.FedExp3(), GOSSIP, runs=2, seed=8)
    mean_loss = losses.mean(axis=1)  # [T, K]
    arms = mean_loss.cumsum(axis=0)
    incurred = np.take_along_axis(mean_loss[:, None, :], run.action.reshape(80, -1)[:, None], 2)
    incurred = incurred.reshape(80, 2, 6).cumsum(axis=0)
    expected = np.einsum("trnk,tk->trn", run.distribution, mean_loss).cumsum(axis=0)
    best = arms.min(axis=1)
    np.testing.assert_allclose(data["regret"], (incurred.mean(2) - best[:, None]).T, atol=1e-9)
    np.testing.assert_allclose(
        data["expected_regret"], (expected.mean(2) - best[:, None]).T, atol=1e-9
    )
    worst = expected.mean(axis=1).max(axis=1) - best
    np.testing.assert_allclose(data["worst_regret"], worst, atol=1e-9)
    np.testing.assert_allclose(data["agent_regret"], incurred[-1] - best[-1], atol=1e-9)
    np.testing.assert_allclose(data["agent_expected_regret"], expected[-1] - best[-1], atol=1e-9)
    played = (run.action[..., None] == np.arange(3)).mean(axis=2).cumsum(axis=0)
    share = (played / np.arange(1, 81)[:, None, None]).transpose(1, 0, 2)
    np.testing.assert_allclose(data["arm_frequency"], share, atol=1e-9)
    final = fb.simulate(
        problem, fb.FedExp3(), GOSSIP, runs=2, seed=8, dtype="float64", against="final"
    ).dataset
    at_end = arms[:, arms[-1].argmin()]
    np.testing.assert_allclose(final["regret"], (incurred.mean(2) - at_end[:, None]).T, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "FedExp3",
        *(pytest.param(n, marks=slow) for n in ("Exp3", "FedHedge", "GossipUCB", "Uniform")),
    ],
)
def test_one_agent_one_round(name: str) -> None:
    problem = fb.problems.from_tensor([[[0.25, 0.75]]])
    gossip = fb.gossip.max_degree(fb.networks.path(1))
    result = fb.simulate(problem, getattr(fb, name)(), gossip, runs=2)
    assert result.dataset["regret"].shape == (2, 1)
    assert set(np.round(result.dataset["regret"].values.ravel(), 6)) <= {0.0, 0.5}
    assert result.communication["messages"] == 0


# Interruption.


class Flaky:
    """Host losses that fail once, in the given round, then never again."""

    def __init__(self, fail_at: int, error: type[BaseException]) -> None:
        self.fail_at, self.error = fail_at, error
        self.asked: list[int] = []

    def __call__(self, t: int) -> np.ndarray[Any, Any]:
        self.asked.append(t)
        if t == self.fail_at:
            self.fail_at = -1
            raise self.error("the machine went away")
        return np.random.default_rng(t).uniform(size=(6, 3))


def flaky_problem(losses: Any) -> fb.Problem:
    return fb.problems.from_function(losses, agents=6, arms=3, horizon=1500, host=True)


@pytest.mark.slow
def test_resumed_among_liars_is_bit_identical(tmp_path: Path) -> None:
    gossip = fb.gossip.clipped(GOSSIP, 2.0)
    told: dict[str, Any] = {"runs": 2, "liars": {1: fb.attacks.promote(2, by=50.0)}}
    losses = Flaky(-1, RuntimeError)
    undisturbed = fb.simulate(flaky_problem(losses), fb.FedExp3(), gossip, **told)
    losses = Flaky(1234, RuntimeError)
    with pytest.raises(RuntimeError, match="went away"):
        fb.simulate(flaky_problem(losses), fb.FedExp3(), gossip, checkpoint=tmp_path, **told)
    [kept] = tmp_path.iterdir()
    other = {**told, "liars": {1: fb.attacks.promote(2, by=60.0)}}
    fb.simulate(flaky_problem(losses), fb.FedExp3(), gossip, checkpoint=tmp_path, **other)
    assert kept.exists()  # another lie is another simulation
    resumed = fb.simulate(flaky_problem(losses), fb.FedExp3(), gossip, checkpoint=tmp_path, **told)
    assert resumed.dataset.identical(undisturbed.dataset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("algorithm", "gossip"),
    [
        (fb.FedExp3(), GOSSIP),
        (fb.GossipUCB(), GOSSIP),
        (fb.Exp3Coop(hops=3), GOSSIP),
        (fb.FedExp3(), fb.gossip.unreliable(GOSSIP, 0.5, "flow", up=9, down=4)),
    ],
    ids=lambda a: type(a).__name__ if isinstance(a, fb.Algorithm) else a.rule,
)
def test_resumed_is_bit_identical(
    error: type[BaseException],
    algorithm: fb.algorithms.AnyAlgorithm,
    gossip: fb.Gossip,
    tmp_path: Path,
) -> None:
    undisturbed = fb.simulate(flaky_problem(Flaky(-1, error)), algorithm, gossip, runs=2)
    losses = Flaky(1234, error)
    problem = flaky_problem(losses)
    with pytest.raises(error, match="went away"):
        fb.simulate(problem, algorithm, gossip, runs=2, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    losses.asked.clear()
    resumed = fb.simulate(problem, algorithm, gossip, runs=2, checkpoint=tmp_path)
    # 64 rounds are asked for to know the function by; the first 1,000 are not played again.
    assert sum(t <= 1000 for t in losses.asked) < 64
    assert resumed.dataset.identical(undisturbed.dataset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["add", "save"])
def test_stopped_at_any_moment_the_last_checkpoint_stands(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C ends at once, in the middle of recording or of saving."""
    problem = flaky_problem(Flaky(-1, RuntimeError))
    undisturbed = fb.simulate(problem, fb.FedExp3(), GOSSIP, runs=2)
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)  # a checkpoint after every chunk
    owner: Any = Record if moment == "add" else checkpoint.Checkpoint
    original, calls = getattr(owner, moment), []

    def stops(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(owner, moment, stops)
        with pytest.raises(KeyboardInterrupt):
            fb.simulate(problem, fb.FedExp3(), GOSSIP, runs=2, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    resumed = fb.simulate(problem, fb.FedExp3(), GOSSIP, runs=2, checkpoint=tmp_path)
    assert resumed.dataset.identical(undisturbed.dataset)


@pytest.mark.slow
def test_another_simulation_does_not_pick_up_the_checkpoint(tmp_path: Path) -> None:
    losses = Flaky(1234, RuntimeError)
    with pytest.raises(RuntimeError):
        fb.simulate(flaky_problem(losses), fb.Exp3(0.1), runs=2, checkpoint=tmp_path)
    losses.asked.clear()
    fb.simulate(flaky_problem(losses), fb.Exp3(0.2), runs=2, checkpoint=tmp_path)
    assert sum(t <= 1000 for t in losses.asked) > 1000
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_ctrl_c_ends_after_the_chunk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it

    def losses(t: int) -> np.ndarray[Any, Any]:
        if t == 600 and not pressed:
            pressed.append(t)
            os.kill(os.getpid(), signal.SIGINT)
        return np.full((6, 3), t % 2 / 2)

    with pytest.raises(KeyboardInterrupt, match="stopped after round 1000 of 1500"):
        fb.simulate(flaky_problem(losses), fb.Exp3(0.1), runs=2, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    caplog.set_level("INFO", logger="fedbandits")
    fb.simulate(flaky_problem(losses), fb.Exp3(0.1), runs=2, checkpoint=tmp_path)
    assert "going on after round 1000 of 1500" in caplog.messages


@pytest.mark.slow
def test_simulate_works_outside_the_main_thread() -> None:
    results: list[fb.Result] = []
    thread = threading.Thread(
        target=lambda: results.append(fb.simulate(PROBLEM, fb.Uniform(), runs=1))
    )
    thread.start()
    thread.join()
    assert len(results) == 1


KILLED = """
import os, sys
import numpy as np
import fedbandits as fb
from fedbandits.engine import checkpoint

checkpoint.SECONDS = 0.0
folder, *modes = sys.argv[1:]

def losses(t):
    if t == 1100 and modes == ["die"]:
        os.kill(os.getpid(), 9)
    return np.random.default_rng(t).uniform(size=(6, 3))

problem = fb.problems.from_function(losses, agents=6, arms=3, horizon=1500, host=True)
gossip = fb.gossip.max_degree(fb.networks.ring(6))
for mode in modes:
    where = None if mode == "alone" else folder
    result = fb.simulate(problem, fb.FedExp3(), gossip, runs=2, checkpoint=where)
    result.save(f"{folder}/{mode}.nc")
"""


@slow
def test_killed_and_run_again_is_bit_identical(tmp_path: Path) -> None:
    def run(*modes: str) -> int:
        command = [sys.executable, "-c", KILLED, str(tmp_path), *modes]
        return subprocess.run(command, check=False, env=os.environ).returncode

    assert run("die") == -signal.SIGKILL
    assert [f.suffix for f in tmp_path.iterdir()] == [".npz"]
    assert run("again", "alone") == 0
    again, alone = (fb.load(tmp_path / f"{mode}.nc").dataset for mode in ("again", "alone"))
    assert again.identical(alone)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    problem = flaky_problem(Flaky(1234, RuntimeError))
    with pytest.raises(RuntimeError):
        fb.simulate(problem, fb.Exp3(0.1), runs=2, checkpoint=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"cannot be read .* delete it to start anew"):
        fb.simulate(problem, fb.Exp3(0.1), runs=2, checkpoint=tmp_path)


def test_an_unwritable_checkpoint_directory_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        fb.simulate(PROBLEM, fb.Exp3(), runs=1, checkpoint=tmp_path / "file")
    assert checkpoint.SECONDS == 30.0


# Progress.


@pytest.mark.slow
def test_quiet_when_not_on_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    fb.simulate(PROBLEM, fb.Exp3(), runs=1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_progress_shows_rate_and_time_left(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits.engine.recording import progress

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    fb.simulate(PROBLEM, fb.Exp3(), runs=1, progress=True)
    shown = capfd.readouterr().err
    assert "Exp3" in shown
    assert "90/90" in shown
    assert "rounds/s" in shown
    assert re.search(r"\d:\d\d:\d\d", shown)  # the time left


# Communication.


@pytest.mark.parametrize(
    ("algorithm", "gossip", "messages", "sent"),
    [
        (fb.FedExp3(), fb.gossip.max_degree(fb.networks.ring(6)), 2, 2 * 3 * 4),
        (fb.FedExp3(), fb.gossip.max_degree(fb.networks.complete(6)), 5, 5 * 3 * 4),
        (fb.FedExp3(), fb.gossip.none(fb.networks.ring(6)), 0, 0),
        (fb.FedExp3(), fb.gossip.random_edge(fb.networks.ring(6)), 2 / 6, 2 / 6 * 3 * 4),
        (fb.GossipUCB(), fb.gossip.max_degree(fb.networks.path(6)), 10 / 6, 10 / 6 * 2 * 3 * 4),
        (fb.GossipUCB(), fb.gossip.random_edge(fb.networks.ring(6)), 2, (2 + 2 / 6) * 3 * 4),
        (fb.Exp3(), fb.gossip.max_degree(fb.networks.ring(6)), 0, 0),
        (fb.Uniform(), None, 0, 0),
    ],
)
def test_messages_and_bytes(
    algorithm: Any, gossip: fb.Gossip | None, messages: float, sent: float
) -> None:
    found = sent_by(PROBLEM, algorithm, gossip)
    assert found.messages == pytest.approx(messages)
    assert found.bytes == pytest.approx(sent)
    assert found.leaves == {k: v.kind for k, v in algorithm.leaves.items()}
    assert found.leaf_bytes.keys() == algorithm.leaves.keys()
    assert sum(found.leaf_bytes.values()) == pytest.approx(sent)


@pytest.mark.slow
def test_a_result_says_what_was_sent() -> None:
    gossip = fb.gossip.random_edge(fb.networks.ring(6))
    sent = fb.simulate(PROBLEM, fb.FedExp3(), gossip, runs=1).communication
    assert sent == sent_by(PROBLEM, fb.FedExp3(), gossip)._asdict()


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"runs": 0}, "runs must be a whole number of at least 1, not 0"),
        ({"seed": -3}, "seed must be .* at least 0, not -3"),
        ({"against": "best"}, "against must be 'current' or 'final', not 'best'"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64', not 'float16'"),
        ({"gossip": None}, "FedExp3 sends messages and needs a gossip"),
        (
            {"gossip": fb.gossip.max_degree(fb.networks.ring(5))},
            r"the problem has 6 agents but the network has 5; .* fb.networks.ring\(6\)",
        ),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"gossip": GOSSIP, "runs": 1} | arguments
    with pytest.raises(ValueError, match=message):
        fb.simulate(PROBLEM, fb.FedExp3(), **call)


def test_refused_types() -> None:
    with pytest.raises(
        TypeError, match="problem must be of type Problem, not ndarray; for an array use"
    ):
        fb.simulate(np.zeros((3, 2, 2)), fb.Exp3())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"algorithm must be an object: write Exp3\(\)"):
        fb.simulate(PROBLEM, fb.Exp3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="gossip must be a Gossip such as"):
        fb.simulate(PROBLEM, fb.FedExp3(), fb.networks.ring(6))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Odd(fb.Algorithm[LossEstimates]):
    """Keeps the contract; each of its children breaks it in one place."""

    leaves: ClassVar[Mapping[str, fb.Leaf]] = {"z": fb.Leaf("estimate", "average")}

    def init(
        self, arms: int, agents: int, batch: tuple[int, ...] = (), dtype: Any = np.float32
    ) -> LossEstimates:
        return LossEstimates.zeros(arms, agents, batch, dtype)

    def distribution(self, state: LossEstimates, t: Array) -> Array:
        if type(self) is OddDistribution:
            return state.z[0]
        return state.z + (0.5 if type(self) is OddSum else 1 / state.z.shape[0])

    def message(self, state: LossEstimates) -> dict[str, Array]:
        return {"other": state.z} if type(self) is OddMessage else {"z": state.z}

    def update(
        self,
        state: LossEstimates,
        received: Mapping[str, Array],
        action: Array,
        feedback: Array,
        p: Array,
        t: Array,
    ) -> LossEstimates:
        return state._replace(z=state.z[:1] if type(self) is OddUpdate else state.z)


class OddDistribution(Odd): ...


class OddSum(Odd): ...


class OneNumber(Odd):
    """Keeps the contract too, with a message shorter than the arms."""

    def message(self, state: LossEstimates) -> dict[str, Array]:
        return {"z": state.z[:1]}


class ForJaxAlone(Odd):
    """Keeps the contract, with what only JAX's arrays can do."""

    def distribution(self, state: LossEstimates, t: Array) -> Array:
        return super().distribution(state, t).at[0].add(0.0)


def test_an_algorithm_may_be_written_for_jax_alone() -> None:
    found = fb.simulate(PROBLEM, ForJaxAlone(), GOSSIP, runs=1).dataset["expected_regret"]
    assert float(found[0, -1]) == pytest.approx(
        fb.simulate(PROBLEM, fb.Uniform(), GOSSIP, runs=1).uniform_regret, rel=1e-4
    )


def test_bytes_follow_the_message_not_the_arms() -> None:
    sent = sent_by(PROBLEM, OneNumber(), GOSSIP)
    assert (sent.messages, sent.bytes) == (2, 2 * 4)


class OddMessage(Odd): ...


class OddUpdate(Odd): ...


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (OddDistribution, r"OddDistribution.distribution gives shape \(1, 6\); expected .*3, 1, 6"),
        (OddSum, r"OddSum.distribution is no distribution in round 1: it sums to 1\.5"),
        (OddMessage, r"OddMessage.message sends \['other'\], but its leaves declare \['z'\]"),
        (OddUpdate, r"OddUpdate.update changes state.z from float32\[3, 1, 6\] to float32\[1,"),
    ],
)
def test_an_algorithm_that_breaks_the_contract_is_told_where(kind: type[Odd], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fb.simulate(PROBLEM, kind(), GOSSIP, runs=1)


def test_new_classes_may_be_registered_from_many_threads() -> None:
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import make_dataclass

    from fedbandits.engine import pytrees

    values = [make_dataclass(f"Fresh{i}", ["x"])(i) for i in range(100)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(pytrees.register, [value for value in values for _ in range(4)]))
    finally:
        sys.setswitchinterval(usual)
    assert jax.tree.leaves(values[-1]) == [99]

"""A condition of one's own: one class, and nothing else in the package changes."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common import streams
from fedbandits.engine.play import play
from fedbandits.engine.trajectory import trajectory_of
from fedbandits.simulation.condition import Condition
from fedbandits.simulation.options import Options
from fedbandits.simulation.simulation import Simulation


@dataclass(frozen=True)
class LostObservations(Condition):
    """With probability `share`, an agent hears its neighbours and learns nothing from its loss."""

    name: ClassVar[str] = "lost_observations"

    share: float

    def draw(self, seed: Any, t: Any, shape: tuple[int, int], dtype: Any) -> Any:
        key = streams.round_key(streams.named(self.name), seed, t)
        return streams.uniforms(key, shape, dtype) < self.share

    def learned(self, algorithm: Any, heard: Any, after: Any, drawn: Any) -> Any:
        return after._replace(z=jnp.where(drawn, heard.z, after.z))


def simulation(share: float | None, horizon: int = 40, **more: Any) -> Simulation:
    problem = fb.problems.activated_bernoulli(agents=9, arms=3, horizon=horizon, seed=2)
    gossip = fb.gossip.max_degree(fb.networks.grid(3, 3))
    conditions = () if share is None else (LostObservations(share),)
    return Simulation(
        problem, fb.FedExp3(0.3), gossip, 2, 5, "float64", conditions=conditions, **more
    )


def test_the_rounds_are_those_of_the_definition() -> None:
    """z_{t+1} = W z_t + (1 - lost) ℓ/p on the arm played, in NumPy."""
    run = trajectory_of(simulation(0.5))
    assert run.gossip is not None
    W, z, [lost] = run.gossip.matrix.toarray(), run.messages["z"], run.uniforms.conditions
    assert 0.3 < lost.mean() < 0.7
    for t in range(len(z) - 1):
        estimate = np.zeros_like(z[t])
        played = run.action[t][..., None].astype(int)
        taken = np.take_along_axis(run.losses[t] / run.distribution[t], played, axis=-1)
        np.put_along_axis(estimate, played, taken, axis=-1)
        expected = np.einsum("uv,rui->rvi", W, z[t]) + np.where(lost[t][..., None], 0, estimate)
        np.testing.assert_allclose(z[t + 1], expected, rtol=1e-9, atol=1e-12)


def test_nothing_lost_is_a_plain_simulation_and_all_lost_is_uniform_play() -> None:
    plain, nothing, everything = play([simulation(share) for share in (None, 0.0, 1.0)])
    np.testing.assert_array_equal(nothing.dataset["regret"], plain.dataset["regret"])
    uniform = float(
        (plain.dataset["arm_loss"].mean("arm") - plain.dataset["arm_loss"].min("arm"))[-1]
    )
    np.testing.assert_allclose(everything.dataset["expected_regret"][:, -1], uniform, rtol=1e-9)
    assert everything.config["lost_observations"] == {"name": "LostObservations", "share": 1.0}


@pytest.mark.slow
def test_draws_snapshots_and_a_stop_need_no_line_of_their_own(tmp_path: Path) -> None:
    """Stopped in the second draw, it goes on there and ends as if it had not been stopped."""

    def stop(milestone: fb.Milestone) -> None:
        if milestone.draw == 1 and milestone.round >= 512:
            raise InterruptedError

    asked = simulation(0.5, horizon=700, draws=2)
    [whole] = play([asked], Options(record="agents"))
    with pytest.raises(InterruptedError):
        play([asked], Options(record="agents", checkpoint=tmp_path, callback=stop))
    assert [*tmp_path.glob("*-0-0.nc")]
    [resumed] = play([asked], Options(record="agents", checkpoint=tmp_path))
    assert resumed.dataset.identical(whole.dataset)
    assert "leading_arm" in resumed.dataset
    assert [*tmp_path.iterdir()] == []


def test_conditions_that_cannot_be_told_apart_are_refused() -> None:
    lost = LostObservations(0.5)
    with pytest.raises(ValueError, match="'lost_observations' is taken"):
        simulation(None).under(lost).under(lost)

    @dataclass(frozen=True)
    class Named(LostObservations):
        name: ClassVar[str] = "runs"

    with pytest.raises(ValueError, match="'runs' is taken"):
        simulation(None).under(Named(0.5))
    with pytest.raises(TypeError, match="must be of type Condition, not 3"):
        simulation(None).under(3)  # type: ignore[arg-type]


def test_two_conditions_wrap_one_round() -> None:
    """Losses are blurred first, and then half of what was learned is lost."""
    private = fb.privacy.randomised_response(1.0)
    both = simulation(0.5).under(private)
    run = trajectory_of(both)
    lost, responses = run.uniforms.conditions
    assert lost.shape == responses.shape == run.action.shape
    assert set(both.describe()) >= {"privacy", "lost_observations"}


def test_few_frames_lie_between_simulate_and_an_algorithm() -> None:
    """A reader who follows a call finds the algorithm within eight of our functions."""
    found: list[list[str]] = []

    @dataclass(frozen=True, init=False)
    class Watched(fb.FedExp3):
        def update(self, *args: Any, **more: Any) -> Any:
            frames = [frame for frame, _ in traceback.walk_stack(None)]
            ours = [f.f_code.co_name for f in frames if "/fedbandits/" in f.f_code.co_filename]
            found.append(ours[::-1])
            return super().update(*args, **more)

    problem = fb.problems.activated_bernoulli(agents=9, arms=3, horizon=41, seed=2)
    fb.simulate(problem, Watched(), fb.gossip.max_degree(fb.networks.grid(3, 3)), runs=2)
    chunks = [names for names in found if "play_chunk" in names]
    assert chunks
    for names in found:
        assert names[0] == "simulate"
        assert len(names) <= 8, names

"""Problems that watch: the losses they make of arms, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.config.catalogue import catalogue
from fedbandits.config.document import load_config
from fedbandits.engine.executors.program import compilations
from fedbandits.engine.stages.losses import _first_invalid
from fedbandits.engine.trajectory import trajectory
from tests.oracles.watching import WATCHERS

slow = pytest.mark.slow
AGENTS, ARMS, ROUNDS = 5, 3, 8
BASE = fb.problems.bernoulli([0.2, 0.5, 0.8], horizon=ROUNDS, agents=AGENTS, seed=3)
WAVE = fb.problems.from_function(
    lambda t: jnp.abs(jnp.sin(t * jnp.arange(1.0, 16))).reshape(AGENTS, ARMS),
    agents=AGENTS,
    arms=ARMS,
    horizon=ROUNDS,
)
SHARES = {
    "hit_favourite": ("strength",),
    "crowded": ("strength",),
    "warming_cache": ("saving", "warming"),
}


@slow
@pytest.mark.parametrize("name", SHARES)
@settings(max_examples=6)
@given(st.data())
def test_losses_follow_from_the_arms(name: str, data: st.DataObject) -> None:
    share = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)
    shares = {key: data.draw(share) for key in SHARES[name]}
    problem = getattr(fb.problems, name)(WAVE, **shares)
    arm = st.integers(0, ARMS - 1)
    everyone = st.lists(arm, min_size=AGENTS, max_size=AGENTS)
    action = np.array(data.draw(st.lists(everyone, min_size=ROUNDS, max_size=ROUNDS)))
    memory, losses = problem.memory(), []
    for t in range(1, ROUNDS + 1):
        losses.append(np.asarray(problem.losses_given(t, memory)))
        memory = problem.watch(memory, action[t - 1], t)
    base = WAVE.block(1, ROUNDS).astype(np.float64)
    np.testing.assert_allclose(losses, WATCHERS[name](base, action, **shares), atol=1e-6)
    assert np.min(losses) >= 0
    assert np.max(losses) <= 1


def test_the_losses_inside_are_drawn_anew() -> None:
    problem = fb.problems.crowded(BASE)
    assert problem.loss_seed == 3
    other = problem.redraw(4)
    assert (other.loss_seed, other.strength) == (4, problem.strength)
    fixed = fb.problems.crowded(WAVE)
    assert fixed.redraw(4) is fixed


def test_names_are_those_of_the_problem_inside() -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Named(type(WAVE)):  # type: ignore[misc]  # a class by value
        arm_names = ("tea", "coffee", "cocoa")

    named = Named(AGENTS, ARMS, ROUNDS, WAVE.function)
    problem = fb.problems.hit_favourite(named)
    assert problem.arm_names == ("tea", "coffee", "cocoa")
    assert problem.in_run(3, 7, 0, 1) == "in run 3 the loss at round 7, agent 0, arm coffee"


def test_a_problem_that_watches_stands_in_a_file(tmp_path: Path) -> None:
    inside = 'problem = {name = "bernoulli", means = [0.2, 0.8], horizon = 20, agents = 3}'
    for name, shares in SHARES.items():
        keys = "\n".join(f"{share} = 0.25" for share in shares)
        path = tmp_path / f"{name}.toml"
        path.write_text(f'[problem]\nname = "{name}"\n{inside}\n{keys}\n[algorithm]\nname = "Exp3"')
        problem: Any = load_config(path).simulation.problem
        assert [getattr(problem, share) for share in shares] == [0.25] * len(shares)
        assert (problem.agents, problem.arms, problem.horizon) == (3, 2, 20)
        described = problem.describe()
        assert described["name"] == type(problem).__name__
        assert described["problem"]["name"] == "Bernoulli"
    assert set(SHARES) <= {entry.name for entry in catalogue("problem")}


@slow
def test_strengths_compile_once() -> None:
    found = []
    for strength in (0.1, 0.9):
        problem = fb.problems.hit_favourite(BASE, strength=strength)
        result = fb.simulate(problem, fb.Exp3(0.2), runs=2)
        found.append((compilations(), float(result.dataset["arm_loss"].sum())))
    (first, some), (second, more) = found
    assert first == second
    assert some < more


# What is refused.


@pytest.mark.parametrize("name", SHARES)
def test_what_cannot_be_watched_over(name: str) -> None:
    make = getattr(fb.problems, name)
    with pytest.raises(TypeError, match=f"{name} takes the losses of an oblivious"):
        make(3)
    with pytest.raises(ValueError, match="watches already"):
        make(make(BASE))
    stored = fb.problems.from_tensor(np.zeros((4, 2, 3)))
    with pytest.raises(ValueError, match=r"stored or made on the host, .* fb\.problems\.bernoulli"):
        make(stored)
    for share in SHARES[name]:
        with pytest.raises(ValueError, match=rf"{share} must be in \[0, 1\], but it is 1.5"):
            make(BASE, **{share: 1.5})


def test_no_losses_without_arms() -> None:
    problem = fb.problems.crowded(BASE)
    with pytest.raises(TypeError, match="no losses at round 3 that arms do not decide"):
        problem.losses(3)
    with pytest.raises(TypeError, match="no losses at round 3 that arms do not decide"):
        problem.block(3, 4)
    with pytest.raises(ValueError, match="scale the problem inside"):
        fb.problems.scaled(problem, 0, 2)


def test_live_agents_have_no_round_in_common() -> None:
    from fedbandits.live.federation.demo import demo_losses

    federation = fb.live.Federation(["tea", "coffee", "cocoa"], fb.networks.ring(AGENTS))
    with pytest.raises(ValueError, match=r"no common round; play it with fb\.simulate"):
        fb.live.rehearse(fb.problems.crowded(BASE), federation)
    inside = {"name": "bernoulli", "means": [0.2, 0.5, 0.8], "horizon": 9, "agents": AGENTS}
    with pytest.raises(ValueError, match=r"demo: .*share no rounds"):
        demo_losses(federation, {"name": "crowded", "problem": inside})


def last_arm(memory: Any, action: Any, t: Any) -> Any:
    return action


def own(memory: Any) -> Any:
    return (memory[:, None] == jnp.arange(ARMS)) * 1.0


def functions(function: Any, watch: Any = last_arm, memory: Any = None) -> fb.Problem:
    start = np.full(AGENTS, -1) if memory is None else memory
    return fb.problems.adaptive(function, watch, start, agents=AGENTS, arms=ARMS, horizon=ROUNDS)


def too_much(t: Any, memory: Any) -> Any:
    """2 for agent 1, arm 2 in round 7, in the runs in which agent 0 played arm 1 before."""
    place = (jnp.arange(AGENTS)[:, None] == 1) & (jnp.arange(ARMS) == 2)
    return jnp.where(place & (t == 7) & (memory[0] == 1), 2.0, 0.5)


@slow
def test_losses_outside_the_range_are_named_by_run() -> None:
    problem, seed = functions(too_much), 3
    bounded = functions(lambda t, m: jnp.clip(too_much(t, m), 0, 1))
    before = trajectory(bounded, fb.Uniform(), runs=8, seed=seed).action[5, :, 0]
    run = int(np.argmax(before == 1))
    assert run > 0  # not the one that is named by accident
    place = f"in run {run} the loss at round 7, agent 1, arm 2 is 2, not in"
    with pytest.raises(ValueError, match=place):
        fb.simulate(problem, fb.Uniform(), runs=8, seed=seed)


def test_the_first_loss_outside_the_range_may_be_no_number() -> None:
    losses = np.full((ARMS, 2, AGENTS), 0.5)  # by arm, run and agent
    losses[0, 1, 3] = losses[2, 1, 1] = np.nan
    place, loss = _first_invalid(losses)
    assert int(place) == (1 * AGENTS + 1) * ARMS + 2
    assert np.isnan(loss)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (functions(lambda t, m: own(m).T), r"shape \(3, 5\); expected \(agents, arms\)"),
        (functions(lambda t, m: jnp.full((5, 3), 0.5) + 0 * t), "do not depend on what is remem"),
        (functions(lambda t, m: own(m) * np.random.default_rng().uniform()), "differ when asked"),
        (functions(lambda t, m: own(m), memory=()), "memory is .* holds no array"),
        (
            functions(lambda t, m: own(m), lambda m, a, t: a[:2]),
            r"watch changes memory from int32\[5\] to int32\[2\]",
        ),
        (
            functions(lambda t, m: own(m), lambda m, a, t: a * 1.0),
            r"watch changes memory from int32\[5\] to float32\[5\]",
        ),
        (functions(lambda t, m: own(m), lambda m, a, t: (a, a)), "watch gives .* as in memory"),
    ],
)
def test_functions_that_do_not_watch(problem: fb.Problem, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fb.simulate(problem, fb.Exp3(), runs=2)


def test_functions_must_be_traceable() -> None:
    for problem in (
        functions(lambda t, m: np.asarray(m)[:, None] * np.ones(3)),
        functions(lambda t, m: own(m), lambda m, a, t: np.bincount(a)),
    ):
        with pytest.raises(TypeError, match=r"cannot be traced by JAX: .* from jax\.numpy"):
            fb.simulate(problem, fb.Exp3(), runs=2)
    with pytest.raises(TypeError, match=r"watch must be callable as watch\(memory, action, t\)"):
        functions(own, watch=3)


@slow
def test_functions_are_told_apart_by_what_they_do() -> None:
    """They have one name, and a checkpoint of the one is none of the other's."""
    one, same, other = (functions(lambda t, m, c=c: c * own(m) + 0 * t) for c in (0.5, 0.5, 0.25))
    assert one.describe() == same.describe() != other.describe()
    assert one.describe()["name"] == "adaptive"


@slow
def test_a_class_of_ones_own_with_a_dictionary_of_counts() -> None:
    @dataclass(frozen=True, eq=False, repr=False)
    class Fashion(fb.problems.Adaptive):
        """What was in fashion over all rounds is dear."""

        agents: int = field(metadata={"static": True})
        arms: int = field(metadata={"static": True})
        horizon: int = field(metadata={"static": True})

        def memory(self) -> Any:
            return {"plays": np.zeros(self.arms), "rounds": 0}

        def losses_given(self, t: Any, memory: Any) -> Any:
            share = memory["plays"] / jnp.maximum(memory["rounds"], 1) / self.agents
            return jnp.broadcast_to(share, (self.agents, self.arms))

        def watch(self, memory: Any, action: Any, t: Any) -> Any:
            plays = jax.nn.one_hot(action, self.arms).sum(axis=0)
            return {"plays": memory["plays"] + plays, "rounds": memory["rounds"] + 1}

    data = fb.simulate(Fashion(4, 3, 20), fb.Uniform(), runs=3, dtype="float64").dataset
    # What a round costs is the frequency of the arms before it.
    expected = data["arm_frequency"].shift(time=1, fill_value=0).cumsum("time")
    np.testing.assert_allclose(data["arm_loss"], expected, atol=1e-9)

"""Problems: what the losses are, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.problems import coins
from fedbandits.problems.coins import Bernoulli

Float = np.ndarray[Any, Any]


def table(horizon: int = 3, agents: int = 2, arms: int = 2) -> pd.DataFrame:
    rows = [
        (t, f"agent{v}", f"arm{i}", (t + v + i) % 3 / 2)
        for t in range(1, horizon + 1)
        for v in range(agents)
        for i in range(arms)
    ]
    return pd.DataFrame(rows, columns=["time", "agent", "arm", "loss"])


def test_activated_bernoulli_is_the_papers() -> None:
    problem = fb.problems.activated_bernoulli(agents=36, arms=20, horizon=400, seed=0)
    losses = problem.block(1, 400)
    assert set(np.unique(losses)) == {0.0, 1.0}
    # Arm K always costs an activated agent 1: exactly N/2 agents a round, without replacement.
    active = losses[:, :, -1] == 1
    np.testing.assert_array_equal(active.sum(axis=1), 18)
    assert (losses[:, :, 0] == 0).all()
    assert (losses[~active] == 0).all()
    # Means (i - 1)/(K - 1) among the activated: 7,200 coins an arm, six standard errors
    # (2e-9 for each of the 20, and of the 36 below).
    means = losses[active].mean(axis=0)
    mu = np.arange(20) / 19
    assert (np.abs(means - mu) <= 6 * np.sqrt(mu * (1 - mu) / 7200) + 1e-6).all()
    # Every agent is activated half the time: 400 rounds.
    assert np.abs(active.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(400)


@pytest.mark.slow
def test_losses_are_a_pure_function_of_seed_and_round() -> None:
    make = fb.problems.activated_bernoulli
    a, b, other = (make(5, 4, 50, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(a.losses(17), b.losses(17))
    assert (np.asarray(a.block(1, 50)) != np.asarray(other.block(1, 50))).any()
    assert (np.asarray(a.losses(1)) != np.asarray(a.losses(2))).any()


@pytest.mark.parametrize("agents", [1, 40, 64, 65, 1000])
@pytest.mark.parametrize("values", [3, 2**32])
def test_of_equal_words_the_first_are_activated(agents: int, values: int) -> None:
    """Few agents and many, whose smallest words are found in two ways."""
    words = np.random.default_rng(agents).integers(values, size=agents, dtype=np.uint32)
    for count in {1, (agents + 1) // 2, agents}:
        smallest = np.zeros(agents, bool)
        smallest[np.argsort(words, kind="stable")[:count]] = True
        np.testing.assert_array_equal(coins._smallest(jnp.asarray(words), count), smallest)


@pytest.mark.slow
def test_fixed_activation_never_moves() -> None:
    problem = fb.problems.fixed_activation(agents=10, arms=3, horizon=200, active=4, seed=1)
    ever = (problem.block(1, 200) > 0).any(axis=(0, 2))
    assert ever.sum() == 4
    chosen = fb.problems.fixed_activation(agents=10, arms=3, horizon=200, active=[2, 5])
    assert np.flatnonzero((chosen.block(1, 200) > 0).any(axis=(0, 2))).tolist() == [2, 5]


def test_bernoulli_has_the_means_it_was_given() -> None:
    means = np.array([[0.0, 0.2, 1.0], [0.9, 0.5, 0.05]])
    losses = fb.problems.bernoulli(means, horizon=4000, seed=2).block(1, 4000)
    error = np.abs(losses.mean(axis=0) - means)  # six standard errors: 2e-9 each
    assert (error <= 6 * np.sqrt(means * (1 - means) / 4000) + 1e-6).all()


@pytest.mark.parametrize(("horizon", "parts"), [(400, 4), (403, 4), (5, 5), (7, 1)])
def test_switching_has_equal_parts_with_another_best_arm(horizon: int, parts: int) -> None:
    problem = fb.problems.switching(6, 8, horizon, parts=parts, best=0.0, other=1.0, seed=3)
    best = problem.block(1, horizon).mean(axis=1).argmin(axis=1)
    changes = np.flatnonzero(np.diff(best)) + 1
    assert len(changes) == parts - 1
    lengths = np.diff([0, *changes, horizon])
    assert lengths.max() - lengths.min() <= 1
    np.testing.assert_array_equal(best[[0, *changes]], problem.best_arms)


@pytest.mark.slow
def test_tensor_and_memory_map(tmp_path: Path) -> None:
    losses = np.random.default_rng(0).uniform(size=(30, 4, 3))
    np.save(tmp_path / "losses.npy", losses)
    mapped = np.load(tmp_path / "losses.npy", mmap_mode="r")
    gossip = fb.gossip.max_degree(fb.networks.ring(4))
    a, b, c = (
        fb.simulate(fb.problems.from_tensor(x), fb.FedExp3(), gossip, runs=2).dataset
        for x in (losses, mapped, tmp_path / "losses.npy")
    )
    assert a.identical(b)
    assert a.identical(c)
    np.testing.assert_allclose(a["arm_loss"], losses.mean(axis=1).cumsum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "to_pandas"])
def test_table_in_every_form(kind: str, tmp_path: Path) -> None:
    frame = table().sample(frac=1, random_state=0)  # the order of rows must not matter
    source: Any = frame
    if kind == "csv":
        frame.to_csv(tmp_path / "losses.csv", index=False)
        source = tmp_path / "losses.csv"
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "losses.parquet")
        source = str(tmp_path / "losses.parquet")
    elif kind == "to_pandas":

        class Other:
            def to_pandas(self) -> pd.DataFrame:
                return frame

        source = Other()
    problem = fb.problems.from_table(source)
    assert (problem.horizon, problem.agents, problem.arms) == (3, 2, 2)
    assert problem.agent_names == ("agent0", "agent1")
    expected = [[[(t + v + i) % 3 / 2 for i in range(2)] for v in range(2)] for t in (1, 2, 3)]
    np.testing.assert_array_equal(problem.block(1, 3), expected)


@pytest.mark.slow
def test_table_names_reach_the_result() -> None:
    problem = fb.problems.scaled(fb.problems.from_table(table()), 0, 2)
    result = fb.simulate(problem, fb.Uniform(), runs=2)
    assert result.dataset["arm"].values.tolist() == ["arm0", "arm1"]
    assert result.dataset["agent"].values.tolist() == ["agent0", "agent1"]
    assert set(result.recommended_arm.values.ravel()) <= {"arm0", "arm1"}
    assert f"worst agent ({result.worst_agent})" in str(result.summary())
    assert result.worst_agent in ("agent0", "agent1")
    assert result.best_arm.arm in ("arm0", "arm1")


@pytest.mark.slow
def test_agents_of_a_table_and_of_a_network_are_the_same_agents() -> None:
    """Matched by name, never silently by position."""
    import networkx as nx

    network = fb.networks.from_networkx(nx.Graph([("agent1", "agent0")]))
    assert network.names == ("agent1", "agent0")
    gossip = fb.gossip.max_degree(network)
    with pytest.raises(ValueError, match=r"agent 0 is 'agent0' in the problem but 'agent1' in"):
        fb.simulate(fb.problems.from_table(table()), fb.FedExp3(), gossip, runs=1)
    problem = fb.problems.from_table(table(), agents=network.names)
    np.testing.assert_array_equal(
        problem.block(1, 3), fb.problems.from_table(table()).block(1, 3)[:, ::-1]
    )
    result = fb.simulate(problem, fb.FedExp3(), gossip, runs=1)
    assert result.dataset["agent"].values.tolist() == ["agent1", "agent0"]


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high"), [(0.1, 0.3), (0.7, 2.3), (1.1, 7.9), (-0.3, 0.6)])
def test_scaled_limits_are_reached_in_float32(low: float, high: float) -> None:
    """The float32 nearest to a decimal limit is that limit, not a value outside the range."""
    import jax.numpy as jnp

    values = np.array([[[low, high], [high, low]]], np.float32)
    problem = fb.problems.scaled(fb.problems.from_tensor(values), low, high)
    np.testing.assert_array_equal(problem.block(1, 1), [[[0, 1], [1, 0]]])
    fb.simulate(problem, fb.Uniform(), runs=1)
    traced = fb.problems.from_function(
        lambda t: jnp.asarray(values[0]), agents=2, arms=2, horizon=2, constant=True
    )
    fb.simulate(fb.problems.scaled(traced, low, high), fb.Uniform(), runs=1)


@dataclass(frozen=True, eq=False)
class OneTooMany(fb.Problem):
    """A problem of a user's own, with a JAX array in it, and losses up to 2."""

    agents: int = field(metadata={"static": True})
    arms: int = field(metadata={"static": True})
    horizon: int = field(metadata={"static": True})
    values: Any

    def losses(self, t: Any) -> Any:
        return self.values * (t == 40)


@pytest.mark.slow
def test_a_problem_of_ones_own_is_checked() -> None:
    import jax.numpy as jnp

    fb.simulate(OneTooMany(2, 3, 50, jnp.ones((2, 3))), fb.Uniform(), runs=1)
    with pytest.raises(ValueError, match=r"round 40, agent 0, arm 0 is 2, not in"):
        fb.simulate(OneTooMany(2, 3, 50, jnp.full((2, 3), 2.0)), fb.Uniform(), runs=1)


@pytest.mark.slow
def test_a_changed_function_is_not_played_as_it_was() -> None:
    """Compiled programs are kept by what they call, which may have changed underneath."""
    import jax.numpy as jnp

    level = {"value": 0.1}

    def losses(t: Any) -> Any:
        return jnp.full((2, 2), level["value"])

    totals = []
    for level["value"] in (0.1, 0.9):
        problem = fb.problems.from_function(losses, agents=2, arms=2, horizon=20, constant=True)
        data = fb.simulate(problem, fb.Uniform(), runs=1).dataset
        totals.append(float(data["arm_loss"][-1, 0]))
    np.testing.assert_allclose(totals, [2, 18], rtol=1e-5)


@pytest.mark.slow
def test_a_traced_function_always_gets_an_array() -> None:
    problem = fb.problems.from_function(
        lambda t: t.astype("float32") / 100 * np.ones((2, 2)), agents=2, arms=2, horizon=50
    )
    assert fb.simulate(problem, fb.Uniform(), runs=1).dataset["arm_loss"][-1, 0] == pytest.approx(
        12.75, rel=1e-5
    )


@pytest.mark.slow
def test_traced_and_host_functions_agree() -> None:
    import jax.numpy as jnp

    def traced(t: Any) -> Any:
        return jnp.stack([jnp.full(3, 0.25), jnp.arange(3) / 4 + (t % 2) / 4])

    def host(t: int) -> Float:
        return np.stack([np.full(3, 0.25), np.arange(3) / 4 + (t % 2) / 4])

    make = fb.problems.from_function
    a, b = (
        fb.simulate(
            make(f, agents=2, arms=3, horizon=40, host=h), fb.Exp3(), runs=2, dtype="float64"
        ).dataset
        for f, h in ((traced, False), (host, True))
    )
    np.testing.assert_allclose(a["regret"], b["regret"], atol=1e-12)


@pytest.mark.slow
def test_scaled_rewards() -> None:
    stars = np.random.default_rng(0).integers(1, 6, (20, 3, 4)).astype(float)
    problem = fb.problems.scaled(fb.problems.from_tensor(stars), 1, 5, rewards=True)
    np.testing.assert_allclose(problem.block(1, 20), (5 - stars) / 4)
    result = fb.simulate(problem, fb.Uniform(), runs=2)
    np.testing.assert_allclose(
        result.dataset["arm_loss"][-1], ((5 - stars) / 4).mean(axis=1).sum(axis=0), rtol=1e-6
    )
    # A generated problem can be scaled too, and is then checked while it runs.
    milder = fb.problems.scaled(fb.problems.bernoulli([0.2, 0.8], 30, agents=2), 0, 2)
    assert float(np.max(milder.block(1, 30))) == 0.5
    fb.simulate(milder, fb.Uniform(), runs=1)


def test_descriptions_tell_problems_apart() -> None:
    make = fb.problems.from_tensor
    one, other = np.zeros((5, 2, 2)), np.zeros((5, 2, 2))
    other[4, 1, 1] = 0.5
    assert make(one).describe() == make(one.copy()).describe()
    assert make(one).describe() != make(other).describe()

    def change_at(when: int) -> fb.Problem:
        return fb.problems.from_function(
            lambda t: np.full((2, 2), float(t >= when)), agents=2, arms=2, horizon=1500, host=True
        )

    assert change_at(400).describe() == change_at(400).describe()
    assert change_at(400).describe() != change_at(900).describe()


# What is refused, each before it costs anything.

MAKE = fb.problems.activated_bernoulli


def untyped(function: Any) -> Any:
    """For calls that a type checker would refuse, as a user without one would make them."""
    return function


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MAKE(agents=0, arms=2, horizon=5), "agents must be .* at least 1, not 0"),
        (lambda: MAKE(agents=3, arms=1, horizon=5), "arms must be .* at least 2, not 1"),
        (lambda: MAKE(agents=3, arms=2, horizon=0), "horizon must be .* at least 1, not 0"),
        (lambda: MAKE(3, 2, 5, active=4), "active must be at most .* 3, not 4"),
        (lambda: MAKE(3, 2, 5, means=[0.1, 1.2]), r"means must be in \[0, 1\], but at arm 1"),
        (lambda: MAKE(3, 2, 5, means=[0.1]), r"means has shape \(1,\); expected .* \(2,\)"),
        (lambda: MAKE(3, 2, 5, seed=-1), "seed must be .* at least 0, not -1"),
        (lambda: MAKE(3, 2, 5, seed=2**32), r"seed must be below 2\*\*32"),
        (lambda: fb.problems.fixed_activation(3, 2, 5, active=[7]), "agent 7; .* 0 to 2"),
        (lambda: fb.problems.from_tensor(np.zeros((3, 2, 2))).losses(0), "rounds are 1 to 3"),
        (
            lambda: fb.problems.from_table(table().astype({"time": str})),
            "time '1' is neither a number nor a date",
        ),
        (
            lambda: fb.problems.from_table(table().assign(loss=[0.5] * 11 + [np.nan])),
            r"no value for 1 of 12 cells .* at round 3, agent agent1, arm arm1\. .* missing=",
        ),
        (
            lambda: fb.problems.from_table(pd.concat([table(), table()["arm"]], axis=1)),
            "more than one column 'arm'",
        ),
        (
            lambda: fb.problems.from_table(table(), agents=["agent0"]),
            r"agent 'agent1' in row 2 \(counted from 0\), which agents does not name",
        ),
        (
            lambda: fb.problems.from_table(table(), arms=["arm0", "arm1", "arm0"]),
            "arms names 'arm0' twice",
        ),
        (lambda: fb.problems.fixed_activation(3, 2, 5, active=[]), "active is empty"),
        (lambda: fb.problems.bernoulli([[0.5, float("nan")]], 5), "agent 0, arm 1 it is nan"),
        (lambda: fb.problems.bernoulli([0.5, 0.5], 5), r"\(agents, arms\), or \(arms,\)"),
        (lambda: fb.problems.bernoulli([[0.5, 0.5]], 5, agents=3), "1 rows, but agents is 3"),
        (lambda: fb.problems.switching(3, 2, 5, parts=6), "parts must be at most .* 5, not 6"),
        (lambda: fb.problems.switching(3, 2, 5, best=-0.1), r"best must be in \[0, 1\]"),
        (lambda: fb.problems.from_tensor(np.zeros((3, 2))), r"\(3, 2\); expected \(horizon"),
        (lambda: fb.problems.from_tensor(np.zeros((3, 2, 1))), "arms must be .* at least 2"),
        (lambda: fb.problems.scaled(MAKE(3, 2, 5), 2, 1), "low < high, not low=2, high=1"),
        (lambda: fb.problems.from_table(table().drop(columns="arm")), "no column 'arm'"),
        (lambda: fb.problems.from_table(table().iloc[:0]), "no rows"),
        (lambda: fb.problems.from_table(table().iloc[1:]), "no value for 1 of 12 .* round 1"),
        (
            lambda: fb.problems.from_table(pd.concat([table(), table().iloc[:1]])),
            "more than one loss for time 1, agent agent0, arm arm0: the second is in row 12 ",
        ),
        (lambda: fb.problems.from_table(table().replace({"agent1": None})), "no agent in row 2"),
        (
            lambda: fb.problems.from_table(table().astype({"loss": object}).replace(1.0, "x")),
            "loss in row .* is 'x', not a number",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: untyped(MAKE)(agents=2.5, arms=2, horizon=5),
            "agents must be a whole number.*2.5",
        ),
        (lambda: MAKE(agents=True, arms=2, horizon=5), "agents must be a whole number.*True"),
        (lambda: fb.problems.from_tensor(np.full((2, 2, 2), "a")), "expected numbers"),
        (lambda: untyped(fb.problems.scaled)(np.zeros((2, 2, 2)), 0, 1), "scaled takes a problem"),
        (lambda: fb.problems.from_tensor(np.ma.zeros((2, 2, 2))), "the tensor is masked"),
        (lambda: untyped(fb.problems.scaled)(MAKE(3, 2, 5), "0", 1), "low must be a number"),
        (
            lambda: untyped(fb.problems.scaled)(MAKE(3, 2, 5), 0, 1, rewards="no"),
            "rewards must be True or False",
        ),
        (lambda: untyped(fb.problems.from_table)(table(), fill="x"), "fill must be a number"),
        (
            lambda: untyped(fb.problems.fixed_activation)(3, 2, 5, active=[1.5]),
            "an agent in active must be a whole number",
        ),
        (
            lambda: untyped(fb.problems.from_table)(3),
            "a table is a DataFrame or a file path, not int",
        ),
        (
            lambda: untyped(fb.problems.from_function)(3, agents=1, arms=2, horizon=1),
            "must be callable",
        ),
    ],
)
def test_refused_types(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_missing_and_foreign_tables(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no table at"):
        fb.problems.from_table(tmp_path / "none.csv")
    (tmp_path / "losses.xls").write_text("")
    with pytest.raises(ValueError, match=r"neither \.csv nor \.parquet, nor \.csv\.gz"):
        fb.problems.from_table(tmp_path / "losses.xls")


def test_missing_and_foreign_tensors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no tensor at"):
        fb.problems.from_tensor(tmp_path / "none.npy")
    (tmp_path / "losses.npy").write_text("hello")
    with pytest.raises(ValueError, match=r"losses\.npy is not a \.npy file"):
        fb.problems.from_tensor(str(tmp_path / "losses.npy"))


@pytest.mark.filterwarnings("ignore:missing=")
def test_table_fill() -> None:
    problem = fb.problems.from_table(table().iloc[1:], fill=0.125)
    assert problem.losses(1)[0, 0] == 0.125
    # An empty loss is a missing one.
    emptied = table().assign(loss=[np.nan, *table()["loss"][1:]])
    again = fb.problems.from_table(emptied, fill=0.125)
    np.testing.assert_array_equal(again.block(1, 3), problem.block(1, 3))


def test_dates_as_times(tmp_path: Path) -> None:
    days = {1: "2024-02-28", 2: "2024-02-29", 3: "2024-03-01"}
    table().assign(time=table()["time"].map(days)).to_csv(tmp_path / "days.csv", index=False)
    problem = fb.problems.from_table(tmp_path / "days.csv")
    np.testing.assert_array_equal(problem.block(1, 3), fb.problems.from_table(table()).block(1, 3))


def test_plain_numpy_without_host_is_told_about_host() -> None:
    problem = fb.problems.from_function(
        lambda t: np.random.default_rng(t).uniform(size=(2, 2)), agents=2, arms=2, horizon=5
    )
    with pytest.raises(TypeError, match=r"cannot be traced by JAX: .* pass host=True"):
        fb.simulate(problem, fb.Exp3(), runs=1)


def test_problems_are_short_to_look_at() -> None:
    assert (
        repr(fb.problems.from_tensor(np.zeros((9, 2, 3)))) == "Stored(9 rounds, 2 agents, 3 arms)"
    )


@pytest.mark.parametrize("bad", [float("nan"), -0.01, 1.01, float("inf")])
def test_bad_loss_deep_in_a_tensor_is_found_before_the_run(bad: float) -> None:
    losses = np.zeros((3000, 3, 2))
    losses[2998, 2, 1] = bad
    with pytest.raises(ValueError, match=r"round 2999, agent 2, arm 1 is .*not .*in \[0, 1\]"):
        fb.simulate(fb.problems.from_tensor(losses), fb.Exp3(), runs=1)


@pytest.mark.slow
@pytest.mark.parametrize("host", [False, True])
def test_bad_loss_inside_a_chunk_of_a_function(host: bool) -> None:
    import jax.numpy as jnp

    def losses(t: Any) -> Any:
        xp = np if host else jnp
        return xp.where(xp.arange(6).reshape(3, 2) == 5, xp.where(t == 777, 1.5, t % 2), 0.5)

    problem = fb.problems.from_function(losses, agents=3, arms=2, horizon=1000, host=host)
    with pytest.raises(ValueError, match=r"round 777, agent 2, arm 1 is 1\.5"):
        fb.simulate(problem, fb.Exp3(), runs=1)


def test_scaled_losses_outside_the_range_are_found() -> None:
    stars = np.full((10, 2, 2), 3.0)
    stars[6, 1, 0] = 5.5
    problem = fb.problems.scaled(fb.problems.from_tensor(stars), 1, 5)
    message = r"round 7, agent 1, arm 0 is 5\.5 before scaling, not in \[low, high\] = \[1, 5\]"
    with pytest.raises(ValueError, match=message):
        fb.simulate(problem, fb.Exp3(), runs=1)


def test_bad_losses_of_a_table_are_named() -> None:
    wrong = table().assign(loss=[0.5] * 11 + [1.5])
    with pytest.raises(ValueError, match=r"round 3, agent agent1, arm arm1 is 1\.5"):
        fb.simulate(fb.problems.from_table(wrong), fb.Exp3(), runs=1)


@pytest.mark.parametrize("host", [False, True])
def test_wrong_shape_of_a_function(host: bool) -> None:
    problem = fb.problems.from_function(
        lambda t: np.zeros((2, 3)), agents=3, arms=2, horizon=5, host=host
    )
    with pytest.raises(ValueError, match=r"shape \(2, 3\); expected \(agents, arms\) = \(3, 2\)"):
        fb.simulate(problem, fb.Exp3(), runs=1)


def test_paper_means() -> None:
    np.testing.assert_allclose(coins.paper_means(20), np.arange(20) / 19, rtol=1e-6)


class OneByOne(Bernoulli):
    """Does not know how to draw two losses at once."""

    two_losses_with = fb.Problem.two_losses_with


@pytest.mark.parametrize("kind", [Bernoulli, OneByOne])
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("arms", [1, 4, 5])
def test_losses_had_alone_or_two_at_once_are_those_of_the_round(
    kind: type[Bernoulli], alike: bool, arms: int
) -> None:
    means = np.random.default_rng(0).random((1 if alike else 600, arms), np.float32)
    problem = kind(600, arms, 9, means, np.uint32(3))
    half = (arms + 1) // 2
    agent, arm = np.indices((600, arms))
    assert problem.pointwise
    for t in (1, 2, 9):
        losses = np.asarray(problem.losses(np.int32(t)))
        key = problem.key_of(np.int32(t))
        np.testing.assert_array_equal(problem.loss_with(key, agent, arm), losses)
        two = problem.two_losses_with(key, agent[:, :half], arm[:, :half])
        both = np.concatenate([np.asarray(each) for each in two], axis=1)
        np.testing.assert_array_equal(both[:, :arms], losses)


@pytest.mark.parametrize(
    "problem",
    [
        fb.problems.activated_bernoulli(600, 5, 9, seed=3),
        fb.problems.activated_bernoulli(40, 4, 9, active=1, seed=3),
        fb.problems.activated_bernoulli(100, 4, 9, active=100, seed=3),
        fb.problems.switching(600, 5, 9, parts=4, seed=3),
    ],
    ids=lambda problem: problem.title,
)
def test_losses_that_depend_on_the_round_can_be_had_alone_too(problem: fb.Problem) -> None:
    agent, arm = np.indices((problem.agents, problem.arms))
    assert problem.pointwise
    for t in range(1, 10):
        losses = np.asarray(problem.losses(np.int32(t)))
        key = problem.key_of(np.int32(t))
        np.testing.assert_array_equal(problem.loss_with(key, agent, arm), losses)


def test_the_words_of_a_hash_are_as_good_as_words_of_two() -> None:
    """Coins of arms that share a hash agree as often as independent ones, |z| < 5.5."""
    problem = fb.problems.bernoulli([0.5] * 4, 9, agents=500_000, seed=1)
    tossed = np.asarray(problem.losses(np.int32(1))) == 1
    for one, other in ((0, 2), (1, 3), (0, 1), (2, 3), (0, 3)):
        alike = (tossed[:, one] == tossed[:, other]).mean()
        assert abs(alike - 0.5) < 5.5 * 0.5 / np.sqrt(500_000)


def test_losses_of_a_round_made_at_once_are_not_to_be_had_alone() -> None:
    problem = fb.problems.linear(6, 4, 9, dimension=2)
    assert not problem.pointwise
    with pytest.raises(NotImplementedError, match="Linear makes the losses"):
        problem.key_of(np.int32(1))

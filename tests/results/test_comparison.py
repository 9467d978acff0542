"""Several results: what they are called, their differences, one figure of them all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

import fedbandits as fb
from fedbandits.results.comparison import told_apart
from tests.instances import hand_made

mpl.use("agg")

RATE = "algorithm.learning_rate"
SMALL_LOSS = {"name": "SmallLoss", "c": 2.0}


def regret(seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(size=(5, 20)).cumsum(axis=1)


def constant(value: float) -> dict[str, Any]:
    return {RATE: {"name": "Constant", "value": value}}


def made(*changes: dict[str, Any]) -> list[fb.Result]:
    return [hand_made(regret(seed), change) for seed, change in enumerate(changes)]


def table(digit: str, second: str = "Kiel") -> dict[str, Any]:
    sizes = {"name": "from_table", "agents": 2, "arms": 3, "horizon": 20}
    return sizes | {"sha256": digit * 64, "agent_names": ["Bonn", second]}


def in_range(problem: dict[str, Any], high: float = 50.0) -> dict[str, Any]:
    return {"name": "scaled", "problem": problem, "low": 0.0, "high": high, "rewards": True}


RING = {"network": {"name": "ring", "agents": 9}}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{}], ["FedExp3"]),
        ([{}, {"algorithm": {"name": "Exp3"}}], ["FedExp3", "Exp3"]),
        (
            [constant(0.1), constant(1 / 3)],
            ["FedExp3, learning_rate=0.1", "FedExp3, learning_rate=0.333333"],
        ),
        (
            [constant(0.1), {RATE: SMALL_LOSS}, {"algorithm": {"name": "Exp3"}}],
            ["FedExp3, learning_rate=0.1", "FedExp3, learning_rate=small_loss(c=2)", "Exp3"],
        ),
        # The network tells them apart: the number of agents, which differs too, is left out.
        (
            [{}, {"network": {"name": "ring", "agents": 4}, "problem.agents": 4}],
            ["FedExp3, grid(rows=3, cols=3)", "FedExp3, ring(agents=4)"],
        ),
        (
            [constant(0.1), constant(0.2), constant(0.1) | RING],
            [
                "FedExp3, learning_rate=0.1, grid(rows=3, cols=3)",
                "FedExp3, learning_rate=0.2, grid(rows=3, cols=3)",
                "FedExp3, learning_rate=0.1, ring(agents=9)",
            ],
        ),
        (
            [{}, {"gossip": None, "network": None}],
            ["FedExp3, grid(rows=3, cols=3)", "FedExp3, no network"],
        ),
        ([{}, {"problem.seed": 1}], ["FedExp3, problem.seed=0", "FedExp3, problem.seed=1"]),
        ([{}, {"seed": 1}], ["FedExp3, seed=0", "FedExp3, seed=1"]),
        (
            [{"problem.sha256": "0" * 64}, {"problem.sha256": "f" * 64}],
            ["FedExp3, ActivatedBernoulli 00000000", "FedExp3, ActivatedBernoulli ffffffff"],
        ),
        (
            [{"problem": in_range(table("0"))}, {"problem": in_range(table("f"))}],
            ["FedExp3, table 00000000", "FedExp3, table ffffffff"],
        ),
        # The contents tell them apart: the names, which differ too, are left out.
        (
            [{"problem": table("0")}, {"problem": table("f", "Ulm")}, {}],
            [
                "FedExp3, from_table, table 00000000",
                "FedExp3, from_table, table ffffffff",
                "FedExp3, ActivatedBernoulli",
            ],
        ),
        (
            [{"problem": table("0")}, {"problem": table("0", "Ulm")}],
            [
                "FedExp3, problem.agent_names=[Bonn, Kiel]",
                "FedExp3, problem.agent_names=[Bonn, Ulm]",
            ],
        ),
        (
            [{"problem.agent_names": [*names, *"bcdef"]} for names in "ax"],
            [
                "FedExp3, problem.agent_names=[a, b, c, d, ...]",
                "FedExp3, problem.agent_names=[x, b, c, d, ...]",
            ],
        ),
        (
            [{"problem": in_range(table("0"), 20.0)}, {"problem": in_range(table("0"), 50.0)}],
            ["FedExp3, problem.high=20", "FedExp3, problem.high=50"],
        ),
        ([{}, {"version": "1"}], ["FedExp3, version 0", "FedExp3, version 1"]),
        ([{}, {}], ["FedExp3, result 1", "FedExp3, result 2"]),
        (
            [{}, constant(0.5), {}],
            [
                "FedExp3, learning_rate=0.1, result 1",
                "FedExp3, learning_rate=0.5",
                "FedExp3, learning_rate=0.1, result 3",
            ],
        ),
    ],
)
def test_results_are_told_apart_by_what_differs(
    changes: list[dict[str, Any]], names: list[str]
) -> None:
    assert told_apart(made(*changes)) == names


def test_curves_against_other_arms_are_told_apart() -> None:
    (result,) = made({})
    assert told_apart([result, fb.Result(result.dataset.assign_attrs(against="final"))]) == [
        "FedExp3, against the current best arm",
        "FedExp3, against the final best arm",
    ]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_what_regret_is_against_comes_on_top_of_what_else_differs(order: list[int]) -> None:
    """Whoever is named first: a curve would else be taken for another algorithm's, or yardstick's.

    The seed differs too, and tells nothing that the memory has not told.
    """
    plain, fading, exp3 = made(
        {}, {"algorithm.memory": 100, "seed": 1}, {"algorithm": {"name": "Exp3"}}
    )
    results = [plain, fb.Result(fading.dataset.assign_attrs(against="the best of turns")), exp3]
    names = [
        "FedExp3, against the current best arm",
        "FedExp3, memory=100, against the best of turns",
        "Exp3, against the current best arm",
    ]
    assert told_apart([results[i] for i in order]) == [names[i] for i in order]


def legend_of(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.slow
def test_plot_several(tmp_path: Path) -> None:
    a, b, c = made(constant(0.1), constant(0.2), {"algorithm": {"name": "Exp3"}})
    ax = fb.plot(a, b, c, path=tmp_path / "all.pdf")
    assert (tmp_path / "all.pdf").read_bytes().startswith(b"%PDF")
    assert legend_of(ax) == ["FedExp3, learning_rate=0.1", "FedExp3, learning_rate=0.2", "Exp3"]
    for line, result in zip(ax.lines, (a, b, c), strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), result.band().mean)
    assert len({line.get_color() for line in ax.lines}) == len(ax.collections) == 3
    assert legend_of(fb.plot({"slow": a, "fast": b})) == ["slow", "fast"]
    assert legend_of(fb.plot(a, b, label=["slow", "fast"])) == ["slow", "fast"]
    assert legend_of(fb.plot(a, label="alone")) == ["alone"]
    assert legend_of(fb.plot(b, ax=a.plot(label="first"), label="second")) == ["first", "second"]


def test_more_curves_than_colours_have_other_lines() -> None:
    ax = fb.plot(*made(*(constant(i) for i in range(9))))
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == 9


def test_what_cannot_be_named() -> None:
    a, b = made({}, {})
    with pytest.raises(ValueError, match="2 results need as many different labels, not x; give"):
        fb.plot(a, b, label="x")
    with pytest.raises(ValueError, match="2 results need as many different labels, not x, x;"):
        fb.plot(a, b, label=["x", "x"])
    listed: Any = [a, b]
    with pytest.raises(TypeError, match=r"as in fb\.plot\(a, b\), .* not list"):
        fb.plot(listed)
    with pytest.raises(TypeError, match="not nothing"):
        fb.plot()
    with pytest.raises(ValueError, match="two results or more, not 1"):
        fb.compare(a)


def test_compare_several_with_the_first() -> None:
    a, b, c = made(constant(0.1), constant(0.2), {"algorithm": {"name": "Exp3"}})
    comparison = fb.compare(a, b, c)
    assert comparison.difference.dims == ("other", "run", "time")
    table = comparison.summary()
    assert list(table.index) == [
        "FedExp3, learning_rate=0.1 - FedExp3, learning_rate=0.2",
        "FedExp3, learning_rate=0.1 - Exp3",
    ]
    for name, other in zip(table.index, (b, c), strict=True):
        difference = (a.dataset["regret"] - other.dataset["regret"]).to_numpy()[:, -1]
        interval = stats.t.interval(0.95, 4, difference.mean(), stats.sem(difference))
        np.testing.assert_allclose(table.loc[name], [difference.mean(), *interval])
        assert name in repr(comparison)  # whole, however long
    assert "regret difference" in repr(comparison)
    assert re.search(r"\d\.\d{3}", repr(comparison)) is None  # as results print regret
    np.testing.assert_allclose(fb.compare(a, c).summary(), table.iloc[1:])
    assert fb.compare(a, c).difference.dims == ("run", "time")
    assert fb.compare(a, c).second == "Exp3"
    assert list(fb.compare({"ours": a, "theirs": c}).summary().index) == ["ours - theirs"]


def test_who_is_not_comparable_is_named() -> None:
    a, b, c = made(constant(0.1), constant(0.2), {"algorithm": {"name": "Exp3"}})
    few = fb.Result(c.dataset.isel(run=slice(2)))
    with pytest.raises(ValueError, match=r"=0\.1 and Exp3 have 5 and 2 entries along run"):
        fb.compare(a, b, few)

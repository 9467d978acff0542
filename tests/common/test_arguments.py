"""A parameter that is not there is answered by the name of what was called, and what it takes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import fedbandits as fb
from fedbandits.config.catalogue import REGISTRIES

CALLABLES: dict[str, Callable[..., Any]] = {
    **{
        f"{kind}.{name}": make for kind, names in REGISTRIES.items() for name, make in names.items()
    },
    "problem.from_function": fb.problems.from_function,
    "network.from_adjacency": fb.networks.from_adjacency,
    "network.from_networkx": fb.networks.from_networkx,
    "gossip.from_matrix": fb.gossip.from_matrix,
    "simulate": fb.simulate,
    "check_federated": fb.check_federated,
    "tuning.choose": fb.tuning.choose,
    "tuning.report": fb.tuning.report,
}


@pytest.mark.parametrize("what", CALLABLES)
def test_a_misspelt_parameter_is_answered_with_the_right_one(what: str) -> None:
    make, name = CALLABLES[what], what.rpartition(".")[2]
    parameters = list(inspect.signature(make).parameters)
    if not parameters:
        with pytest.raises(TypeError, match=f"^{name} has no parameter 'speed': it takes none$"):
            make(speed=1)
        return
    meant = max(parameters, key=len)
    typo = f"{meant[:2]}q{meant[2:]}"
    takes = f"It takes {', '.join(parameters)}"
    message = f"{name} has no parameter {typo!r}; did you mean {meant!r}? {takes}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$") as caught:
        make(**{typo: None})
    assert caught.value.__suppress_context__  # and nothing else is shown before it


def refused(make: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(TypeError) as caught:
        make(*args, **kwargs)
    return str(caught.value)


def test_what_is_near_to_nothing_gets_the_list_alone() -> None:
    said = refused(fb.networks.grid, 2, 3, sqz=4)
    assert said == "grid has no parameter 'sqz'. It takes rows, cols"


def test_too_many_values_name_the_algorithm_that_was_called() -> None:
    """Not the class that it has its constructor from."""
    said = refused(fb.FedExp3, 0.1, 0.2, 0.3)
    assert said == "FedExp3 takes learning_rate, exploration, memory: too many positional arguments"


@pytest.mark.parametrize(
    "algorithm", [fb.FedExp3, fb.FedHedge, fb.BlockGossip, fb.LinearBlockGossip]
)
def test_the_theorem_is_a_constructor_of_its_own(algorithm: Any) -> None:
    """What is a key of a configuration file is not a parameter in Python."""
    name = algorithm.__name__
    assert refused(algorithm, from_theorem=True) == (
        f"{name} has no parameter 'from_theorem': write "
        f"{name}.from_theorem(gossip, arms=K, horizon=T)"
    )


def test_where_there_is_no_theorem_none_is_proposed() -> None:
    said = refused(fb.Exp3, from_theorem=True)
    assert said == "Exp3 has no parameter 'from_theorem'. It takes learning_rate, exploration"


def test_other_errors_are_left_as_they_are() -> None:
    grid = fb.networks.grid
    assert refused(grid, 3) == "grid() missing 1 required positional argument: 'cols'"
    assert refused(grid, "3", 3) == "rows must be a whole number of at least 1, not '3'"


@dataclass(frozen=True)
class Own(fb.Uniform):
    rate: float
    other: float = 1.0


class Bare(fb.Algorithm[Any]):
    """Without a constructor of its own."""


def test_algorithms_of_ones_own_are_answered_too_and_stay_ordinary_classes() -> None:
    typo = "Own has no parameter 'rat'; did you mean 'rate'? It takes rate, other"
    assert refused(Own, rat=1.0) == typo
    assert refused(Own) == "Own.__init__() missing 1 required positional argument: 'rate'"
    assert refused(Bare, rate=1.0) == "Bare has no parameter 'rate': it takes none"
    assert refused(Bare, 1.0) == "Bare takes no parameters: too many positional arguments"
    own = Own(0.5)
    assert copy.copy(own) == pickle.loads(pickle.dumps(own)) == own.with_values(rate=0.5) == own
    assert list(inspect.signature(Own).parameters) == ["rate", "other"]
    assert list(inspect.signature(fb.Exp3).parameters) == ["learning_rate", "exploration"]


def test_an_algorithm_that_takes_anything_is_given_it() -> None:
    class Wrapped(fb.FedExp3):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)

    assert Wrapped(learning_rate=0.3).learning_rate == fb.schedules.constant(0.3)
    with pytest.raises(TypeError, match="learing_rate"):
        Wrapped(learing_rate=0.3)

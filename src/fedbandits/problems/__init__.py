"""One file per kind of adversary; what a problem is stands in `base.py`."""

from collections.abc import Callable

from .base import Problem
from .coins import activated_bernoulli, bernoulli, fixed_activation, switching
from .delayed import delayed_experts
from .function import from_function
from .heterogeneous import heterogeneous
from .linear import linear
from .movielens import movielens, movielens_generated
from .scaling import scaled
from .stored import from_tensor
from .table import from_table

REGISTRY: dict[str, Callable[..., Problem]] = {
    "activated_bernoulli": activated_bernoulli,
    "fixed_activation": fixed_activation,
    "bernoulli": bernoulli,
    "switching": switching,
    "heterogeneous": heterogeneous,
    "delayed_experts": delayed_experts,
    "linear": linear,
    "movielens": movielens,
    "movielens_generated": movielens_generated,
    "from_table": from_table,
    "from_tensor": from_tensor,
    "scaled": scaled,
}
"""The problems a configuration file can name; `from_function` takes a Python object."""

__all__ = [
    "REGISTRY",
    "Problem",
    "activated_bernoulli",
    "bernoulli",
    "delayed_experts",
    "fixed_activation",
    "from_function",
    "from_table",
    "from_tensor",
    "heterogeneous",
    "linear",
    "movielens",
    "movielens_generated",
    "scaled",
    "switching",
]

"""One file per kind of adversary; what a problem is stands in `base.py`."""

from collections.abc import Callable

from .adaptive import Adaptive, adaptive
from .base import Problem
from .cache import warming_cache
from .cdn import cdn
from .coins import activated_bernoulli, bernoulli, fixed_activation, switching
from .crowd import crowded
from .delayed import delayed_experts
from .drifting import drifting
from .favourite import hit_favourite
from .function import from_function
from .heterogeneous import heterogeneous
from .linear import linear
from .movielens import movielens, movielens_generated
from .scaling import scaled
from .stored import from_tensor
from .stretches import newcomer, switching_at_random
from .table import from_table
from .turns import taking_turns

REGISTRY: dict[str, Callable[..., Problem]] = {
    "activated_bernoulli": activated_bernoulli,
    "fixed_activation": fixed_activation,
    "bernoulli": bernoulli,
    "switching": switching,
    "switching_at_random": switching_at_random,
    "taking_turns": taking_turns,
    "drifting": drifting,
    "newcomer": newcomer,
    "heterogeneous": heterogeneous,
    "delayed_experts": delayed_experts,
    "linear": linear,
    "movielens": movielens,
    "movielens_generated": movielens_generated,
    "cdn": cdn,
    "from_table": from_table,
    "from_tensor": from_tensor,
    "scaled": scaled,
    "hit_favourite": hit_favourite,
    "warming_cache": warming_cache,
    "crowded": crowded,
}
"""The problems a configuration file can name; `from_function`, `adaptive` take objects."""

__all__ = [
    "Adaptive",
    "Problem",
    "activated_bernoulli",
    "adaptive",
    "bernoulli",
    "cdn",
    "crowded",
    "delayed_experts",
    "drifting",
    "fixed_activation",
    "from_function",
    "from_table",
    "from_tensor",
    "heterogeneous",
    "hit_favourite",
    "linear",
    "movielens",
    "movielens_generated",
    "newcomer",
    "scaled",
    "switching",
    "switching_at_random",
    "taking_turns",
    "warming_cache",
]


def __dir__() -> list[str]:
    return __all__

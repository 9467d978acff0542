"""What neighbours can learn, and what keeps losses from them: with ε, unit and adversary."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .response import RandomisedResponse, guarantee, randomised_response

if TYPE_CHECKING:
    from .reconstruction import Reconstruction, reconstruct

REGISTRY = {"randomised_response": randomised_response}
"""By name, as `fedbandits list` shows them."""

__all__ = [
    "REGISTRY",
    "RandomisedResponse",
    "Reconstruction",
    "guarantee",
    "randomised_response",
    "reconstruct",
]


def __getattr__(name: str) -> Any:
    if name in ("Reconstruction", "reconstruct"):  # not at once: it loads the results' room
        return getattr(import_module(".reconstruction", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What neighbours can learn, and randomised response, which limits what they learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .response import randomised_response

if TYPE_CHECKING:
    from .reconstruction import reconstruct

REGISTRY = {"randomised_response": randomised_response}
"""By name, as `fedbandits list` shows them."""

__all__ = ["randomised_response", "reconstruct"]


def __getattr__(name: str) -> Any:
    if name == "reconstruct":  # loads xarray, so only when it is used
        return import_module(".reconstruction", __name__).reconstruct
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""What neighbours can learn, and what keeps losses from them: with ε, unit and adversary."""

from .reconstruction import Reconstruction, reconstruct
from .response import RandomisedResponse, guarantee, randomised_response

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

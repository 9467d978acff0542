"""What neighbours can learn, and what keeps losses from them: with ε, unit and adversary."""

from .reconstruction import Reconstruction, reconstruct
from .response import RandomisedResponse, randomised_response

__all__ = ["RandomisedResponse", "Reconstruction", "randomised_response", "reconstruct"]

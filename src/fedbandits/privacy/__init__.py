"""What keeps losses from neighbours: always with ε, unit and adversary."""

from .response import RandomisedResponse, randomised_response

__all__ = ["RandomisedResponse", "randomised_response"]

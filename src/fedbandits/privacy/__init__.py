"""What keeps losses from neighbours: always with ε, unit and adversary."""

from .response import RandomisedResponse, guarantee, randomised_response

REGISTRY = {"randomised_response": randomised_response}
"""By name, as `fedbandits list` shows them."""

__all__ = ["REGISTRY", "RandomisedResponse", "guarantee", "randomised_response"]

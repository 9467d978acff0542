"""One profile for every property test, and no figure left open for the next test."""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fedbandits",
    derandomize=True,  # the same examples in every run: a failure is never a matter of luck
    deadline=None,  # the first example compiles
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedbandits")


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")

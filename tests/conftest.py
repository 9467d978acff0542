"""One profile for every property test, no figure left open, nothing written in the home folder."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from fedbandits.engine.devices import one_per_core
from tests.accepted import held_to_the_schema
from tests.salt import SALT, shift_every_seed

# What tests compile and fetch is kept in folders of this test run's own, not in the user's. All
# processes share them: a program is compiled once for all workers and the commands they start.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _folders = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = f"{_folders.name}/caches"
    os.environ["XDG_DATA_HOME"] = f"{_folders.name}/data"

settings.register_profile(
    "fedbandits",
    derandomize=True,  # the same examples in every run: a failure is never a matter of luck
    deadline=None,  # the first example compiles
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fedbandits")

# Ctrl-C is ignored where a test run is started in the background, and it is what some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

shift_every_seed()


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads it
def pytest_configure(config: pytest.Config) -> None:
    # As many devices as any other process has, also where a test starts JAX before the library
    # does: results are the same bits on as many devices.
    one_per_core()
    if SALT:
        config.option.hypothesis_seed = str(SALT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SALT:
        pinned = [item for item in items if item.get_closest_marker("pinned")]
        config.hook.pytest_deselected(items=pinned)
        items[:] = [item for item in items if item not in pinned]


@pytest.fixture(autouse=True, scope="session")
def every_accepted_configuration_fits_the_schema() -> Iterator[None]:
    """Whatever a test has read and built, an editor with the schema would not have marked."""
    with held_to_the_schema():
        yield


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")

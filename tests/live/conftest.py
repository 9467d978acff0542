"""Fixtures of live agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedbandits.common.log_limit import LIMIT
from fedbandits.live.operations.local_cluster import reserved_ports

from .links import Path3


@pytest.fixture(autouse=True)
def no_earlier_warnings() -> Iterator[None]:
    """Clear the limit on warnings, which is shared by all tests of a process."""
    LIMIT.clear()
    yield
    LIMIT.clear()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path3]:
    """The members a - b - c, with keys."""
    with reserved_ports(4) as ports:
        yield Path3(tmp_path, ports)


@pytest.fixture
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if the test logs anything."""
    yield
    assert caplog.get_records("call") == []

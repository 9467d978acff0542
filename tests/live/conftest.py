"""Warnings are limited for a whole process; each test begins without a history of them."""

from collections.abc import Iterator

import pytest

from fedbandits.common.log_limit import LIMIT


@pytest.fixture(autouse=True)
def no_warnings_so_far() -> Iterator[None]:
    LIMIT.clear()
    yield
    LIMIT.clear()

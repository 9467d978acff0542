"""Fixtures of parts."""

from tests.sections import made  # noqa: F401

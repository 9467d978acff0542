"""The command line: arguments only."""

from .commands import app

__all__ = ["app"]

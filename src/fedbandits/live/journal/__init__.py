"""The durable memory of a live agent: one SQLite file that one process at a time writes."""

from .backup import back_up
from .journal import Journal
from .reading import read_journal

__all__ = ["Journal", "back_up", "read_journal"]

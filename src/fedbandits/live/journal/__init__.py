"""The durable memory of a live agent: one SQLite file, which one process at a time writes."""

from .file import Journal
from .reading import read_journal

__all__ = ["Journal", "read_journal"]

"""What was found: the record, the result, its comparison with others, its pictures."""

from .result import Result, load

__all__ = ["Result", "load"]

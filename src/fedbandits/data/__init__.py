"""MovieLens: a release that comes along, others to download, and the reader of them all."""

from pathlib import Path

from .releases import Ratings, read_release

__all__ = ["Ratings", "embedded", "read_release"]


def embedded() -> Path:
    """The release that comes with the package: ml-latest-small of October 2016.

    100,004 ratings by 671 users, in GroupLens' own files. Its licence, which is not the package's,
    stands beside it: research only, not for revenue.

    Example:
        >>> embedded().name
        'ml-latest-small-2016-10.zip'
    """
    return bundled("ml-latest-small-2016-10.zip")


def bundled(name: str) -> Path:
    """A file that comes with the package, unless it was left out for its licence."""
    path = Path(__file__).with_name(name)
    if not path.is_file():
        raise FileNotFoundError(
            f"{name} was left out of this installation; name a MovieLens release instead, as in "
            "fb.problems.movielens(path) or --data FILE"
        )
    return path

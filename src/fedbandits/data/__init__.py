"""MovieLens, in the source tree or to download, and its reader; the traffic of a made-up CDN."""

from pathlib import Path

from fedbandits.common.files import data_folder

from .releases import Ratings, read_release

__all__ = ["Ratings", "cdn_file", "default_release", "embedded", "read_release"]

FETCHED = "ml-latest-small"
"""The release that stands in for the embedded one where that is not there."""


def default_release() -> Path:
    """Return the default release: that of the source tree, else the downloaded one.

    Example:
        >>> default_release().name
        'ml-latest-small-2016-10.zip'
    """
    if embedded().is_file():
        return embedded()
    fetched = data_folder() / f"{FETCHED}.zip"
    if fetched.is_file():
        return fetched
    raise FileNotFoundError(
        f"there are no ratings here: they are for research only, so wheels go without. `fedbandits "
        f"data movielens {FETCHED}` fetches some to {fetched}, where they are found; or name a "
        "release, as in fb.problems.movielens(path) or --data FILE"
    )


def embedded() -> Path:
    """Return the path of ml-latest-small of October 2016 in the source tree.

    100,004 ratings by 671 users, in GroupLens' own files. Its licence, which is not the package's,
    is next to it: research only, not for revenue. Wheels go without it.
    """
    return Path(__file__).with_name("ml-latest-small-2016-10.zip")


def cdn_file() -> Path:
    """Return the file with the miss ratios of a synthetic CDN, made by `tools/cdn`."""
    return Path(__file__).with_name("cdn.npz")

"""Load a MovieLens release of 33 million ratings: seconds and peak memory.

    python benchmarks/movielens_load.py [RELEASE.zip]

Without a release it makes one of random ratings, as long as ml-latest of 2023, whose users are more
thorough than real ones: a quarter of them rate every genre, so that far more is kept than of real
data. The limits are a minute and 4 GB on two cores.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import zipfile
from pathlib import Path
from time import perf_counter

import numpy as np

RATINGS = 33_832_162
USERS = 330_000
MOVIES = 86_000
SHARES = {
    **{"Action": 0.30, "Adventure": 0.24, "Animation": 0.07, "Children": 0.085, "Comedy": 0.35},
    **{"Crime": 0.17, "Documentary": 0.02, "Drama": 0.44, "Fantasy": 0.115, "Film-Noir": 0.012},
    **{"Horror": 0.077, "IMAX": 0.046, "Musical": 0.037, "Mystery": 0.08, "Romance": 0.17},
    **{"Sci-Fi": 0.18, "Thriller": 0.27, "War": 0.05, "Western": 0.019},
}


def make(folder: Path) -> Path:
    """A zip like GroupLens' own."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    weight = rng.lognormal(3.4, 1.35, USERS)
    count = np.minimum((weight / weight.sum() * RATINGS).astype(np.int64) + 1, 8000)
    of_user = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    first = rng.integers(0, MOVIES, USERS)
    size = int(count.sum())
    table = pa.table(
        {
            "userId": np.repeat(np.arange(1, USERS + 1), count),
            # A step without a common divisor with MOVIES never comes to the same movie twice.
            "movieId": (np.repeat(first, count) + of_user * 7919) % MOVIES + 1,
            "rating": rng.integers(1, 11, size) / 2,
            "timestamp": rng.integers(800_000_000, 1_700_000_000, size),
        }
    )
    csv.write_csv(table, folder / "ratings.csv")
    drawn = rng.random((MOVIES, len(SHARES))) < np.array(list(SHARES.values()))
    names = np.array(list(SHARES))
    lines = [
        f"{i + 1},Movie {i + 1},{'|'.join(names[row]) or '(no genres listed)'}\n"
        for i, row in enumerate(drawn)
    ]
    (folder / "movies.csv").write_text("movieId,title,genres\n" + "".join(lines))
    target = folder / "made.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("ratings.csv", "movies.csv"):
            archive.write(folder / name, f"ml-latest/{name}")
    return target


def load(release: str) -> None:
    """Run in a process of its own, so that the peak is the loading's."""
    import fedbandits as fb

    began = perf_counter()
    problem = fb.problems.movielens(release)
    seconds = perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB on Linux
    kept = problem.half_stars.nbytes / 2**20
    sys.stdout.write(f"{problem}: {seconds:.1f} s, peak {peak:.2f} GiB, keeps {kept:.0f} MiB\n")


def main() -> None:
    """Make a release if none is given, and load it."""
    import subprocess

    if len(sys.argv) > 1:
        load(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        release = make(Path(folder))
        subprocess.run([sys.executable, __file__, str(release)], check=True)


if __name__ == "__main__":
    main()

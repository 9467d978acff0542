"""The paper's MovieLens problem: recommend a genre, the loss being what a user thought of one."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedbandits.arrays import Array
from fedbandits.common import checks
from fedbandits.common.describe import array_hash

from .base import Check, Sized, check_sizes, static

logger = logging.getLogger("fedbandits")

NO_GENRES = "(no genres listed)"


@dataclass(frozen=True, eq=False, repr=False)
class RatingSequences(Sized):
    """Every agent's ratings for every genre in order of time, stretched over the horizon.

    Memory is proportional to the ratings: no T × N × K tensor exists.
    """

    half_stars: Array
    """Twice the ratings, one sequence of an agent and a genre after another."""
    start: Array
    """The start of the sequence of each agent and genre, `[N, K]`."""
    count: Array
    """The number of its ratings, m, `[N, K]`."""
    source: str = field(metadata=static)
    agent_names: tuple[str, ...] | None = field(metadata=static)  # type: ignore[misc]
    arm_names: tuple[str, ...] = field(metadata=static)  # type: ignore[misc]

    @property
    def check(self) -> Check:
        """Never: ratings are checked when they are read."""
        return "never"

    def losses(self, t: Array) -> Array:
        """Return ℓ_t = (5.5 - r_j)/5.5 with j = ⌊(t - 1)/⌊T/m⌋⌋, at most the last rating."""
        import jax.numpy as jnp

        j = jnp.minimum((t - 1) // (self.horizon // self.count), self.count - 1)
        half_stars = jnp.asarray(self.half_stars)[self.start + j]
        return (11 - half_stars.astype("float32")) / 11

    @property
    def undefined(self) -> float:
        """The share of (round, agent, arm) that the paper leaves undefined: t > m ⌊T/m⌋."""
        covered = self.count * (self.horizon // self.count)
        return float(1 - np.mean(covered / self.horizon))

    def describe(self) -> dict[str, Any]:
        """Return sizes, genres, the source of the ratings and a hash of them."""
        return {
            "name": "movielens",
            "source": self.source,
            "agents": self.agents,
            "arms": self.arms,
            "horizon": self.horizon,
            "genres": list(self.arm_names),
            "sha256": array_hash(np.asarray(self.half_stars)),
            "sha256_count": array_hash(np.asarray(self.count)),
        }


def movielens(
    path: str | Path | None = None, *, labels: Literal["all", "listed"] | None = None
) -> RatingSequences:
    """Make the paper's MovieLens problem: which genre is best on average over all users?

    Agents are the users with a rating in every genre, arms the genres, T the most ratings of one
    user for one genre. A user's j-th rating r for a genre, in order of time (ties by movie id), is
    the loss (5.5 - r)/5.5 for ⌊T/m⌋ rounds, m being how many there are; the last one is held to
    the end. A movie of several genres counts once for each.

    Args:
        path: a MovieLens release, as a zip or a folder; by default the one in the source tree,
            ml-latest-small of October 2016: 129 agents, 19 arms, 1478 rounds. Wheels go without it;
            there it is the one that `fedbandits data movielens ml-latest-small` has fetched. They
            are for research only, not for revenue; cite Harper and Konstan 2015.
        labels: `all` counts "(no genres listed)" as a genre, as the paper does; `listed` leaves it
            out. By default `all`, but `listed` where no path is given: of those releases only a few
            users rated a movie without genres.

    Example:
        >>> problem = movielens()
        >>> problem.agents, problem.arms, problem.horizon
        (129, 19, 1478)

    Reference:
        Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5(4), 2015.
    """
    from fedbandits.data import default_release, read_release

    if labels not in (None, "all", "listed"):
        raise ValueError(f"labels must be 'all' or 'listed', not {labels!r}")
    if path is None:
        path, labels = default_release(), labels or "listed"
    ratings = read_release(path)
    every = {label for of_movie in ratings.genres.values() for label in of_movie}
    genres = sorted(every - {NO_GENRES} if labels == "listed" else every)
    if len(genres) < 2:
        raise ValueError(f"{ratings.source}: only the genre {genres}; a bandit needs two arms")
    member = np.array(
        [[genre in of_movie for genre in genres] for of_movie in ratings.genres.values()]
    )
    which = np.searchsorted(np.fromiter(ratings.genres, np.int32), ratings.movie).astype(np.int32)
    users, user = np.unique(ratings.user, return_inverse=True)
    agents, keep = _with_every_genre(user, member, which, ratings.source, genres)
    logger.info(
        "%s: %d of %d users have a rating in each of %d genres",
        ratings.source,
        agents.sum(),
        agents.size,
        len(genres),
    )

    # In order of agent, time and movie; then genre by genre, which keeps that order.
    agent = (np.cumsum(agents)[user[keep]] - 1).astype(np.int32)
    order = _in_order(agent, ratings.timestamp[keep], ratings.movie[keep])
    agent, which, half_stars = agent[order], which[keep][order], ratings.half_stars[keep][order]
    sequences, counts = [], []
    for of_genre in member.T:
        rated = of_genre[which]
        sequences.append(half_stars[rated])
        counts.append(np.bincount(agent[rated], minlength=int(agents.sum())))
    count = np.stack(counts)
    start = (np.cumsum(count) - count.ravel()).reshape(count.shape)
    names = tuple(str(name) for name in users[agents])
    sizes = (count.shape[1], count.shape[0], int(count.max()))
    return RatingSequences(
        *sizes,
        np.concatenate(sequences),
        np.ascontiguousarray(start.T, np.int32),
        np.ascontiguousarray(count.T, np.int32),
        ratings.source,
        names,
        tuple(genres),
    )


def movielens_generated(
    agents: int = 3364, horizon: int = 12_800, *, seed: int = 0
) -> RatingSequences:
    """Draw a substitute of the paper's MovieLens release from a scale model of it.

    20 genres, "(no genres listed)" among them; by default the paper's sizes. See
    `fedbandits.data.generated` for the model. Not real ratings.

    Args:
        agents: N.
        horizon: T, the most ratings of one user for one genre.
        seed: of everything.

    Example:
        >>> problem = movielens_generated(agents=5, horizon=1000)
        >>> problem.arms, problem.horizon, int(problem.count.max())
        (20, 1000, 1000)
    """
    from fedbandits.data.generated import generate

    agents, _, horizon = check_sizes(agents, 20, horizon)
    seed = checks.seed32(seed)
    drawn = generate(agents, horizon, seed)
    start = (np.cumsum(drawn.count) - drawn.count.ravel()).reshape(drawn.count.shape)
    return RatingSequences(
        agents,
        len(drawn.genres),
        horizon,
        drawn.half_stars,
        start.astype(np.int32),
        drawn.count,
        f"generated(agents={agents}, horizon={horizon}, seed={seed})",
        None,
        drawn.genres,
    )


def _in_order(
    agent: npt.NDArray[np.int32], timestamp: npt.NDArray[np.int64], movie: npt.NDArray[np.int32]
) -> npt.NDArray[np.intp]:
    """Return the order by agent, time and movie, 9 times faster than `np.lexsort`."""
    earliest = int(timestamp.min())
    span = int(timestamp.max()) - earliest + 1
    if (int(agent.max()) + 1) * span >= 2**63:  # dates beyond reason
        return np.lexsort((movie, timestamp, agent))
    key = agent * np.int64(span) + (timestamp - earliest)
    order = np.argsort(key)
    key = key[order]
    tied = np.zeros(key.size, bool)
    tied[1:] = key[1:] == key[:-1]
    tied[:-1] |= tied[1:]
    some = order[tied]
    order[tied] = some[np.lexsort((movie[some], key[tied]))]
    return order


def _with_every_genre(
    user: npt.NDArray[Any],
    member: npt.NDArray[np.bool_],
    which: npt.NDArray[Any],
    source: str,
    genres: list[str],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which users have a rating in every genre, and which ratings are theirs."""
    rated = np.zeros((int(user.max()) + 1, len(genres)), bool)
    for i in range(len(genres)):  # one genre at a time: a mask over all ratings is the most held
        rated[user[member[which, i]], i] = True
    agents = np.asarray(rated.all(axis=1))
    if not agents.any():
        rarest = int(rated.sum(axis=0).argmin())
        hint = '; leave it out with labels="listed"' if genres[rarest] == NO_GENRES else ""
        raise ValueError(
            f"{source}: none of {len(agents):,} users has a rating in each of the {len(genres)} "
            f"genres; the rarest, {genres[rarest]}, was rated by "
            f"{int(rated[:, rarest].sum()):,}{hint}"
        )
    return agents, agents[user]

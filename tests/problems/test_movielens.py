"""MovieLens: the paper's construction against published numbers and a slow oracle."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits import data
from fedbandits.config.document import load_config
from fedbandits.config.experiment import ConfigError
from fedbandits.data import embedded, generated
from fedbandits.paper.section import Options
from fedbandits.problems.movielens import RatingSequences, _in_order

NO_GENRES = "(no genres listed)"

Rows = list[tuple[int, int, float, int]]
"""User, movie, rating, timestamp."""
Genres = dict[int, list[str]]
"""Labels by movie."""
Map = Callable[[Any, Any, int], Any]


def write(place: Path, rows: Rows, genres: Genres) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    lines = ["userId,movieId,rating,timestamp", *(",".join(map(str, row)) for row in rows)]
    (place / "ratings.csv").write_text("\n".join(lines), encoding="utf-8")
    lines = ["movieId,title,genres", *(f"{m},M{m},{'|'.join(of)}" for m, of in genres.items())]
    (place / "movies.csv").write_text("\n".join(lines), encoding="utf-8")
    return place


def same(losses: Any, expected: Any) -> None:
    """Equal up to one rounding of float32: compiled, a division by 11 may be a product."""
    np.testing.assert_allclose(losses, expected, rtol=1.2e-7, atol=0)


def arrays(problem: RatingSequences) -> list[npt.NDArray[Any]]:
    values = (getattr(problem, field.name) for field in dataclasses.fields(problem))
    return [value for value in values if isinstance(value, np.ndarray)]


# The paper, in plain Python.


class Slow(NamedTuple):
    """The construction as the paper words it."""

    agents: list[int]
    genres: list[str]
    horizon: int
    sequences: dict[tuple[int, str], list[float]]

    def losses(self, user: int, genre: str) -> tuple[list[float], int]:
        """A loss for every t = 0, ..., T - 1, and from which t on the paper has none."""
        ratings = self.sequences[user, genre]
        piece = self.horizon // len(ratings)
        loss: list[float | None] = [None] * self.horizon
        for j, rating in enumerate(ratings, 1):
            for t in range((j - 1) * piece, j * piece):
                loss[t] = (5.5 - rating) / 5.5
        return [(5.5 - ratings[-1]) / 5.5 if x is None else x for x in loss], len(ratings) * piece


def slow(rows: Rows, genres: Genres, labels: str) -> Slow:
    names = {label for _, movie, _, _ in rows for label in genres[movie]}
    arms = sorted(names - {NO_GENRES} if labels == "listed" else names)
    sequences: dict[tuple[int, str], list[float]] = {}
    for user, movie, rating, _ in sorted(rows, key=lambda row: (row[3], row[1])):
        for label in set(genres[movie]) & set(arms):
            sequences.setdefault((user, label), []).append(rating)
    users = sorted({row[0] for row in rows})
    agents = [user for user in users if all((user, arm) in sequences for arm in arms)]
    longest = [len(seq) for (user, _), seq in sequences.items() if user in set(agents)]
    return Slow(agents, arms, max(longest, default=0), sequences)


@st.composite
def small_releases(draw: st.DrawFn) -> tuple[Rows, Genres]:
    """Movies of one to four labels, half stars, and few timestamps, so that many tie."""
    label = st.sampled_from([NO_GENRES, "Drama", "War", "Comedy"])
    of_movie = st.lists(label, min_size=1, max_size=4, unique=True)
    genres = draw(st.dictionaries(st.integers(1, 50), of_movie, min_size=6, max_size=10))
    pairs = st.tuples(st.integers(1, 4), st.sampled_from(sorted(genres)))
    rest = st.tuples(st.integers(1, 10), st.integers(0, 3))
    chosen = draw(st.dictionaries(pairs, rest, min_size=15, max_size=40))
    rows = [(user, movie, half / 2, time) for (user, movie), (half, time) in chosen.items()]
    return draw(st.permutations(rows)), genres


@pytest.mark.slow
@given(small_releases(), st.sampled_from(["all", "listed"]))
def test_losses_are_the_papers(
    tmp_path_factory: pytest.TempPathFactory, release: tuple[Rows, Genres], labels: Any
) -> None:
    rows, genres = release
    place = write(tmp_path_factory.mktemp("release"), rows, genres)
    expected = slow(rows, genres, labels)
    if not expected.agents or len(expected.genres) < 2:
        with pytest.raises(ValueError, match=r"has a rating in each|only the genre"):
            fb.problems.movielens(place, labels=labels)
        return
    problem = fb.problems.movielens(place, labels=labels)
    assert problem.agent_names == tuple(map(str, expected.agents))
    assert problem.arm_names == tuple(expected.genres)
    assert problem.horizon == expected.horizon
    tensor = np.empty((problem.horizon, problem.agents, problem.arms), np.float32)
    undefined = 0
    for v, user in enumerate(expected.agents):
        for i, genre in enumerate(expected.genres):
            tensor[:, v, i], end = expected.losses(user, genre)
            undefined += problem.horizon - end
    same(problem.block(1, problem.horizon), tensor)
    # A mean of a few quotients: some roundings of 1e-16.
    assert problem.undefined == pytest.approx(undefined / tensor.size, abs=1e-14)


def test_one_release_by_hand(tmp_path: Path) -> None:
    """Ties in time go by movie id; floor(5/2) = 2 rounds a rating, the last held for one more."""
    genres = {5: ["War"], 6: ["Drama", "War"], 7: ["Drama"], 8: ["Drama"], 9: ["Drama"]}
    genres[10] = ["Drama"]
    rows = [(3, 7, 5.0, 40), (3, 6, 1.0, 40), (3, 5, 2.0, 60), (3, 8, 4.5, 30)]
    rows += [(3, 9, 0.5, 40), (3, 10, 3.0, 90), (4, 5, 5.0, 1)]
    problem = fb.problems.movielens(write(tmp_path, rows, genres))
    assert (problem.agents, problem.arms, problem.horizon) == (1, 2, 5)
    stars = [[4.5, 1.0], [1.0, 1.0], [5.0, 2.0], [0.5, 2.0], [3.0, 2.0]]
    same(problem.block(1, 5)[:, 0], (5.5 - np.array(stars)) / 5.5)
    assert problem.undefined == pytest.approx(0.1, abs=1e-15)  # round 5 of War, of ten cells


@pytest.fixture(scope="module")
def ours() -> RatingSequences:
    return fb.problems.movielens()


@pytest.fixture(scope="module")
def ours_slowly() -> Slow:
    with zipfile.ZipFile(embedded()) as archive:

        def table(name: str) -> Iterable[dict[str, str]]:
            text = archive.read(f"ml-latest-small/{name}.csv").decode()
            return csv.DictReader(io.StringIO(text))

        rows = [
            (int(r["userId"]), int(r["movieId"]), float(r["rating"]), int(r["timestamp"]))
            for r in table("ratings")
        ]
        genres = {int(r["movieId"]): r["genres"].split("|") for r in table("movies")}
    return slow(rows, genres, "listed")


def test_our_release_is_the_papers_construction(ours: RatingSequences, ours_slowly: Slow) -> None:
    assert ours.agent_names == tuple(map(str, ours_slowly.agents))
    assert ours.arm_names == tuple(ours_slowly.genres)
    assert ours.horizon == ours_slowly.horizon
    losses = ours.block(1, ours.horizon)
    heaviest = int(ours.count.max(axis=1).argmax())
    for v in (0, 1, 64, heaviest, ours.agents - 1):
        for i, genre in enumerate(ours_slowly.genres):
            expected, end = ours_slowly.losses(ours_slowly.agents[v], genre)
            same(losses[:, v, i], expected)
            count = int(ours.count[v, i])
            assert end == count * (ours.horizon // count)


def test_block_is_losses_round_by_round(ours: RatingSequences) -> None:
    first, last = 700, 712
    expected = np.stack([np.asarray(ours.losses(t)) for t in range(first, last + 1)])
    same(ours.block(first, last), expected)
    assert (np.abs(expected[0] - expected[-1]) > 0.04).any()  # half a star is 1/11
    same(ours.block(1478, 1478)[0], ours.losses(1478))


def test_memory_is_that_of_the_ratings(ours: RatingSequences, ours_slowly: Slow) -> None:
    agents = set(ours_slowly.agents)
    ratings = sum(len(seq) for (user, _), seq in ours_slowly.sequences.items() if user in agents)
    sizes = [array.nbytes for array in arrays(ours)]
    cells = ours.agents * ours.arms
    assert sorted(sizes) == sorted([ratings, 4 * cells, 4 * cells])  # a byte each; start and m
    assert sum(sizes) < 4 * ours.horizon * cells / 70  # the tensor it stands for: 14 MB


# Published numbers.


def spread(t: Any, m: Any, horizon: int) -> Any:
    """Which rating counts at t = 0, 1, ... where all of the horizon is shared out evenly."""
    return t * m // horizon


def held(t: Any, m: Any, horizon: int) -> Any:
    """Which rating counts at t = 0, 1, ... in the paper, the last one held."""
    return np.minimum(t // (horizon // m), m - 1)


def averages(problem: RatingSequences, rating: Map) -> npt.NDArray[np.float64]:
    """Mean loss over all agents, `[T, K]`."""
    t = np.arange(problem.horizon, dtype=np.int32)[:, None]
    means = [
        problem.half_stars[start + rating(t, count, problem.horizon)].mean(axis=1)
        for start, count in zip(problem.start.T, problem.count.T, strict=True)
    ]
    return 1 - np.stack(means, axis=1) / 11


def test_averages_are_those_of_the_losses_played(ours: RatingSequences) -> None:
    played = ours.block(1, ours.horizon).mean(axis=1, dtype=np.float64)
    same(averages(ours, held), played)


class Oracle(NamedTuple):
    """The published numbers of the embedded release, by its labels."""

    labels: Any
    agents: int
    arms: int
    horizon: int
    undefined: str
    best: str
    loss: str
    gap: str


ORACLES = [
    Oracle("all", 10, 20, 1478, "0.037", "Film-Noir", "0.3160", "0.0112"),
    Oracle("listed", 129, 19, 1478, "0.020", "Film-Noir", "0.2884", "0.0163"),
]


def agrees(problem: RatingSequences, oracle: Oracle) -> None:
    assert problem.arms == len(problem.arm_names) == oracle.arms
    assert (problem.agents, problem.horizon) == (oracle.agents, oracle.horizon)
    assert f"{round(problem.undefined, 4):.3f}" == oracle.undefined
    # The table's losses are of the map that leaves nothing undefined.
    losses = averages(problem, spread).mean(axis=0)
    best, second = np.sort(losses)[:2]
    assert problem.arm_names[int(losses.argmin())] == oracle.best
    assert (f"{best:.4f}", f"{second - best:.4f}") == (oracle.loss, oracle.gap)
    # The losses played hold the last rating instead, which changes no best arm.
    played = averages(problem, held).mean(axis=0)
    assert problem.arm_names[int(played.argmin())] == oracle.best
    assert 0 < np.abs(played - losses).max() < 0.01


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.labels)
def test_our_release_has_the_published_numbers(oracle: Oracle) -> None:
    agrees(fb.problems.movielens(embedded(), labels=oracle.labels), oracle)


def test_labels_are_listed_for_our_release_and_all_for_others(
    ours: RatingSequences, tmp_path: Path
) -> None:
    (tmp_path / "mine.zip").symlink_to(embedded())
    every, listed = (
        fb.problems.movielens(tmp_path / "mine.zip", labels=x) for x in (None, "listed")
    )
    assert (every.agents, every.arms) == (10, 20)
    assert every.arm_names[0] == NO_GENRES
    assert ours.describe() == listed.describe() | {"source": embedded().name}
    assert fb.problems.movielens(labels="all").describe()["sha256"] == every.describe()["sha256"]


def test_without_ours_the_fetched_release_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a wheel, which goes without."""
    ours = embedded()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(data, "embedded", lambda: tmp_path / "left-out.zip")
    with pytest.raises(FileNotFoundError, match="`fedbandits data movielens ml-latest-small` fetc"):
        fb.problems.movielens()
    with pytest.raises(FileNotFoundError, match="there are no ratings here"):
        Options(tmp_path).check({"figure1", "figure2"})  # before figure 1 is played
    Options(tmp_path).check({"figure1"})
    (tmp_path / "fedbandits").mkdir()
    (tmp_path / "fedbandits" / "ml-latest-small.zip").symlink_to(ours)
    found = fb.problems.movielens()
    assert (found.source, found.agents, found.arms) == ("ml-latest-small.zip", 129, 19)


def test_without_the_scale_model_nothing_is_generated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(generated, "__file__", str(tmp_path / "generated.py"))
    with pytest.raises(FileNotFoundError, match=r"no scale_model\.json here: .* source tree"):
        fb.problems.movielens_generated(agents=2, horizon=50)


# What the engine, configuration files and mistakes make of it.

TINY_GENRES = {1: ["Drama", "War"], 2: ["Drama"], 3: ["War", "Comedy"], 4: ["Comedy"]}
TINY: Rows = [
    (user, movie, 0.5 + (user * movie + user) % 10 / 2, 100 - 7 * movie)
    for user in (12, 7, 30, 31)
    for movie in TINY_GENRES
    if (user, movie) not in {(31, 1), (31, 3), (7, 4), (30, 2)}
]
"""Users 7, 12 and 30 have every genre, user 31 no War; T = 2."""


@pytest.mark.slow
def test_it_is_played_like_its_tensor(tmp_path: Path) -> None:
    genres = {m: [["Drama", "War", "Comedy"][m % 3], "Western"][: 1 + m % 2] for m in range(90)}
    rng = np.random.default_rng(0)
    rows: Rows = [
        (user, movie, float(half) / 2, int(time))
        for user in (12, 7, 30)
        for movie, half, time in zip(genres, *rng.integers(1, 11, (2, 90)), strict=True)
    ]
    problem = fb.problems.movielens(write(tmp_path / "ml-test", rows, genres))
    assert problem.horizon == 45
    gossip = fb.gossip.max_degree(fb.networks.ring(3))
    result = fb.simulate(problem, fb.FedExp3(), gossip, runs=2, dtype="float64")
    names = ["Comedy", "Drama", "War", "Western"]
    assert result.dataset["agent"].values.tolist() == ["7", "12", "30"]
    assert result.dataset["arm"].values.tolist() == names
    tensor = fb.simulate(
        *(fb.problems.from_tensor(problem.block(1, 45)), fb.FedExp3(), gossip),
        runs=2,
        dtype="float64",
    )
    # The same losses and so the same arms; means over agents may be summed in another order.
    plays = "arm_frequency"
    np.testing.assert_array_equal(result.dataset[plays].values, tensor.dataset[plays].values)
    for name in ("arm_loss", "regret"):
        np.testing.assert_allclose(result.dataset[name], tensor.dataset[name], atol=1e-6)
    chosen = tensor.recommended_arm.values
    np.testing.assert_array_equal(result.recommended_arm.values, np.array(names)[chosen])


def test_descriptions_are_json_and_know_every_rating(tmp_path: Path) -> None:
    def described(rows: Rows, folder: str) -> dict[str, Any]:
        place = write(tmp_path / folder / "ml-tiny", rows, TINY_GENRES)
        text = json.dumps(fb.problems.movielens(place).describe())
        description: dict[str, Any] = json.loads(text)
        return description

    first = described(TINY, "first")
    assert first == described(TINY[::-1], "second")  # a file's order does not matter
    sizes = {"agents": 3, "arms": 3, "horizon": 2, "genres": ["Comedy", "Drama", "War"]}
    assert first | {"name": "movielens", "source": "ml-tiny"} | sizes == first
    for i, (user, movie, rating, time) in enumerate(TINY):
        changed = [*TINY[:i], (user, movie, 5.5 - rating, time), *TINY[i + 1 :]]
        assert (described(changed, f"changed{i}") != first) == (user != 31)


CONFIG = """
[problem]
name = "movielens"
path = "data/ml-tiny"
{labels}

[network]
name = "ring"
agents = 3

[gossip]
name = "metropolis"

[algorithm]
name = "FedExp3"
"""


@pytest.mark.parametrize(("labels", "arms"), [("", 4), ('labels = "listed"', 3)])
def test_a_configuration_names_a_release_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: str, arms: int
) -> None:
    rows = [*TINY, *((user, 5, 4.0, 1) for user in (7, 12, 30))]
    place = write(tmp_path / "data" / "ml-tiny", rows, TINY_GENRES | {5: [NO_GENRES]})
    (tmp_path / "config.toml").write_text(CONFIG.format(labels=labels), encoding="utf-8")
    monkeypatch.chdir("/")
    problem = load_config(tmp_path / "config.toml").simulation.problem
    assert (problem.agents, problem.arms) == (3, arms)
    direct = fb.problems.movielens(place, labels="listed" if labels else "all")
    assert problem.describe() == direct.describe()
    with pytest.raises(
        ConfigError, match=re.escape(f"no release at {tmp_path / 'data' / 'other'}")
    ):
        load_config(tmp_path / "config.toml", ["problem.path=data/other"])


def test_refusals(tmp_path: Path) -> None:
    make = fb.problems.movielens
    with pytest.raises(FileNotFoundError, match=r"no release at .*nowhere; it is a zip"):
        make(tmp_path / "nowhere")
    for wrong in ("none", "", 1):
        message = re.escape(f"labels must be 'all' or 'listed', not {wrong!r}")
        with pytest.raises(ValueError, match=message):
            make(labels=wrong)  # type: ignore[arg-type]

    single = write(tmp_path / "single", [(1, 1, 4.0, 5)], {1: ["Drama"]})
    with pytest.raises(ValueError, match=r"single: only the genre \['Drama'\]; .* two arms"):
        make(single)
    unlisted = write(
        tmp_path / "un", [(1, 1, 4.0, 5), (1, 2, 4.0, 5)], {1: ["War"], 2: [NO_GENRES]}
    )
    assert make(unlisted).arms == 2
    with pytest.raises(ValueError, match=r"un: only the genre \['War'\]"):
        make(unlisted, labels="listed")

    # A genre that no movie with a rating has is no arm; Comedy, of one user, is the rarest.
    rows: Rows = [(1, 1, 4.0, 5), (2, 2, 4.0, 5), (1, 2, 3.0, 5), (3, 3, 3.0, 5), (4, 1, 3.0, 5)]
    genres = {1: ["Drama"], 2: ["War"], 3: ["Comedy"], 4: ["Western"]}
    message = "rare: none of 4 users has a rating in each of the 3 genres; the rarest, Comedy, was "
    with pytest.raises(ValueError, match=re.escape(message + "rated by 1") + "$"):
        make(write(tmp_path / "rare", rows, genres))
    place = write(tmp_path / "rare", rows, genres | {3: [NO_GENRES]})
    message = f'genres; the rarest, {NO_GENRES}, was rated by 1; leave it out with labels="listed"'
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        make(place)
    listed = make(place, labels="listed")
    assert (listed.agent_names, listed.arm_names) == (("1",), ("Drama", "War"))


@pytest.mark.parametrize("latest", [50, 2**62])
def test_order_of_ratings_is_lexicographic(latest: int) -> None:
    """Few dates, so that most ratings tie; and dates so far apart that the fast key overflows."""
    rng = np.random.default_rng(0)
    agent = rng.integers(0, 20, 2000).astype(np.int32)
    timestamp = np.where(rng.random(2000) < 0.5, rng.integers(0, latest, 2000), 5)
    movie = rng.permutation(2000).astype(np.int32)
    expected = np.lexsort((movie, timestamp, agent))
    np.testing.assert_array_equal(_in_order(agent, timestamp, movie), expected)

"""Every form a MovieLens release comes in is read alike; what no release may hold is refused."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandits.data import Ratings, embedded, read_release
from fedbandits.data import releases as module

ROWS = [(1, 10, 4.0, 978300760), (1, 20, 0.5, 978302109), (7, 10, 5.0, 978301968)]
TITLES = {
    10: ("Misérables, Les: Part II (1995)", "Drama|War"),
    20: ("Plan 9:", "(no genres listed)"),
    30: ('The "Unrated" One', "Comedy"),
}
MADE = ["csv", "semicolon", "bom", "crlf", "quoted", "reordered", "1m", "10m", "parquet"]

Rows = list[tuple[int, int, float, int]]
Titles = dict[int, tuple[str, str]]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def files(form: str, rows: Rows = ROWS, titles: Titles = TITLES) -> dict[str, bytes]:
    """A release's two files, by name."""
    if form == "parquet":
        user, movie, rating, time = (list(column) for column in zip(*rows, strict=True))
        names, genres = (list(column) for column in zip(*titles.values(), strict=True))
        return {
            "ratings.parquet": parquet(userId=user, movieId=movie, rating=rating, timestamp=time),
            "movies.parquet": parquet(movieId=list(titles), title=names, genres=genres),
        }
    if form in ("1m", "10m"):
        code = "latin-1" if form == "1m" else "utf-8"
        ratings = "".join(f"{u}::{m}::{r:g}::{t}\n" for u, m, r, t in rows)
        movies = "".join(f"{m}::{title}::{genres}\n" for m, (title, genres) in titles.items())
        return {"ratings.dat": ratings.encode(code), "movies.dat": movies.encode(code)}
    ratings = "userId,movieId,rating,timestamp\n"
    ratings += "".join(f"{u},{m},{r},{t}\n" for u, m, r, t in rows)
    movies = "movieId,title,genres\n"
    movies += "".join(f"{m},{quoted(title)},{genres}\n" for m, (title, genres) in titles.items())
    if form == "reordered":
        ratings = "timestamp,extra,rating,movieId,userId\n"
        ratings += "".join(f"{t},x,{r},{m},{u}\n" for u, m, r, t in rows)
        movies = "genres,extra,movieId\n"
        movies += "".join(f"{genres},é,{m}\n" for m, (_, genres) in titles.items())
    if form == "quoted":
        ratings = re.sub(r"[^,\n]+", r'"\g<0>"', ratings)
    if form == "semicolon":
        movies = re.sub(r"^(\w+),(.*),([^,]*)$", r"\1;\2;\3", movies, flags=re.MULTILINE)
        ratings = ratings.replace(",", ";")
    both = {"ratings.csv": ratings.encode(), "movies.csv": movies.encode()}
    if form == "bom":
        return {name: b"\xef\xbb\xbf" + data for name, data in both.items()}
    if form == "crlf":
        return {name: data.replace(b"\n", b"\r\n") for name, data in both.items()}
    return both


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def written(place: Path, contents: dict[str, bytes]) -> Path:
    """The files in a folder, or in a zip with a folder inside."""
    if place.suffix == ".zip":
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in contents.items():
                archive.writestr(f"ml-test/{name}", data)
    else:
        for name, data in contents.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    return place


def same(ratings: Ratings, rows: Rows, titles: Titles) -> None:
    user, movie, rating, time = zip(*rows, strict=True)
    assert ratings.user.tolist() == list(user)
    assert ratings.movie.tolist() == list(movie)
    assert (ratings.half_stars / 2).tolist() == list(rating)
    assert ratings.timestamp.tolist() == list(time)
    kinds = [np.dtype(kind) for kind in ("int32", "int32", "uint8", "int64")]
    assert [column.dtype for column in ratings[1:5]] == kinds
    assert ratings.genres == {m: tuple(titles[m][1].split("|")) for m in sorted(set(movie))}


@pytest.mark.parametrize("place", ["ml-test", "ml-test.zip"])
@pytest.mark.parametrize("form", MADE)
def test_every_form_reads_alike(form: str, place: str, tmp_path: Path) -> None:
    ratings = read_release(written(tmp_path / place, files(form)))
    assert ratings.source == place
    same(ratings, ROWS, TITLES)


def test_a_single_subfolder_is_found(tmp_path: Path) -> None:
    written(tmp_path / "data" / "ml-test", files("csv"))
    assert read_release(str(tmp_path / "data")).source == "data"


def test_a_link_keeps_its_name_and_a_dot_gets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = written(tmp_path / "ml-test", files("csv"))
    (tmp_path / "mine").symlink_to(place)
    assert read_release(tmp_path / "mine").source == "mine"
    monkeypatch.chdir(place)
    assert read_release(".").source == "ml-test"


def test_what_lies_directly_in_the_folder_is_meant(tmp_path: Path) -> None:
    written(tmp_path, files("csv"))
    written(tmp_path / "old", files("1m", ROWS[:1]))
    assert read_release(tmp_path).user.size == 3


def test_blank_lines_and_a_newline_in_a_title(tmp_path: Path) -> None:
    contents = files("csv")
    contents["ratings.csv"] += b"\n\n"
    contents["movies.csv"] += b'40,"Two\nlines",Drama\n\n'
    same(read_release(written(tmp_path, contents)), ROWS, TITLES)


def test_a_label_given_twice_counts_once(tmp_path: Path) -> None:
    titles = {10: ("A", "War|Drama|War"), 20: ("B", "Drama")}
    ratings = read_release(written(tmp_path, files("csv", titles=titles)))
    assert ratings.genres[10] == ("War", "Drama")


def test_many_pieces_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 1000)
    rows: Rows = [(u, m, 0.5 + (u + m) % 10 / 2, u * m) for u in range(40) for m in range(50)]
    titles = dict.fromkeys(range(50), ("", "Drama"))
    for form in ("csv", "1m"):
        same(
            read_release(written(tmp_path / f"{form}.zip", files(form, rows, titles))), rows, titles
        )
    rows[1500] = (1, 2, 3.3, 4)
    with pytest.raises(ValueError, match=r"ratings\.csv, line 1502: rating is '3\.3'"):
        read_release(written(tmp_path / "wrong.zip", files("csv", rows, titles)))


def test_the_embedded_release() -> None:
    ratings = read_release(embedded())
    assert ratings.source == "ml-latest-small-2016-10.zip"
    assert ratings.user.size == 100_004
    assert np.unique(ratings.user).size == 671
    assert len({label for labels in ratings.genres.values() for label in labels}) == 20
    licence = embedded().with_name("ml-latest-small-2016-10.LICENSE.txt").read_bytes()
    with zipfile.ZipFile(embedded()) as archive:
        assert archive.read("ml-latest-small/README.txt") == licence


numbers = st.integers(0, 2**31 - 1)
labels = st.text(st.characters(min_codepoint=65, max_codepoint=90), min_size=1, max_size=5)
catalogues = st.dictionaries(
    numbers,
    st.tuples(
        st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f")),
        st.lists(labels, min_size=1, max_size=4, unique=True).map("|".join),
    ),
    min_size=1,
    max_size=5,
)


@st.composite
def random_releases(draw: st.DrawFn) -> tuple[Rows, Titles]:
    titles = draw(catalogues)
    pair = st.tuples(numbers, st.sampled_from(sorted(titles)))
    pairs = draw(st.lists(pair, min_size=1, max_size=10, unique=True))
    rest = st.tuples(st.integers(1, 10), st.integers(0, 2**63 - 1))
    return [(u, m, h / 2, t) for (u, m) in pairs for h, t in [draw(rest)]], titles


@given(random_releases(), st.sampled_from(MADE))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, release: tuple[Rows, Titles], form: str
) -> None:
    if form == "semicolon":  # made by a substitution that takes no commas in titles
        form = "csv"
    rows, titles = release
    place = tmp_path_factory.mktemp("release") / "ml.zip"
    same(read_release(written(place, files(form, rows, titles))), rows, titles)


CSV = "userId,movieId,rating,timestamp\n1,10,4.0,5\n"
DAT = "1::10::4::5\n"


@pytest.mark.parametrize("place", ["ml-test", "ml-test.zip"])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ratings.csv", "userId,movieId,rating\n1,10,4\n", "ratings.csv has no column timestamp"),
        ("ratings.csv", "userId,movieId,rating,timestamp,rating\n", "more than one column rating"),
        ("ratings.csv", CSV + "1,20,7,5\n", "ratings.csv, line 3: rating is '7'; ratings are 0.5"),
        ("ratings.csv", CSV + "1,20,3.3,5\n", "ratings.csv, line 3: rating is '3.3'"),
        ("ratings.csv", CSV + "1,20,0,5\n", "ratings.csv, line 3: rating is '0'"),
        ("ratings.csv", CSV + "1,20,nan,5\n", "ratings.csv, line 3: rating is 'nan'"),
        ("ratings.csv", CSV + "1,20,-1,5\n", "ratings.csv, line 3: rating is '-1'"),
        ("ratings.csv", CSV + "1,20,good,5\n", "ratings.csv, line 3: rating is 'good'"),
        ("ratings.csv", CSV + "1,20,,5\n", "ratings.csv, line 3: rating is empty"),
        ("ratings.csv", CSV + "\n\nann,20,4,5\n", "ratings.csv, line 5: userId is 'ann', not a"),
        ("ratings.csv", CSV + "1,,4,5\n", "ratings.csv, line 3: movieId is empty"),
        ("ratings.csv", CSV + "1,2.5,4,5\n", "ratings.csv, line 3: movieId is '2.5'"),
        ("ratings.csv", CSV + "1,20,4,\n", "ratings.csv, line 3: timestamp is empty"),
        ("ratings.csv", CSV + "1,20,4\n", "ratings.csv, line 3: 3 fields, not 4"),
        ("ratings.csv", CSV + "1,20,4,5,6\n", "ratings.csv, line 3: 5 fields, not 4"),
        ("ratings.csv", CSV + "-1,20,4,5\n", "ratings.csv, line 3: userId is '-1'"),
        ("ratings.csv", CSV + "1,3000000000,4,5\n", "line 3: movieId is '3000000000'"),
        ("ratings.csv", CSV + "1,20,4,-5\n", "ratings.csv, line 3: timestamp is '-5'"),
        ("ratings.csv", CSV + f"1,20,4,{2**63}\n", f"line 3: timestamp is '{2**63}'"),
        (
            "ratings.csv",
            CSV + "2,10,4,5\n\n1,10,5,6\n",
            "ratings.csv, line 5: user 1 rates movie 10 a second time; the first is in line 2",
        ),
        ("ratings.csv", CSV + "1,99,4,5\n", "ratings.csv, line 3: movie 99 is not in "),
        ("ratings.csv", CSV[:32], "ratings.csv holds no ratings"),
        ("ratings.csv", "", "ratings.csv has no column userId"),
        ("ratings.csv", "1" * 200_000, "ratings.csv has no column userId"),
        ("ratings.csv", CSV.encode("utf-16"), "ratings.csv, line 1: byte 0xff is not UTF-8"),
        ("ratings.dat", DAT + "1::20::7::5\n", "ratings.dat, line 2: rating is '7'"),
        ("ratings.dat", DAT + "1::x::4::5\n", "ratings.dat, line 2: movieId is 'x'"),
        ("ratings.dat", DAT + "1::20::::5\n", "ratings.dat, line 2: rating is empty"),
        ("ratings.dat", DAT + "1:2:20::4::5\n", "ratings.dat, line 2: 3 fields, not 4"),
        ("ratings.dat", DAT + "1::20::4\n", "ratings.dat, line 2: 3 fields, not 4"),
        ("ratings.dat", DAT + DAT, "ratings.dat, line 2: user 1 rates movie 10 a second time"),
        ("ratings.dat", DAT + "1::99::4::5\n", "ratings.dat, line 2: movie 99 is not in "),
        ("ratings.dat", "", "ratings.dat holds no ratings"),
        ("movies.csv", "movieId,title\n10,A\n", "movies.csv has no column genres"),
        (
            "movies.csv",
            "movieId,title,genres\n10,A,\n",
            "movies.csv, line 2: movie 10 has an empty",
        ),
        ("movies.csv", "movieId,title,genres\n10,A,Drama||War\n", "empty genre in 'Drama||War'"),
        (
            "movies.csv",
            "movieId,title,genres\n10,A,War\n20,B,War\n10,A,War\n",
            "movies.csv, line 4: movie 10 is listed a second time",
        ),
        ("movies.csv", "movieId,title,genres\nten,A,War\n", "movies.csv, line 2: movieId is 'ten'"),
        ("movies.csv", "movieId,title,genres\n10,A,B,War\n", "movies.csv, line 2: 4 fields, not 3"),
        ("movies.csv", 'movieId,title,genres\n10,"A,War\n', "movies.csv, line 2: unexpected end"),
        (
            "movies.csv",
            "movieId,title,genres\n10,Misérables,War\n".encode("latin-1"),
            "movies.csv, line 2: byte 0xe9 is not UTF-8",
        ),
        ("movies.dat", "10::A::War\n10::A::War\n", "movies.dat, line 2: movie 10 is listed"),
        ("movies.dat", "10::A\n", "movies.dat, line 1: 2 fields, not 3"),
        ("movies.dat", "10::A::\n", "movies.dat, line 1: movie 10 has an empty genre in ''"),
        ("movies.dat", "-1::A::War\n", "movies.dat, line 1: movieId is '-1'"),
    ],
)
def test_refusals(
    name: str, content: str | bytes, message: str, place: str, tmp_path: Path
) -> None:
    contents = files("csv" if name.endswith("csv") else "1m")
    contents[name] = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(ValueError, match=re.escape(message)):
        read_release(written(tmp_path / place, contents))


GOOD = {"userId": [1, 2], "movieId": [10, 10], "rating": [4.0, 3.5], "timestamp": [5, 6]}


@pytest.mark.parametrize("place", ["ml-test", "ml-test.zip"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rating": [4.0, 3.3]}, "ratings.parquet, row 2: rating is '3.3'"),
        ({"rating": [4.0, None]}, "ratings.parquet, row 2: rating is empty"),
        ({"userId": [1, -1]}, "ratings.parquet, row 2: userId is '-1'"),
        ({"userId": [1, 2**40]}, f"ratings.parquet, row 2: userId is '{2**40}'"),
        ({"userId": [1.0, 1.5]}, "ratings.parquet, row 2: userId is '1.5'"),
        ({"userId": ["1", "2"]}, "ratings.parquet: the column userId holds string, not numbers"),
        ({"userId": [1, 1]}, "row 2: user 1 rates movie 10 a second time; the first is in row 1"),
        ({"movieId": [10, 99]}, "ratings.parquet, row 2: movie 99 is not in "),
        ({"timestamp": [5, None]}, "ratings.parquet, row 2: timestamp is empty"),
        ({"stars": [], "rating": None}, "ratings.parquet has no column rating"),
        (dict.fromkeys(GOOD, pa.array([], pa.int64())), "ratings.parquet holds no ratings"),
    ],
)
def test_refusals_of_parquet(
    change: dict[str, Any], message: str, place: str, tmp_path: Path
) -> None:
    columns = {name: column for name, column in (GOOD | change).items() if column is not None}
    columns = {name: [0, 0] if name == "stars" else column for name, column in columns.items()}
    contents = files("parquet") | {"ratings.parquet": parquet(**columns)}
    with pytest.raises(ValueError, match=re.escape(message)):
        read_release(written(tmp_path / place, contents))


@pytest.mark.parametrize(
    ("genres", "message"),
    [
        (["Drama", None], "movies.parquet, row 2: movie 20 has an empty genre"),
        ([1, 2], "movies.parquet: the column genres holds int64, not text"),
    ],
)
def test_refusals_of_parquet_movies(genres: list[Any], message: str, tmp_path: Path) -> None:
    movies = parquet(movieId=[10, 20], genres=genres)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_release(written(tmp_path, files("parquet") | {"movies.parquet": movies}))


def test_a_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    contents = files("parquet")
    contents["ratings.parquet"] = contents["ratings.parquet"][:-100]
    with pytest.raises(ValueError, match=r"ratings\.parquet is not a whole Parquet file .*again"):
        read_release(written(tmp_path, contents))


@pytest.mark.parametrize("end", [50, 200_000, -30])
def test_a_truncated_zip_is_refused(end: int, tmp_path: Path) -> None:
    broken = tmp_path / "ml-test.zip"
    broken.write_bytes(embedded().read_bytes()[:end])
    with pytest.raises(ValueError, match=r"ml-test\.zip is not a whole zip file .*download it"):
        read_release(broken)


@pytest.mark.parametrize("at", [60, 5_000, 100_000, 600_000])
def test_a_corrupt_zip_is_refused_as_such(at: int, tmp_path: Path) -> None:
    """Wherever it is corrupt; wrong bytes must not be blamed on a line."""
    data = bytearray(embedded().read_bytes())
    begin = data.find(b"ml-latest-small/movies.csv")
    data[begin + at : begin + at + 8] = b"\x55" * 8
    broken = tmp_path / "ml-test.zip"
    broken.write_bytes(data)
    with pytest.raises(ValueError, match=r"ml-test\.zip is not a whole zip file .*download it"):
        read_release(broken)


@pytest.mark.parametrize("old", [b"1,10,4.0", b"7,10,5.0"])
@pytest.mark.parametrize("new", [b"7,10,4.5", b"x,yz,9.9"])
def test_a_wrong_checksum_comes_before_wrong_numbers(
    old: bytes, new: bytes, tmp_path: Path
) -> None:
    place = tmp_path / "ml-test.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files("csv").items():
            archive.writestr(name, data)
    place.write_bytes(place.read_bytes().replace(old, new))
    with pytest.raises(ValueError, match=r"ml-test\.zip is not a whole zip file .*CRC.*again"):
        read_release(place)


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no release at .*nowhere"):
        read_release(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"looked for ratings\.csv and movies\.csv.*found nothing"):
        read_release(tmp_path)
    csv = files("csv")
    only = written(tmp_path / "only", {"ratings.csv": csv["ratings.csv"], "tags.csv": b""})
    with pytest.raises(ValueError, match=r"found ratings\.csv, tags\.csv$"):
        read_release(only)
    with pytest.raises(ValueError, match=r"ratings\.csv is one file of a release; give its folder"):
        read_release(only / "ratings.csv")
    with pytest.raises(ValueError, match=r"found ml-test/tags\.csv$"):
        read_release(written(tmp_path / "tags.zip", {"tags.csv": b""}))


@pytest.mark.parametrize(
    ("place", "fix"), [("both", "give the folder of"), ("both.zip", "unpack it and give the")]
)
def test_two_releases_at_once_are_refused(place: str, fix: str, tmp_path: Path) -> None:
    contents = {f"{part}/{name}": d for part in "ab" for name, d in files("csv").items()}
    with pytest.raises(ValueError, match=rf"a/ratings\.csv, .*b/ratings\.csv; {fix}"):
        read_release(written(tmp_path / place, contents))
    contents = files("csv") | files("1m")
    with pytest.raises(ValueError, match=r"more than one release: .*ratings\.csv, .*ratings\.dat"):
        read_release(written(tmp_path / f"kinds-{place}", contents))


def test_a_zip_with_a_password_is_refused(tmp_path: Path) -> None:
    place = written(tmp_path / "ml-test.zip", files("csv"))
    data = bytearray(place.read_bytes())
    for mark, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(mark), bytes(data)):
            data[found.start() + flag] |= 1
    place.write_bytes(data)
    with pytest.raises(ValueError, match=r"cannot be read .*password.*unpack it"):
        read_release(place)

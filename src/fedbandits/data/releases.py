"""MovieLens ratings, read from an unchanged GroupLens release."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

RATINGS = ("userId", "movieId", "rating", "timestamp")
MOVIES = ("movieId", "genres")
LARGEST = {"userId": 2**31 - 1, "movieId": 2**31 - 1, "timestamp": 2**63 - 1}
KINDS = (".csv", ".dat", ".parquet")
BYTES_AT_ONCE = 4 << 20
"""Bytes of a text file parsed at once."""

Chunk = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


class Ratings(NamedTuple):
    """The ratings of one release in the order of its file, and the labels of the movies rated."""

    source: str
    """Name of the zip or folder."""
    user: npt.NDArray[np.int32]
    """`[M]`, ids as in the file."""
    movie: npt.NDArray[np.int32]
    """`[M]`, ids as in the file."""
    half_stars: npt.NDArray[np.uint8]
    """`[M]`, twice the rating: 1 to 10."""
    timestamp: npt.NDArray[np.int64]
    """`[M]`, seconds since 1970."""
    genres: dict[int, tuple[str, ...]]
    """Labels of every movie that was rated, by id in increasing order."""


def read_release(path: str | Path) -> Ratings:
    """Return the ratings and genres of a MovieLens release.

    Args:
        path: a zip as GroupLens ships it, or a folder with the files in it or in a subfolder:
            ratings and movies, both `.csv`, both `.dat` or both `.parquet`.

    Raises:
        ValueError: a file is damaged or holds what no release may hold; names the line or row.

    Example:
        >>> from fedbandits.data import embedded
        >>> ratings = read_release(embedded())
        >>> ratings.source, ratings.user.size, ratings.genres[1]
        ('ml-latest-small-2016-10.zip', 100004,
         ('Adventure', 'Animation', 'Children', 'Comedy', 'Fantasy'))
    """
    release = Path(path)
    file, movies = _find(release)
    labels = _labels(movies)
    user, movie, half_stars, timestamp = _columns(file)
    _refuse_repeated(file, user, movie)
    rated = np.unique(movie).tolist()
    unknown = [number for number in rated if number not in labels]
    if unknown:
        first = int(np.argmax(np.isin(movie, unknown)))
        raise ValueError(
            f"{_places(file, [first])[0]}: movie {movie[first]} is not in {movies}; take both "
            "files from the same release"
        )
    genres = {number: labels[number] for number in rated}
    # A link keeps its name; "." and ".." have none.
    source = release.name if release.name.strip(".") else release.resolve().name
    return Ratings(source, user, movie, half_stars, timestamp, genres)


@dataclass(frozen=True)
class _File:
    """One file of a release: in a folder, or inside a zip."""

    release: Path
    member: str

    def __str__(self) -> str:
        return str(self.release / self.member)

    @property
    def kind(self) -> str:
        return PurePosixPath(self.member).suffix

    @property
    def zipped(self) -> bool:
        return not self.release.is_dir()

    def place(self, number: int) -> str:
        return f"{self}, {'row' if self.kind == '.parquet' else 'line'} {number}"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        if self.zipped:
            with _archive(self.release) as archive, archive.open(self.member) as member:
                yield member
        else:
            with (self.release / self.member).open("rb") as file:
                yield file


@contextmanager
def _archive(path: Path) -> Iterator[Any]:
    """Open a zip; an error of a damaged zip names the file."""
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a whole zip file ({error}); download it again") from error
    except RuntimeError as error:  # a password, or a compression Python does not know
        raise ValueError(
            f"{path} cannot be read ({error}); unpack it and give the folder"
        ) from error


def _find(release: Path) -> tuple[_File, _File]:
    """Return the files with the ratings and the movies."""
    if release.is_dir():
        # What lies directly in the folder was meant, whatever else is kept in folders below.
        here = [entry.name for entry in release.iterdir() if entry.is_file()]
        below = [f"{p.parent.name}/{p.name}" for p in release.glob("*/*") if p.is_file()]
        pairs, found = _pairs(here) or _pairs(below), here + below
        fix = "give the folder of one of them"
    elif release.is_file():
        if release.suffix in KINDS:
            raise ValueError(f"{release} is one file of a release; give its folder")
        with _archive(release) as archive:
            found = [name for name in archive.namelist() if not name.endswith("/")]
        pairs = _pairs(found)
        fix = "unpack it and give the folder of one of them"
    else:
        raise FileNotFoundError(f"no release at {release}; it is a zip from GroupLens, or a folder")
    if not pairs:
        wanted = ", ".join(f"ratings{kind} and movies{kind}" for kind in KINDS)
        names = ", ".join(sorted(found)[:8]) + (", …" if len(found) > 8 else "")
        raise ValueError(
            f"{release} holds no release: looked for {wanted} together in one folder; found "
            f"{names or 'nothing'}"
        )
    if len(pairs) > 1:
        names = ", ".join(sorted(ratings for ratings, _ in pairs))
        raise ValueError(f"{release} holds more than one release: {names}; {fix}")
    return _File(release, pairs[0][0]), _File(release, pairs[0][1])


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of files with ratings and movies, of one kind and in one folder."""
    there = set(names)
    wanted = {f"ratings{kind}": f"movies{kind}" for kind in KINDS}
    paths = [PurePosixPath(name) for name in names if PurePosixPath(name).name in wanted]
    pairs = [(str(path), str(path.with_name(wanted[path.name]))) for path in paths]
    return [pair for pair in pairs if pair[1] in there]


def _labels(file: _File) -> dict[int, tuple[str, ...]]:
    """Return the genres of every movie, in the order of the file, each once."""
    labels: dict[int, tuple[str, ...]] = {}
    for number, (text, genres) in _rows(file, MOVIES):
        try:
            movie = _whole(text, "movieId")
        except ValueError as error:
            raise ValueError(f"{file.place(number)}: {error}") from None
        if movie in labels:
            raise ValueError(f"{file.place(number)}: movie {movie} is listed a second time")
        split = [label.strip() for label in genres.split("|")]
        if not all(split):
            raise ValueError(
                f"{file.place(number)}: movie {movie} has an empty genre in {genres!r}; a movie "
                "without one is marked (no genres listed)"
            )
        labels[movie] = tuple(dict.fromkeys(split))
    return labels


def _columns(file: _File) -> Chunk:
    """Return user, movie, half stars and timestamp of every rating."""
    import pyarrow as pa

    chunks: list[Chunk] = []
    good = 0
    cause: Exception | None = None
    try:
        for batch in _parquet(file, RATINGS) if file.kind == ".parquet" else _text(file):
            chunk = _numbers(batch)
            if chunk is None:
                break
            good += batch.num_rows
            chunks.append(chunk)
        else:
            if good:
                user, movie, half_stars, timestamp = map(np.concatenate, zip(*chunks, strict=True))
                return user, movie, half_stars, timestamp
    except pa.ArrowInvalid as error:
        cause = error
    raise _refusal(file, good, cause)


def _text(file: _File) -> Iterator[Any]:
    """Yield the ratings of a text file in Arrow batches, columns as in `RATINGS`."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {"userId": pa.int32(), "movieId": pa.int32()}
    types |= {"rating": pa.float64(), "timestamp": pa.int64()}
    if file.kind == ".csv":
        names, separator = _header(file, RATINGS)
    else:  # between the two colons of a separator lies a column that must be empty
        names, separator = ["userId", "1", "movieId", "2", "rating", "3", "timestamp"], ":"
        types |= dict.fromkeys("123", pa.null())
    with file.open() as stream:
        reader = arrow_csv.open_csv(
            pa.PythonFile(stream, "r"),
            arrow_csv.ReadOptions(
                column_names=names, skip_rows=int(file.kind == ".csv"), block_size=BYTES_AT_ONCE
            ),
            arrow_csv.ParseOptions(
                delimiter=separator, quote_char='"' if file.kind == ".csv" else False
            ),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[""]
            ),
        )
        with reader:
            yield from reader


def _parquet(file: _File, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the `columns` of a Parquet file in Arrow batches."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with file.open() as stream:
            # Parquet is read back and forth, which a member of a zip does only by starting over.
            table = parquet.ParquetFile(pa.BufferReader(stream.read()) if file.zipped else stream)
            schema = table.schema_arrow
            _refuse_columns(file, schema.names, columns)
            for name in columns:
                kind = schema.field(name).type
                text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
                numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
                if not (text if name == "genres" else numeric):
                    wanted = "text" if name == "genres" else "numbers"
                    raise ValueError(f"{file}: the column {name} holds {kind}, not {wanted}")
            for batch in table.iter_batches(columns=list(columns)):
                yield batch.select(list(columns))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{file} is not a whole Parquet file ({error}); download it again"
        ) from error


def _numbers(batch: Any) -> Chunk | None:
    """Return the first four columns of a batch; None if a number is missing or invalid."""
    import pyarrow as pa

    columns = batch.columns[:4]
    if any(column.null_count for column in columns):
        return None
    types = (pa.int32(), pa.int32(), pa.float64(), pa.int64())
    try:
        casts = [column.cast(kind) for column, kind in zip(columns, types, strict=True)]
    except pa.ArrowInvalid:
        return None
    user, movie, rating, timestamp = (column.to_numpy(zero_copy_only=False) for column in casts)
    half = 2 * rating
    allowed = (half >= 1) & (half <= 10) & (half == np.rint(half))  # NaN fails all three
    if not allowed.all() or any((ids < 0).any() for ids in (user, movie, timestamp)):
        return None
    return user, movie, half.astype(np.uint8), timestamp


def _refuse_repeated(
    file: _File, user: npt.NDArray[np.int32], movie: npt.NDArray[np.int32]
) -> None:
    pairs = user.astype(np.int64) << 32 | movie
    pairs.sort()
    if (pairs[1:] != pairs[:-1]).all():
        return
    order = np.lexsort((movie, user))  # stable: equal pairs stay in the file's order
    same = (np.diff(user[order]) == 0) & (np.diff(movie[order]) == 0)
    second = int(order[1:][same].min())
    first = int(np.argmax((user == user[second]) & (movie == movie[second])))
    earlier, later = _places(file, [first, second])
    raise ValueError(
        f"{later}: user {user[second]} rates movie {movie[second]} a second time; the first is in "
        f"{earlier.rpartition(', ')[2]}"
    )


def _refusal(file: _File, good: int, cause: Exception | None) -> ValueError:
    """Return the error of ratings whose first `good` rows are valid, found row by row."""
    if file.zipped:  # a damaged zip can look like wrong numbers; its end shows the damage
        with file.open() as stream:
            while stream.read(BYTES_AT_ONCE):
                pass
    index = -1
    for index, (number, row) in enumerate(_rows(file, RATINGS)):
        if index < good:
            continue
        try:
            for name, text in zip(RATINGS, row, strict=True):
                _half_stars(text) if name == "rating" else _whole(text, name)
        except ValueError as error:
            return ValueError(f"{file.place(number)}: {error}")
    if index < 0:
        return ValueError(f"{file} holds no ratings")
    return ValueError(f"{file} cannot be read: {cause}")


def _places(file: _File, rows: Sequence[int]) -> list[str]:
    """Return the places of the rows with these indices, in increasing order."""
    wanted = set(rows)
    found: list[str] = []
    for index, (number, _) in enumerate(_rows(file, RATINGS)):
        if index in wanted:
            found.append(file.place(number))
            if index == rows[-1]:
                break
    return found


def _whole(text: str, name: str) -> int:
    """Return an id or a timestamp."""
    number = int(text) if re.fullmatch(r"[0-9]{1,30}", text.strip()) else -1
    if not 0 <= number <= LARGEST[name]:
        raise ValueError(
            f"{name} is {text!r}, not a whole number from 0 to {LARGEST[name]}"
            if text
            else f"{name} is empty"
        )
    return number


def _half_stars(text: str) -> int:
    try:
        half = 2 * float(text)
    except ValueError:
        half = 0.0
    if half not in range(1, 11):  # NaN and 6.6 are in no range
        raise ValueError(
            f"rating is {text!r}; ratings are 0.5, 1, 1.5, … 5" if text else "rating is empty"
        )
    return int(half)


def _rows(file: _File, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each row; reject rows with too many or too few fields."""
    if file.kind == ".parquet":
        yield from _parquet_rows(file, columns)
        return
    with file.open() as stream:
        # Ratings are only ever read here to find a wrong row, and are long; movies are short.
        lines = (
            io.StringIO(_decoded(file, stream.read()), newline="")
            if columns is MOVIES
            else io.TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
        )
        yield from (_csv_rows if file.kind == ".csv" else _dat_rows)(file, lines, columns)


def _decoded(file: _File, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if file.kind == ".dat":  # the oldest releases
            return data.decode("latin-1")
        number = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file.place(number)}: byte {data[error.start]:#x} is not UTF-8; save the file as "
            "UTF-8, or download it again"
        ) from None


def _header(file: _File, columns: Sequence[str]) -> tuple[list[str], str]:
    """Return the names in the first line of a CSV file, and the separator."""
    with file.open() as stream:
        line = _decoded(file, stream.readline(1 << 16)).rstrip("\r\n")
    separator = ";" if line.count(";") > line.count(",") else ","
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator), [])]
    _refuse_columns(file, names, columns)
    return names, separator


def _refuse_columns(file: _File, names: Sequence[str], columns: Iterable[str]) -> None:
    for name in columns:
        if names.count(name) != 1:
            found = "no column" if name not in names else "more than one column"
            raise ValueError(
                f"{file} has {found} {name}; it needs {', '.join(columns)} and has "
                f"{', '.join(names)[:200] or 'no header'}"
            )


def _csv_rows(
    file: _File, lines: Iterable[str], columns: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    names, separator = _header(file, columns)
    chosen = [names.index(name) for name in columns]
    reader = csv.reader(lines, delimiter=separator, strict=True)
    next(reader)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ValueError(f"{file.place(number)}: {error}") from None
        if row is None:
            return
        if len(row) == len(names):
            yield number, [row[i] for i in chosen]
        elif row:  # an empty line does not count
            raise _width(file, number, len(row), len(names))


def _dat_rows(
    file: _File, lines: Iterable[str], columns: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        row = line.rstrip("\r\n").split("::")
        if columns is MOVIES and len(row) >= 3:
            # A title may hold colons, even at its end; genres hold none.
            yield number, [row[0], line.rstrip("\r\n").rpartition("::")[2]]
        elif columns is RATINGS and len(row) == 4:
            yield number, row
        elif row != [""]:
            raise _width(file, number, len(row), 3 if columns is MOVIES else 4)


def _parquet_rows(file: _File, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    number = 0
    for batch in _parquet(file, columns):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            number += 1
            yield number, [_written(value) for value in row]


def _written(value: float | str | None) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def _width(file: _File, number: int, found: int, expected: int) -> ValueError:
    fields = "field" if found == 1 else "fields"
    return ValueError(f"{file.place(number)}: {found} {fields}, not {expected}")

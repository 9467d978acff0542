"""One part of a reproduction as plain data: the terminal prints it and the report shows it."""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import fedbandits
from fedbandits.common.files import atomic_write, save_figure
from fedbandits.config.replacing import FIX
from fedbandits.data import default_release
from fedbandits.results.snapshots import write_netcdf

from .cells import cells_folder
from .digests import digests
from .pictures import Picture

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from fedbandits.results.result import Result

Item = TypeVar("Item")

FORMAT = 1
"""Version of the section files. Files of other versions are rejected."""


@dataclass(frozen=True)
class Options:
    """The options of `fedbandits reproduce`.

    Attributes:
        out: folder for the files written.
        runs: runs of each curve; each part has its own default.
        seed: of losses and agents.
        data: `embedded`, `generated` or a MovieLens release; for figure 2.
        quick: fewer runs and draws, to check that everything works.
        program: the command that takes these options.
        sources: folders with the code that it runs.
    """

    out: Path
    runs: int | None = None
    seed: int = 0
    data: str | None = None
    quick: bool = False

    program: ClassVar[tuple[str, ...]] = ("fedbandits", "reproduce")
    sources: ClassVar[tuple[Path, ...]] = (Path(fedbandits.__file__).parent,)

    def check(self, parts: Container[str]) -> None:
        """Reject data that no part uses or that does not exist."""
        if "figure2" in parts and self.data in (None, "embedded"):
            default_release()
        if self.data is None:
            return
        if "figure2" not in parts:
            raise ValueError(f"--data {self.data} is for figure2; leave it out")
        if self.data not in ("embedded", "generated") and not Path(self.data).exists():
            raise FileNotFoundError(
                f"--data {self.data}: neither embedded nor generated, and no file or folder"
            )

    def refuse_other(self, parts: Iterable[str]) -> None:
        """Reject parts that the folder already holds, made with other options."""
        for name in parts:
            path = self.out / f"{name}.json"
            if path.exists() and (there := load_section(path).command) != self.command(name):
                raise FileExistsError(f"{self.out} has {name} by `{there}`; {FIX}")

    def command(self, name: str) -> str:
        """Return the command that reproduces `name` with these options."""
        words = [*self.program, name]
        for option in ("runs", "seed", *(["data"] if name == "figure2" else [])):
            value = getattr(self, option)
            if value not in (None, 0):
                words += [f"--{option}", str(value)]
        return shlex.join(words + ["--quick"] * self.quick)

    def section(self, name: str, title: str, settings: dict[str, str]) -> Section:
        """Return a new section of the part `name`."""
        return Section(name, title, self.command(name), settings=settings)


@dataclass(frozen=True)
class Table:
    """A table, ready to show: every cell is text.

    Attributes:
        title: what it compares.
        columns: heads; the first column is text, the others are numbers.
        rows: cells, row by row.
        note: what to know when reading it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        items: Iterable[Item],
        columns: Sequence[tuple[str, Callable[[Item], str]]],
        note: str = "",
    ) -> Table:
        """Return a table with a row for each item and a column for each (head, function)."""
        rows = [tuple(cell(item) for _, cell in columns) for item in items]
        return cls(title, tuple(head for head, _ in columns), rows, note)


@dataclass
class Section:
    """One part: pictures, tables, settings and timings.

    Attributes:
        name: name of the part; its files start with it.
        title: headline.
        command: the command that reproduces it.
        paragraphs: method and findings, and differences from the paper.
        pictures: figures.
        tables: published against measured, and similar comparisons.
        settings: configuration and seeds, by name.
        seconds: wall time by step.
        versions: software and machine.
        draws: digests of the losses that seeds draw, by family; other digests make numbers old.
        resumed: whether an earlier run was stopped and this one continued it, so that `seconds`
            lacks the time of the earlier run.
        files: names of the files written.
    """

    name: str
    title: str
    command: str
    paragraphs: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    draws: dict[str, str] = field(default_factory=dict)
    resumed: bool = False
    files: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Count the wall time of the block under `step`."""
        began = perf_counter()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + perf_counter() - began

    def add_picture(self, out: Path, figure: Figure, picture: Picture) -> None:
        """Write a figure as PNG, PDF and SVG, and close it."""
        import matplotlib.pyplot as plt

        paths = [out / f"{picture.stem}{ending}" for ending in (".png", ".pdf", ".svg")]
        save_figure(figure, *paths)
        plt.close(figure)
        self.pictures.append(picture)
        self.files += [path.name for path in paths]

    def add_csv(self, out: Path, name: str, frame: pd.DataFrame) -> None:
        """Write a tidy table."""
        with atomic_write(out / name) as file:
            file.write(frame.to_csv(index=False).encode())
        self.files.append(name)

    def add_result(self, out: Path, stem: str, result: Result) -> None:
        """Write a result as NetCDF."""
        self.files.append(result.save(out / f"{stem}.nc").name)

    def add_netcdf(self, out: Path, stem: str, data: xr.Dataset) -> None:
        """Write a dataset as NetCDF."""
        write_netcdf(data, out / f"{stem}.nc")
        self.files.append(f"{stem}.nc")

    def save(self, out: Path) -> Path:
        """Write the section as JSON, so that a report can combine several."""
        self.versions = self.versions or versions()
        self.draws = self.draws or digests()
        target = out / f"{self.name}.json"
        with atomic_write(target) as file:
            file.write(json.dumps({"format": FORMAT} | asdict(self)).encode())
        return target


def run_part(name: str, play: Callable[[Options], Section], options: Options) -> Section:
    """Play one part and save its section, with all the time it took."""
    # Remove the old section first: a report must not pair old tables with new pictures.
    (options.out / f"{name}.json").unlink(missing_ok=True)
    kept, began = cells_folder(options, name).exists(), perf_counter()
    section = play(options)
    section.resumed = kept
    rest = perf_counter() - began - sum(section.seconds.values())
    section.seconds["reading, drawing and writing"] = rest
    if options.quick:
        section.title += " (quick)"
        warning = "Quick: few runs, to check that everything works. Not evidence."
        section.paragraphs.insert(0, warning)
    section.save(options.out)
    return section


def load_section(path: Path) -> Section:
    """Return the section in a file that `Section.save` wrote."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = data.pop("format", None)
        if found != FORMAT:
            raise ValueError(f"layout {found}; this version reads {FORMAT}")
        data["pictures"] = [Picture(*picture) for picture in data["pictures"]]
        data["tables"] = [Table(**table) for table in data["tables"]]
        return Section(**data)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a section of a report ({error}); remove it") from error


def versions() -> dict[str, str]:
    """Return the versions of packages and Python, the machine, the device and XLA's flags."""
    import jax

    packages = ("fedbandits", "jax", "numpy", "scipy", "xarray", "networkx", "matplotlib")
    kind = jax.devices()[0].device_kind
    facts = {name: str(import_module(name).__version__) for name in packages} | {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": f"{jax.device_count()} × {processor() if kind == 'cpu' else kind}",
    }
    # Flags select instructions, and instructions decide how sums are rounded.
    flags = os.environ.get("XLA_FLAGS")
    return facts | ({"XLA_FLAGS": flags} if flags else {})


def processor() -> str:
    """Return the name of the CPU, or its architecture if the system does not report a name."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()

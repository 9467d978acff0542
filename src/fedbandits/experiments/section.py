"""One part of the reproduction as plain data: what the terminal prints and the report shows."""

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
from typing import TYPE_CHECKING, Any, NamedTuple

from fedbandits.common.files import atomic_write, save_figure
from fedbandits.config.replacing import FIX
from fedbandits.data import default_release
from fedbandits.results.snapshots import write_netcdf

from .drawn import digests

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

    from fedbandits.results.result import Result

FORMAT = 1
"""Version of the section files. A file of another version is refused, never misread."""


@dataclass(frozen=True)
class Options:
    """What `fedbandits reproduce` was asked for.

    Attributes:
        out: folder for the files written.
        runs: runs of each curve; each experiment has its own default.
        seed: of losses and agents.
        data: `embedded`, `generated` or a MovieLens release; for figure 2.
        quick: fewer runs and draws, to see that everything works.
    """

    out: Path
    runs: int | None = None
    seed: int = 0
    data: str | None = None
    quick: bool = False

    def check(self, parts: Container[str]) -> None:
        """Refuse data that no part uses or that is not there."""
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
        """Refuse parts that are there already and were done with other options."""
        for name in parts:
            path = self.out / f"{name}.json"
            if path.exists() and (there := load_section(path).command) != self.command(name):
                raise FileExistsError(f"{self.out} has {name} by `{there}`; {FIX}")

    def command(self, name: str) -> str:
        """The command that reproduces `name` with these options."""
        words = ["fedbandits", "reproduce", name]
        for option in ("runs", "seed", *(["data"] if name == "figure2" else [])):
            value = getattr(self, option)
            if value not in (None, 0):
                words += [f"--{option}", str(value)]
        return shlex.join(words + ["--quick"] * self.quick)


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


class Picture(NamedTuple):
    """A figure by the stem of its files: `.png`, `.pdf` and `.svg` lie in the same folder.

    Attributes:
        stem: file name without ending.
        caption: what it shows, in the words of the paper's caption where it has one.
        alt: the same for someone who cannot see it.
    """

    stem: str
    caption: str
    alt: str


@dataclass
class Section:
    """One figure of the paper: pictures, tables, settings, and how long it took.

    Attributes:
        name: as in `fedbandits reproduce NAME`; its files start with it.
        title: headline.
        command: what reproduces it.
        paragraphs: what was done and found, and where it disagrees with the paper.
        pictures: figures.
        tables: published against measured, and the like.
        settings: configuration and seeds, by name.
        seconds: wall time by step.
        versions: software and machine.
        draws: digests of what seeds draw, by family of losses: numbers of other draws are old.
        resumed: whether some of it was played before, by a run that was stopped: `seconds` are then
            not all it took.
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
        """Counts the block's wall time under `step`."""
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
        """Write a dataset of its own shape as NetCDF."""
        write_netcdf(data, out / f"{stem}.nc")
        self.files.append(f"{stem}.nc")

    def save(self, out: Path) -> Path:
        """Write the section beside its files, so that a report can be made of several."""
        self.versions = self.versions or versions()
        self.draws = self.draws or digests()
        target = out / f"{self.name}.json"
        with atomic_write(target) as file:
            file.write(json.dumps({"format": FORMAT} | asdict(self)).encode())
        return target


def run_part(name: str, play: Callable[[Options], Section], options: Options) -> Section:
    """Play one part and save it; all of its time is counted."""
    from .kept_cells import cells_folder

    # Until it is done there is no section: a report must not pair old tables with new pictures.
    (options.out / f"{name}.json").unlink(missing_ok=True)
    kept, began = cells_folder(options, name).exists(), perf_counter()
    section = play(options)
    section.resumed = kept
    rest = perf_counter() - began - sum(section.seconds.values())
    section.seconds["reading, drawing and writing"] = rest
    if options.quick:
        section.title += " (quick)"
        section.paragraphs.insert(0, "Quick: few runs, to see that everything works. Not evidence.")
    section.save(options.out)
    return section


def load_section(path: Path) -> Section:
    """A section from the file that `Section.save` wrote."""
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
    """What the numbers were computed with: packages, Python, machine, device, and XLA's flags."""
    import jax

    packages = ("fedbandits", "jax", "numpy", "scipy", "xarray", "networkx", "matplotlib")
    kind = jax.devices()[0].device_kind
    facts = {name: str(import_module(name).__version__) for name in packages} | {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": f"{jax.device_count()} × {processor() if kind == 'cpu' else kind}",
    }
    # Other instructions round otherwise: flags may move the last digits.
    flags = os.environ.get("XLA_FLAGS")
    return facts | ({"XLA_FLAGS": flags} if flags else {})


def processor() -> str:
    """The name of the CPU, or of its kind where the system does not say more."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()

"""The command line: arguments and what is printed; the work is done elsewhere."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedbandits import config
from fedbandits.common import checks, extras, interrupts
from fedbandits.common.files import atomic_write
from fedbandits.common.folders import data_folder
from fedbandits.common.version import __version__
from fedbandits.config import catalogue
from fedbandits.config.replacing import refuse_other
from fedbandits.engine.compile_cache import keep_compiled_programs

from . import tables
from .doctor import doctor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console

    from fedbandits.results.result import Result


def _say(text: str, style: str = "", *, err: bool = False) -> None:
    """One line, never wrapped and never read as markup: file names and [sections] stay whole."""
    _console(err=err).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _console(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err)


class _Lines(logging.Handler):
    """What the library has to say, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage(), err=True)


class _Commands(TyperGroup):
    """Turns errors and warnings into one line each, Ctrl-C and SIGTERM into a calm end."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings(), interrupts.command():
            warnings.showwarning = _show_warning
            try:
                done = super().invoke(ctx)
                interrupts.stop_if_requested()  # what was swallowed on the way
                return done
            except KeyboardInterrupt as stop:
                _say(str(stop) or "stopped", "yellow", err=True)
                raise typer.Exit(interrupts.exit_status()) from stop
            except (ValueError, OSError) as error:
                if isinstance(error, OSError) and error.errno == errno.EPIPE:
                    raise  # the reader of a pipe went away, as in `fedbandits list | head`
                _say(f"error: {_one_line(error)}", "red", err=True)
                raise typer.Exit(2) from error
            except (MemoryError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
                    raise  # not JAX's way to say the same
                _say(f"error: out of memory: {_one_line(error)}", "red", err=True)
                raise typer.Exit(2) from error
            except ImportError as error:
                if not interrupts.requested():
                    if (missing := extras.advice(error)) is None:
                        raise
                    _say(f"error: {missing}", "red", err=True)
                    raise typer.Exit(2) from error
                # An import that was interrupted may fail in words of its own.
                _say(f"stopped ({_one_line(error)})", "yellow", err=True)
                raise typer.Exit(interrupts.exit_status()) from error


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {_one_line(message)}", "yellow", err=True)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


data_app = typer.Typer(no_args_is_help=True)
app.add_typer(data_app, name="data", help="Fetch the data that figure 2 can use.")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedbandits {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Federated adversarial bandits: simulate, look at networks, reproduce the paper."""
    logger = logging.getLogger("fedbandits")
    logger.setLevel(logging.INFO)
    logger.handlers = [_Lines()]
    os.environ.setdefault("MPLBACKEND", "agg")  # figures go to files; no window is wanted
    keep_compiled_programs()


Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to simulate.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key; may be repeated."),
]
Out = Annotated[Path, typer.Option("--out", help="Folder for the files written.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]


@app.command()
def run(
    file: Config,
    changes: Changes = None,
    out: Out = Path("out"),
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder from which an interrupted run goes on.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Play a sweep on this Dask scheduler's workers."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Play a sweep in so many processes of this machine.")
    ] = 1,
    force: Force = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be played and for how long.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the files written.")] = False,
) -> None:
    """Simulate what a configuration file describes: one experiment, or a sweep over many.

    Writes the result (.nc) and a plot of the regret (.png, .pdf), named after the file. A sweep, a
    file with lists of values, has a folder of that name; what is there already is not played again.
    A result of another configuration is replaced with --force only; with it a sweep is played anew.

    Ctrl-C or SIGTERM stops after the chunk of rounds under way, a second one at once.

    \b
    Examples:
      fedbandits run examples/grid.toml
      fedbandits run grid.toml --set runs=20 --out more_runs
      fedbandits run grid.toml --set algorithm.exploration.c=0.02 --force
      fedbandits run grid.toml --set 'network={name = "ring", agents = 36}' --out ring
      fedbandits run grid.toml --set 'algorithm.learning_rate=[0.03, 0.1, 0.3]'
      fedbandits run examples/sweep.toml --dry-run
      fedbandits run examples/sweep.toml --jobs 4
      fedbandits run examples/sweep.toml --scheduler tcp://127.0.0.1:8786
    """  # noqa: D301
    from fedbandits.config.grammar import expand

    if quiet:
        logging.getLogger("fedbandits").setLevel(logging.WARNING)
    if dry_run:
        _estimate(file, changes, out, force)
        return
    if expand(config.read_config(file, changes or ()), str(file)).axes:
        if checkpoint is not None:
            raise ValueError("a sweep keeps every finished cell without --checkpoint; leave it out")
        _run_sweep(file, changes, out, scheduler, jobs, force, quiet)
        return
    if scheduler is not None or jobs > 1:
        raise ValueError(
            f"--scheduler and --jobs are for sweeps, and {file} has no list of values; leave them "
            "out"
        )
    experiment = config.load_config(file, changes or ())
    written = [out / f"{file.stem}{ending}" for ending in (".nc", ".png", ".pdf")]
    # What can be refused is refused before the run rather than after it.
    if not force:
        refuse_other(written, experiment)
    _make_folder(out)
    try:
        result = experiment.simulate(checkpoint=checkpoint, progress=False if quiet else None)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            _how_to_resume(stop, file, changes, out, checkpoint, force)
        ) from stop
    with interrupts.calm():  # what has been played is written
        if not quiet:
            _console().print(tables.summary_table(result))
            _say(tables.communication_line(result))
            _say(tables.recommendation_line(result))
        result.save(written[0])
        _save_plot(result.plot(), *written[1:])
        _say_written(written, quiet)


def _estimate(file: Path, changes: list[str] | None, out: Path, force: bool) -> None:
    from fedbandits.sweeps.estimate import estimate
    from fedbandits.sweeps.plan import make_plan

    plan = make_plan(file, changes or ())
    with _console(err=True).status("playing a few rounds of each kind of batch"):
        found = estimate(plan, out / file.stem, force=force)
    if plan.sweep.axes and found.missing:
        console = _console()
        console.print(
            tables.cell_table("cells to play", found.manifest, found.missing, console.width)
        )
    _say(str(found))


def _run_sweep(
    file: Path,
    changes: list[str] | None,
    out: Path,
    scheduler: str | None,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    from fedbandits.sweeps import store
    from fedbandits.sweeps.plan import make_plan
    from fedbandits.sweeps.run import run_sweep

    if scheduler is not None and jobs > 1:
        raise ValueError("--jobs is for this machine, --scheduler for a cluster; leave one out")
    folder = out / file.stem
    more = ["--scheduler", scheduler] if scheduler else ["--jobs", str(jobs)] if jobs > 1 else []
    command = _run_command(file, changes, out, more)
    said = run_sweep(
        make_plan(file, changes or ()),
        folder,
        command,
        force=force,
        scheduler=scheduler,
        jobs=jobs,
        progress=False if quiet else None,
    )
    if not quiet:
        # Each cell that failed was named when it did.
        shown = said._replace(failed=[])
        console, manifest = _console(), store.read_manifest(folder)
        for table in tables.sweep_tables(folder, manifest, shown, console.width):
            console.print(table)
    _say_written([folder], quiet)
    if said.failed:
        again = "the same command tries again"
        _say(f"{tables.counted(len(said.failed), 'cell')} failed; {again}", "red", err=True)
        raise typer.Exit(1)


@app.command()
def results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What a sweep wrote.")],
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all cells into this file; - prints them instead."),
    ] = None,
) -> None:
    """Which cells of a sweep are done, failed and missing, and the command that plays the rest.

    \b
    Examples:
      fedbandits results out/sweep
      fedbandits results out/sweep --csv cells.csv
    """  # noqa: D301
    from fedbandits.sweeps import listing, store

    manifest = store.read_manifest(folder)
    said = store.status(folder, manifest)
    if csv == Path("-"):
        typer.echo(listing.as_csv(folder, manifest, said), nl=False)
        return
    console = _console()
    for table in tables.sweep_tables(folder, manifest, said, console.width):
        console.print(table)
    for path, fault in said.damaged:
        _say(f"{path} {fault}; its cell counts as missing", "yellow")
    _say(tables.sweep_line(folder, said))
    if said.others:
        more = "1 more result is" if said.others == 1 else f"{said.others} more results are"
        _say(f"{more} of cells that are no longer in the sweep")
    if said.failed or said.missing:
        _say(f"to play the rest: {store.shown_command(manifest, folder)}")
    if csv is not None:
        with atomic_write(csv) as file:
            file.write(listing.as_csv(folder, manifest, said).encode())
        _say_written([csv])


@app.command()
def tune(
    file: Config,
    changes: Changes = None,
    budget: Annotated[int, typer.Option(min=2, help="The most candidates.")] = 25,
    runs: Annotated[int | None, typer.Option(min=1, help="Of each candidate and draw.")] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="KNOB=LOW:HIGH", help="Where to look; may be repeated."),
    ] = None,
    out: Out = Path("out"),
    force: Force = False,
) -> None:
    """Search learning rate, exploration and block length on some seeds; report on fresh ones.

    Writes a configuration with the setting that wins (.tuned.toml), tables (.csv), a result (.nc).

    \b
    Examples:
      fedbandits tune examples/grid.toml
      fedbandits tune grid.toml --budget 50 --range learning_rate=0.1:30
    """  # noqa: D301
    from fedbandits.tuning.files import request

    asked = request(file, changes or (), out=out, ranges=ranges or (), force=force)
    _make_folder(out)
    found = asked.tune(budget, runs)
    tables.print_tuning(found, _console())
    _say_written(list(found.files))


@app.command()
def bounds(
    file: Config,
    changes: Changes = None,
) -> None:
    """Simulate a configuration and print the paper's bounds beside the measured regret.

    \b
    Examples:
      fedbandits bounds examples/grid.toml
      fedbandits bounds grid.toml --set problem.arms=2 --set problem.horizon=30000
    """  # noqa: D301
    experiment = config.load_config(file, changes or ())
    if experiment.gossip is None:
        raise config.ConfigError(f"{file}: bounds need a [network] and a [gossip]; add them")
    _console().print(tables.bounds_table(experiment.simulate()))


@app.command()
def network(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="NAME:VALUES or a .graphml file.")],
    picture: Annotated[
        Path | None, typer.Option(help="Draw the network into this file (.png, .pdf, .svg).")
    ] = None,
    horizon: Annotated[
        int, typer.Option(min=1, max=checks.ROUNDS, help="T, which C_W depends on.")
    ] = 3000,
    fastest: Annotated[
        bool, typer.Option("--fastest", help="Also the fastest gossip, which takes a solver.")
    ] = False,
) -> None:
    """Size, degrees, diameter of a network, and how fast gossip mixes on it.

    \b
    Examples:
      fedbandits network grid:6,6
      fedbandits network random_geometric:36,0.5,seed=0 --picture rgg.png
      fedbandits network friends.graphml --fastest
    """  # noqa: D301
    graph = config.parse_network(spec)
    with _console(err=True).status("distances and eigenvalues (minutes for a million agents)"):
        shown: list[Any] = [tables.network_table(graph, spec)]
        if graph.connected:
            shown.append(tables.gossip_table(graph, horizon, fastest))
    for table in shown:
        _console().print(table)
    if not graph.connected:
        _say(
            "no gossip: information cannot reach everyone; add edges until it is connected",
            "yellow",
        )
    if picture is None:
        _say("for a picture: --picture FILE.png")
    else:
        _save_plot(graph.draw(), picture)
        _say_written([picture])


@app.command(name="list")
def list_() -> None:
    """Everything a configuration file can name, with parameters and defaults.

    \b
    Example:
      fedbandits list
    """  # noqa: D301
    for section in catalogue.REGISTRIES:
        tables.print_catalogue(section, _console())
    _console().print(
        "What leaves an agent is a declaration, not a privacy guarantee: neighbours can "
        "reconstruct arms and losses from estimates.",
        style="yellow",
    )


@app.command()
def plot(
    files: Annotated[
        list[Path], typer.Argument(metavar="RESULT.nc|DIR", help="Saved results, and sweeps.")
    ],
    out: Annotated[Path, typer.Option(help="The figure to write (.pdf, .png, .svg).")] = Path(
        "out/regret.pdf"
    ),
    label: Annotated[
        list[str] | None, typer.Option(help="Name of a curve: one per result, in their order.")
    ] = None,
) -> None:
    """Draw the regret of several results into one figure.

    Without labels, results of one algorithm are told apart by what differs in their configurations.
    The folder of a sweep stands for all its cells that are done, named by their values.

    \b
    Examples:
      fedbandits plot out/grid.nc out/ring.nc --label grid --label ring
      fedbandits plot out/sweep
    """  # noqa: D301
    from fedbandits.results.comparison import named
    from fedbandits.results.plots import plot_regret
    from fedbandits.results.result import load
    from fedbandits.sweeps.listing import curves

    shown = curves(files)
    results = [load(file) for file, _ in shown]
    _save_plot(plot_regret(named(results, label or _labels(shown, results))), out)
    _say_written([out])


@data_app.command("movielens")
def fetch_movielens(
    release: Annotated[
        str, typer.Argument(help="ml-latest, ml-latest-small, ml-32m, ml-25m, ml-20m, ...")
    ] = "ml-latest",
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the zip goes; your data folder, which fedbandits doctor names."),
    ] = None,
) -> None:
    """Download a MovieLens release from GroupLens; an interrupted download goes on.

    The releases are for research, not for revenue; each says so in its README.

    \b
    Examples:
      fedbandits data movielens ml-latest-small
      fedbandits data movielens ml-latest --folder data
      fedbandits reproduce figure2 --data data/ml-latest.zip
    """  # noqa: D301
    from fedbandits.data.download import download

    file = download(release, folder or data_folder())
    _say(f"to use it: {shlex.join(['fedbandits', 'reproduce', 'figure2', '--data', str(file)])}")


@app.command()
def reproduce(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="PART",
            help="figure1, figure2 or theory; default: these three. Beyond the paper, in minutes "
            "each: suite, leaderboard, horizons, linear.",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Runs of each curve.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=10_000_000, help="Of losses and agents.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the files written; out, or out/quick if --quick."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="For figure 2: embedded (default), generated at the paper's full size, or a "
            "MovieLens release (.zip or folder)."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few runs, to see that everything works.")
    ] = False,
    force: Force = False,
) -> None:
    """Compute the paper's figures anew and set them beside the published ones.

    Writes figures, tables and results, and a report of all parts found in the folder. A part that
    was done with other options is replaced with --force only.

    \b
    Examples:
      fedbandits reproduce
      fedbandits reproduce figure1 --runs 100
      fedbandits reproduce figure2 --data ml-latest.zip
    """  # noqa: D301
    from fedbandits.experiments import BEYOND, REGISTRY, Options, run_part
    from fedbandits.experiments.report import write_report

    out = out or (Path("out/quick") if quick else Path("out"))
    options = Options(out, runs, seed, data, quick)
    chosen = config.choose(REGISTRY, "theory" if what == "figure3" else what)
    if what is None:
        chosen = {name: part for name, part in chosen.items() if name not in BEYOND}
    # What can be refused is refused before the runs rather than after them.
    options.check(chosen)
    if not force:
        options.refuse_other(chosen)
    _make_folder(out)
    for name, experiment in chosen.items():
        try:
            section = run_part(name, experiment, options)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"stopped in {name}, which starts anew next time; parts done are kept in {out}"
            ) from stop
        for table in section.tables:
            _console().print(tables.section_table(table))
        for paragraph in section.paragraphs:
            _console().print(paragraph, markup=False, highlight=False)
        _say(f"{name}: {sum(section.seconds.values()):.0f} s, written to {out}/", "dim")
        report = write_report(out, list(REGISTRY))
    _say_written([report])


app.command()(doctor)


def _how_to_resume(
    stop: KeyboardInterrupt,
    file: Path,
    changes: list[str] | None,
    out: Path,
    checkpoint: Path | None,
    force: bool,
) -> str:
    stopped = str(stop) or "stopped"
    if checkpoint is None:
        return f"{stopped}; nothing is kept without --checkpoint FOLDER"
    more = ["--checkpoint", str(checkpoint), *(["--force"] if force else [])]
    command = _run_command(file, changes, out, more)
    return f"{stopped}; to go on from there: {shlex.join(command)}"


def _run_command(file: Path, changes: list[str] | None, out: Path, more: list[str]) -> list[str]:
    """What the user may type to go on."""
    changed = [word for change in changes or () for word in ("--set", change)]
    return ["fedbandits", "run", str(file), *changed, "--out", str(out), *more]


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {out} cannot be made ({error.strerror or error}); choose another --out"
        ) from error


def _save_plot(ax: Axes, *paths: Path) -> None:
    import matplotlib.pyplot as plt

    from fedbandits.results.plots import figure_of, save_figure

    figure = figure_of(ax)
    try:
        save_figure(figure, *paths)
    finally:
        plt.close(figure)


def _say_written(paths: list[Path], quiet: bool = False) -> None:
    for path in paths:
        _say(str(path) if quiet else f"wrote {path}")


def _labels(shown: list[tuple[Path, str]], results: list[Result]) -> list[str]:
    """Cells of a sweep by their values, other results by what tells them apart."""
    from fedbandits.results.comparison import named

    both = list(zip(shown, results, strict=True))
    others = [(file.stem, result) for (file, name), result in both if not name]
    if not others:
        return [name for _, name in shown]
    told = iter(named([result for _, result in others], None, [stem for stem, _ in others]))
    return [name or next(told) for _, name in shown]

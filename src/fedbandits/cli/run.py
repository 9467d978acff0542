"""`fedbandits run`: one experiment, or a sweep over many."""

from __future__ import annotations

import logging
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits import config
from fedbandits.common import interrupts
from fedbandits.config.replacing import refuse_other

from . import messages, tables
from .messages import say, say_written, terminal
from .options import Changes, Config, Force, Out

if TYPE_CHECKING:
    from fedbandits.results.result import Result


def run(
    file: Config,
    changes: Changes = None,
    out: Out = Path("out"),
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder from which an interrupted run resumes.")
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
    """Simulate the experiment or the sweep of a configuration file.

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
    if quiet:
        logging.getLogger("fedbandits").setLevel(logging.WARNING)
    document = config.read_document(file, changes or ())
    if dry_run:
        _estimate(document, out, force)
        return
    if document.sweep.axes:
        if checkpoint is not None:
            raise ValueError("a sweep keeps every finished cell without --checkpoint; leave it out")
        _run_sweep(document, out, scheduler, jobs, force, quiet)
        return
    if scheduler is not None or jobs > 1:
        raise ValueError(
            f"--scheduler and --jobs are for sweeps, and {file} has no list of values; leave them "
            "out"
        )
    experiment = document.experiment()
    written = [out / f"{file.stem}{ending}" for ending in (".nc", ".png", ".pdf")]
    # What can be refused is refused before the run rather than after it.
    if not force:
        refuse_other(written, experiment)
    messages.make_folder(out)
    try:
        result = experiment.simulate(checkpoint=checkpoint, progress=False if quiet else None)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            _how_to_resume(stop, file, changes, out, checkpoint, force)
        ) from stop
    with interrupts.calm():  # what has been played is written
        if not quiet:
            terminal().print(tables.summary_table(result))
            say(tables.communication_line(result))
            if result.guarantee is not None:
                say(f"privacy: {result.guarantee}")
            say(tables.recommendation_line(result))
            if result.lies:
                say(result.lies)
        _save(result, written[0])
        messages.save_plot(result.plot(), *written[1:])
        say_written(written, quiet)


def _save(result: Result, path: Path) -> None:
    """Save a result; if its folder is full, save it as a temporary file and raise an error."""
    try:
        result.save(path)
    except OSError as error:
        with suppress(OSError):
            spare = result.save(Path(tempfile.mkdtemp(prefix="fedbandits-"), path.name))
            error.add_note(f"the result is in {spare}; move it to keep it")
        raise


def _estimate(document: config.Document, out: Path, force: bool) -> None:
    from fedbandits.sweeps.estimate import estimate
    from fedbandits.sweeps.plan import plan_of

    plan = plan_of(document)
    with terminal(err=True).status("playing a few rounds of each kind of batch"):
        found = estimate(plan, out / document.source.stem, force=force)
    if plan.sweep.axes and found.missing:
        console = terminal()
        console.print(
            tables.cell_table("cells to play", found.manifest, found.missing, console.width)
        )
    say(str(found))


def _run_sweep(
    document: config.Document,
    out: Path,
    scheduler: str | None,
    jobs: int,
    force: bool,
    quiet: bool,
) -> None:
    from fedbandits.sweeps import store
    from fedbandits.sweeps.plan import plan_of
    from fedbandits.sweeps.run import run_sweep

    if scheduler is not None and jobs > 1:
        raise ValueError("--jobs is for this machine, --scheduler for a cluster; leave one out")
    folder = out / document.source.stem
    more = ["--scheduler", scheduler] if scheduler else ["--jobs", str(jobs)] if jobs > 1 else []
    command = _run_command(document.source, document.overrides, out, more)
    status = run_sweep(
        plan_of(document),
        folder,
        command,
        force=force,
        scheduler=scheduler,
        jobs=jobs,
        progress=False if quiet else None,
    )
    if not quiet:
        # Each cell that failed was named when it did.
        shown = status._replace(failed=[])
        console, manifest = terminal(), store.read_manifest(folder)
        for table in tables.sweep_tables(folder, manifest, shown, console.width):
            console.print(table)
        for line in tables.sweep_privacy(manifest):
            say(line)
    say_written([folder], quiet)
    if status.failed:
        again = "the same command tries again"
        say(f"{tables.counted(len(status.failed), 'cell')} failed; {again}", "red", err=True)
        raise typer.Exit(1)


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
    command = _run_command(file, changes or (), out, more)
    return f"{stopped}; to go on from there: {shlex.join(command)}"


def _run_command(file: Path, changes: Sequence[str], out: Path, more: list[str]) -> list[str]:
    """Return the command that goes on."""
    changed = [word for change in changes for word in ("--set", change)]
    return ["fedbandits", "run", str(file), *changed, "--out", str(out), *more]

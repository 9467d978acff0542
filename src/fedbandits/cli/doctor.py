"""`fedbandits doctor`: what is installed, what is missing for what, devices and folders."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbandits import config
from fedbandits.common import extras
from fedbandits.common.files import data_folder
from fedbandits.common.version import __version__
from fedbandits.data import default_release

from .messages import one_line, say, terminal
from .options import Changes
from .tables import counted

if TYPE_CHECKING:
    from rich.table import Table


def doctor(
    file: Annotated[
        Path | None, typer.Argument(help="Configuration file: say how it would be played.")
    ] = None,
    changes: Changes = None,
) -> None:
    """Print packages and devices, or how a file would be played.

    \b
    Example:
      fedbandits doctor
      fedbandits doctor examples/grid.toml
    """  # noqa: D301
    if file is not None:
        for line in how_played(file, changes or ()):
            say(line)
        return
    terminal().print(packages_table())
    for line in lines():
        say(line)


def how_played(file: Path, changes: Sequence[str]) -> list[str]:
    """Return which executor plays each group of a file, and why no faster one does."""
    from fedbandits.engine.preparation import precision, prepare
    from fedbandits.simulation.options import Options
    from fedbandits.sweeps.plan import plan_of

    plan = plan_of(config.read_document(file, changes))
    found: dict[str, None] = {}
    for number in range(len(plan.batches)):
        cells = plan.workshop(plan.parcel(number))
        simulations = [cell.simulation.draw(0) for cell in cells]
        with precision(simulations[0].dtype):
            group = prepare(simulations, Options(record=cells[0].record))
        where = ", ".join(f"{count} over {axis}" for axis, count in group.where.mesh.shape.items())
        name, platform = type(group.algorithm).__name__, group.where.platform
        size = counted(len(cells), "simulation")
        found[f"{name}, {size} in one program on {platform} ({where}): {group.choice}"] = None
    return list(found)


def packages_table() -> Table:
    """Return a table of all packages with their versions, extras and purposes."""
    from rich import box
    from rich.table import Table

    table = Table("package", "version", "extra", "needed for", box=box.SIMPLE_HEAD)
    for package in extras.PACKAGES:
        found = extras.version(package.installed_as or package.name)
        table.add_row(
            package.name, found or "missing", package.extra or "-", package.needed_for,
            style="" if found else "yellow",
        )  # fmt: skip
    return table


def lines() -> list[str]:
    """Return the lines below the table."""
    devices, programs = _of_jax()
    return [
        *(_missing() or ["nothing is missing"]),
        f"fedbandits {__version__}: {Path(__file__).parents[1]}",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"JAX devices: {devices}",
        f"compiled programs: {programs}",
        f"data: {_or_why_not(data_folder)}",
        f"ratings: {_or_why_not(default_release)}",
    ]


def _missing() -> list[str]:
    """Return the command that installs each incomplete extra."""
    missing: dict[str, list[str]] = {}
    for package in extras.PACKAGES:
        if extras.version(package.installed_as or package.name) is None:
            missing.setdefault(package.extra, []).append(package.name)
    return [
        f"missing: {', '.join(names)}; to get {'it' if len(names) == 1 else 'them'}: "
        f"{extras.install_command(extra)}"
        for extra, names in missing.items()
    ]


def _of_jax() -> tuple[str, str]:
    """Return the devices of JAX, and the folder of its compiled programs."""
    try:
        import jax  # noqa: F401
    # Not installed, does not fit jaxlib, or refuses what a variable has.
    except (ImportError, RuntimeError, ValueError) as error:
        return f"none ({one_line(error)})", "are not kept"
    return _devices(), _programs()


def _devices() -> str:
    import jax

    from fedbandits.engine.devices import one_per_core

    try:
        one_per_core()  # as `simulate` has it
        kinds = [f"{device.platform} {device.device_kind}" for device in jax.devices()]
    except RuntimeError as error:  # it may be installed and not start
        return f"none ({one_line(error)})"
    return ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))


def _programs() -> str:
    from fedbandits.engine.compile_cache import kept_in

    try:
        return kept_in() or "are not kept"
    except ValueError as error:
        return one_line(error)


def _or_why_not(find: Callable[[], Path]) -> str:
    try:
        return str(find())
    except OSError as error:
        return str(error)

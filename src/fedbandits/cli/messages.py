"""Lines that commands print, and the folders and figures that they write."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console


def say(text: str, style: str = "", *, err: bool = False) -> None:
    """Print one line without wrapping and without markup: file names and [sections] stay whole."""
    terminal(err=err).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def terminal(*, err: bool = False) -> Console:
    """Return standard output or standard error as a terminal of its current width."""
    from rich.console import Console

    # Names in files are not markup, and `ring:a:` is not an emoji.
    return Console(stderr=err, markup=False, emoji=False)


def say_written(paths: list[Path], quiet: bool = False) -> None:
    """Print the names of the files written."""
    for path in paths:
        say(str(path) if quiet else f"wrote {path}")


def one_line(message: object) -> str:
    """Return a message without its line breaks."""
    return " ".join(str(message).split())


def in_words(error: Exception) -> str:
    """Return an error's message in one line; an `OSError` starts with its file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(error)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line, in place of `warnings.showwarning`."""
    say(f"warning: {one_line(message)}", "yellow", err=True)


class Lines(logging.Handler):
    """A handler that prints each log record in a line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        say(record.getMessage(), err=True)


def make_folder(out: Path) -> None:
    """Make the folder of --out."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"the folder {out} cannot be made ({error.strerror or error}); choose another --out"
        ) from error


def save_plot(ax: Axes, *paths: Path) -> None:
    """Save the figure of these axes, and close it."""
    from fedbandits.common.files import save_figure
    from fedbandits.results.plots import figure_of

    try:
        save_figure(figure_of(ax), *paths)
    finally:
        close_plot(ax)


def close_plot(ax: Axes) -> None:
    """Close the figure of these axes."""
    import matplotlib.pyplot as plt

    from fedbandits.results.plots import figure_of

    plt.close(figure_of(ax))

"""What is printed: a line at a time, never wrapped, never read as markup."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str, style: str = "", *, err: bool = False) -> None:
    """One line, never wrapped and never read as markup: file names and [sections] stay whole."""
    terminal(err=err).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def terminal(*, err: bool = False) -> Console:
    """Standard output, or standard error, as wide as it is now."""
    from rich.console import Console

    # Names in files are not markup, and `ring:a:` is not an emoji.
    return Console(stderr=err, markup=False, emoji=False)


def say_written(paths: list[Path], quiet: bool = False) -> None:
    """Name the files written; if quiet, nothing but their names."""
    for path in paths:
        say(str(path) if quiet else f"wrote {path}")


def one_line(message: object) -> str:
    """A message without its line breaks."""
    return " ".join(str(message).split())


def in_words(error: Exception) -> str:
    """Return an error's message in one line; an `OSError` starts with its file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return one_line(f"{error.filename}: {error.strerror}")
    return one_line(error)


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """In the place of `warnings.showwarning`: one line."""
    say(f"warning: {one_line(message)}", "yellow", err=True)


class Lines(logging.Handler):
    """What the library has to say, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        say(record.getMessage(), err=True)

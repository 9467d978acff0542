"""The help of every command: complete, without markup, and readable in a narrow terminal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedbandits.cli import app


def commands(path: tuple[str, ...] = (), command: Any = None) -> Iterator[tuple[str, Any]]:
    """Return every command and group with its path."""
    command = command or get_command(app)
    yield " ".join(path), command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands((*path, name), each)


COMMANDS = dict(commands())


def help_of(path: str) -> str:
    # As in a terminal of 80 columns, of which two stay empty.
    return CliRunner().invoke(app, [*path.split(), "--help"], terminal_width=78).stdout


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("path", COMMANDS)
def test_help_shows_every_word(path: str) -> None:
    """A section of a file, such as [demo], must not be read as markup."""
    said, command = words(help_of(path)), COMMANDS[path]
    for parameter in command.params:
        assert words(getattr(parameter, "help", None) or "") in said
    if documented := inspect.getdoc(command.callback):
        prose, _, examples = documented.partition("\b\n")
        assert words(prose) in said
        for line in examples.splitlines():
            assert f"  {line}\n" in help_of(path)  # not wrapped, so that it can be copied


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_no_holes(path: str) -> None:
    said = words(help_of(path))
    assert not re.search(r"\bNone\b|\[default: ?[];]| [,;:]|\\\[|\(\)|\[\]|''|\"\"", said)


@pytest.mark.parametrize("path", [path for path in COMMANDS if hasattr(COMMANDS[path], "commands")])
def test_summaries_of_commands_fit_on_a_line(path: str) -> None:
    _, _, listed = help_of(path).partition("Commands:\n")
    assert len(listed.splitlines()) == len(COMMANDS[path].commands)
    assert "..." not in listed


@pytest.mark.parametrize(
    "path", [path for path in COMMANDS if not hasattr(COMMANDS[path], "commands")]
)
def test_every_command_has_an_example(path: str) -> None:
    _, _, examples = (inspect.getdoc(COMMANDS[path].callback) or "").partition("\b\n")
    assert f"fedbandits {path}" in examples or path == "live agent"  # of which the file is shown

"""Commands on the pages exist, with their options; configurations can be read and built."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from fedbandits import config
from fedbandits.cli import app
from fedbandits.config.expansion import expand
from fedbandits.live import Federation

from .source import PAGES, ROOT, blocks, name_of

COMMAND: Any = typer.main.get_command(app)
PROGRAMS = {
    *("cat", "cp", "rm", "ssh", "scp", "docker", "journalctl", "dask", "ask", "."),
    *("useradd", "chown", "chmod", "systemctl", "printenv"),
    *("python3", "python", "pip", "make", "fedbandits"),
}
"""What a reader's shell can be expected to have, or the page defines."""


class ImpossibleError(Exception):
    """A command cannot work."""


def lines(block: str) -> list[str]:
    """The commands of a block, one a line, without functions that it defines."""
    block = re.sub(r"(?ms)^\w+\(\) \{.*?^\}\n", "", block)
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def words(line: str) -> list[str]:
    """A command's words, without comment, `sudo`, variables set before it and a file after it."""
    found = shlex.split(re.sub(r"\$\(.*?\)", "X", line), comments=True)
    if found[-2:-1] == [">"]:
        del found[-2:]
    while found and re.match(r"\w+=|sudo$", found[0]):
        del found[0]
    return found


def check(line: str) -> None:
    """Raise if a command cannot work."""
    program, *rest = words(line) or ["."]
    program = program if program == "." else Path(program).name
    if program not in PROGRAMS:
        raise ImpossibleError(f"no program {program!r}")
    if program == "fedbandits":
        parse(rest)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        if missing := [word for word in rest if word not in targets and "=" not in word]:
            raise ImpossibleError(f"make has no {missing}")
    if program == "python" and not (ROOT / rest[0]).exists():
        raise ImpossibleError(f"there is no {rest[0]}")
    if program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\.\[(\w+)\]", line):
            if extra not in extras["optional-dependencies"]:
                raise ImpossibleError(f"no extra {extra!r}")


def parse(arguments: list[str]) -> None:
    """Raise if the command line does not take these arguments; nothing is run."""
    command, rest = COMMAND, list(arguments)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            raise ImpossibleError(f"fedbandits has no {name!r}")
        command = command.commands[name]
    if rest in (["--help"], ["--version"]):
        return
    try:
        command.make_context("fedbandits", rest)
    except Exception as error:  # of the click that Typer carries, which has no public name
        raise ImpossibleError(f"{type(error).__name__}: {error}") from error


SHELL = [
    pytest.param(line, id=f"{name_of(page)}-{line.strip()[:60]}")
    for page in PAGES
    for block in blocks(page, "sh")
    for line in lines(block)
]


@pytest.mark.parametrize("line", SHELL)
def test_commands_can_work(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    check(line)


INLINE = sorted(
    {
        (name_of(page), found)
        for page in PAGES
        for found in re.findall(r"`(fedbandits [a-z][^`]*)`", page.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize(("page", "line"), INLINE)
def test_commands_in_sentences_exist(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments may be left out in a sentence; what is there must exist."""
    monkeypatch.chdir(ROOT)
    try:
        check(line)
    except ImpossibleError as error:
        if not re.match(r"MissingParameter|.* requires an argument\.$", str(error)):
            raise


@pytest.mark.parametrize(
    "line",
    [
        "fedbandits sing",
        "fedbandits run examples/grid.toml --loudly",
        "fedbandits live agent",
        "fedbandits sing > song.txt",
        "make tea",
        "python benchmarks/tea.py",
        "pip install '.[tea]'",
        "kettle --on",
    ],
)
def test_commands_that_cannot_are_found(line: str) -> None:
    with pytest.raises(ImpossibleError):
        check(line)


TOML = [
    pytest.param(page, block, id=f"{name_of(page)}-{i}")
    for page in PAGES
    for i, block in enumerate(blocks(page, "toml"))
]
AGENT = {"name", "federation", "keys", "journal", "service"}
"""Of an agent's own file: tests/live/test_deploy.py reads these."""


@pytest.mark.parametrize(("page", "block"), TOML)
def test_configurations_are_read(page: Path, block: str, tmp_path: Path) -> None:
    """A block is a federation, a site's file, or sections of a configuration."""
    tables = tomllib.loads(block)
    if re.search(r'^name = "\w+:', block, re.MULTILINE):
        assert block.startswith("# ")  # a file: tests/test_docs.py runs it with its modules
    elif "arms" in tables:
        (tmp_path / "federation.toml").write_text(block, encoding="utf-8")
        Federation.read(tmp_path / "federation.toml")
    elif not AGENT & set(tables) and "demo" not in tables:
        base = tomllib.loads((ROOT / "examples" / "grid.toml").read_text())
        for cell in expand(base | tables).cells:
            try:
                config.build(cell.config, ROOT / "docs" / "page.toml")
            except config.ConfigError as error:
                # Sections of other sizes than the rest, or a table that the reader has.
                if not re.search(r"; make them equal$|no table at .*/sales.csv.gz$", str(error)):
                    raise

"""Imports go downwards only, lazy ones and those for types included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedbandits

ROOT = Path(fedbandits.__file__).parent

ROOMS = (
    "common.backend",
    "arrays",
    "common",
    "schedules",
    "attacks",
    "simulation.condition",
    "privacy.response",
    "networks",
    "gossip",
    "data",
    "problems",
    "theory.rates",
    "algorithms",
    "theory.bounds",
    "theory.theorems",
    "results",
    "privacy",
    "simulation",
    "engine",
    "config",
    "live",
    "sweeps",
    "tuning",
    "",  # what users import: all of the above
    "paper",
    "cli",
    "__main__",
)
"""From the ground up."""

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").strip("."): path
    for path in ROOT.rglob("*.py")
}


def floor(module: str) -> int:
    """How high the room of a module lies."""
    if module == "theory":  # re-exports nothing
        module = "theory.rates"
    rooms = [
        height
        for height, room in enumerate(ROOMS)
        if module == room or (room and module.startswith(f"{room}."))
    ]
    assert rooms, f"{module} stands in no room: give it one"
    return rooms[0]


def imported(code: str, module: str, is_package: bool = False) -> Iterator[str]:
    """The modules of this package that code imports, wherever in it."""
    here = [part for part in module.split(".") if part]
    package = here if is_package else here[:-1]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fedbandits":
                    yield alias.name.partition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            named = (node.module or "").split(".") if node.module else []
            if node.level:
                base = [*package[: len(package) - node.level + 1], *named]
            elif named[:1] == ["fedbandits"]:
                base = named[1:]
            else:
                continue
            for alias in node.names:
                inside = ".".join([*base, alias.name])
                yield inside if inside in FILES else ".".join(base)


def upwards(code: str, module: str, is_package: bool = False) -> list[str]:
    """The imports of a module that go up."""
    return [
        f"{module or 'fedbandits'} imports {other or 'fedbandits'}"
        for other in imported(code, module, is_package)
        if floor(other) > floor(module)
    ]


@pytest.mark.parametrize("module", sorted(FILES))
def test_imports_go_downwards(module: str) -> None:
    path = FILES[module]
    code = path.read_text(encoding="utf-8")
    assert upwards(code, module, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    "code",
    [
        "import fedbandits.engine.simulate",
        "from fedbandits.engine import simulate",
        "from fedbandits import simulate",
        "from ..engine.simulate import simulate",
        "def later():\n    from fedbandits.cli import app",
        "if TYPE_CHECKING:\n    from ..sweeps import load",
    ],
)
def test_the_test_can_fail(code: str) -> None:
    assert len(upwards(code, "problems.base")) == 1


WRAPPERS = ("attacks", "privacy", "simulation.liars")
PLAYING = ("engine.executors", "engine.mixing", "engine.recording", "engine.stages")


@pytest.mark.parametrize("module", sorted(m for m in FILES if m.startswith(PLAYING)))
def test_no_executor_mixing_form_or_recorder_imports_attacks_or_privacy(module: str) -> None:
    """A condition is a file of its own: nothing that plays rounds names one."""
    code = FILES[module].read_text(encoding="utf-8")
    assert [other for other in imported(code, module) if other.startswith(WRAPPERS)] == []


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    """But for the catalogues, which have one entry a file."""
    folders = {path.parent for path in FILES.values()} - {ROOT / "algorithms", ROOT / "problems"}
    sizes = {f: len([p for p in f.glob("*.py") if p.stem != "__init__"]) for f in folders}
    assert [folder for folder, size in sizes.items() if size > 15] == []


def test_few_modules_at_the_root() -> None:
    assert len(list(ROOT.glob("*.py"))) <= 6

"""A small sweep, and what the tests of sweeps do with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fedbandits.cli.commands import app
from fedbandits.sweeps import store
from tests.instances import SMALL_CONFIG

# Two batches of two cells: one for each seed.
SWEEP = SMALL_CONFIG.replace("runs = 2", "runs = 2\nseed = [0, 1]").replace(
    'name = "FedExp3"', 'name = "FedExp3"\nlearning_rate = [0.1, 0.3]'
)
COMMAND = ["fedbandits", "run", "sweep.toml", "--set", "runs = 2"]
GO_ON = "to go on: fedbandits run sweep.toml --set 'runs = 2'"


def cells(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "cells").glob("*.nc")}


def status_of(folder: Path) -> store.SweepStatus:
    return store.status(folder, store.read_manifest(folder))


def call(*args: str | Path) -> Result:
    plain = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner(env=plain).invoke(app, [str(arg) for arg in args])


def never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("nothing should be played")


def before_cell(number: int, act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something before the result of the cell of that number is written."""
    original, count = store.save_cell, iter(range(100))

    def save(*args: Any) -> None:
        if next(count) == number:
            act()
        original(*args)

    monkeypatch.setattr(store, "save_cell", save)

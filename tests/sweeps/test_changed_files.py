"""Files that a sweep names and that change after it was planned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedbandits.sweeps import run
from fedbandits.sweeps.plan import Plan, make_plan
from fedbandits.sweeps.run import run_sweep
from fedbandits.sweeps.workshop import Parcel, Workshop
from tests.sweeps.small_sweep import COMMAND


@pytest.fixture
def losses(tmp_path: Path) -> Plan:
    """A sweep that names a file, which is another one by the time the sweep is played."""
    rows = ["time,agent,arm,loss", *(f"1,{v},{i},0.5" for v in "ab" for i in "xy")]
    (tmp_path / "losses.csv").write_text("\n".join(rows))
    text = '[problem]\nname = "from_table"\ntable = "losses.csv"\n[algorithm]\nname = "Exp3"\n'
    (tmp_path / "sweep.toml").write_text("seed = [0, 1]\n" + text)
    plan = make_plan(tmp_path / "sweep.toml")
    (tmp_path / "losses.csv").write_text("\n".join(rows).replace("0.5", "0.7"))
    return plan


@pytest.mark.slow
def test_a_file_that_changes_in_mid_sweep(losses: Plan, tmp_path: Path) -> None:
    found = run_sweep(losses, tmp_path / "out", COMMAND)
    assert len(found.failed) == 2
    assert f"{tmp_path / 'losses.csv'} is not here, or not what it was" in found.failed[0][1]
    # The changed file makes other cells.
    again = run_sweep(make_plan(losses.source), tmp_path / "out", COMMAND)
    assert len(again.done) == 2


def test_an_array_on_disk_that_changes_in_mid_sweep(tmp_path: Path) -> None:
    """It is read from the disk as it is played: another one must not get this one's name."""
    np.save(tmp_path / "losses.npy", np.full((3, 2, 2), 0.25))
    (tmp_path / "sweep.toml").write_text(
        'seed = [0, 1]\n[problem]\nname = "from_tensor"\ntensor = "losses.npy"\n'
        '[algorithm]\nname = "Exp3"\n'
    )
    plan = make_plan(tmp_path / "sweep.toml")
    np.save(tmp_path / "losses.npy", np.full((3, 2, 2), 0.75))
    found = run_sweep(plan, tmp_path / "out", COMMAND)
    assert (len(found.done), len(found.failed)) == (0, 2)


def test_a_process_that_finds_another_file_than_was_planned_says_so(
    losses: Plan, tmp_path: Path
) -> None:
    configs = [cell.config for cell in losses.sweep.cells]
    sent = Parcel(str(losses.source), configs, list(losses.hashes))
    outcomes = run.play_cells(sent, Workshop(sent.source))
    assert [outcome.dataset for outcome in outcomes] == [None, None]
    assert f"{tmp_path / 'losses.csv'} is not here, or not what it was" in outcomes[0].error

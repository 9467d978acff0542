"""An own algorithm tuned; the file that is written finds it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedbandits.config.document import load_config
from fedbandits.tuning.files import request
from tests.own_things import own_folder


@pytest.mark.soak
def test_an_own_algorithm_is_tuned(tmp_path: Path) -> None:
    with own_folder(tmp_path) as folder:
        tuned = request(folder / "own.toml", out=folder / "out").tune(budget=3, runs=2)
        assert tuned.choice.table()["exploration"].nunique() == 3
        text = tuned.files.config.read_text()
        assert 'modules = ".."' in text
        assert 'name = "leaders:FedLeader"' in text
        written = load_config(tuned.files.config)
        assert type(written.simulation.algorithm).__name__ == "FedLeader"

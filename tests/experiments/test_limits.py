"""The table of limits, quickly: what it compares, and that a liar shows in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedbandits.experiments import Options, limits


@pytest.mark.slow
def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(limits, "QUICK", limits.Sizes(horizon=60, draws=1))
    monkeypatch.setattr(limits, "MULTIPLES", (1.0, np.inf))
    section = limits.reproduce(Options(tmp_path, quick=True))
    [table] = section.tables
    assert [row[0] for row in table.rows] == ["1", "none"]
    small, unlimited = ([float(cell) for cell in row[1:]] for row in table.rows)
    uniform, worst = 12.0, 24.0
    assert f"regret {uniform:.0f}" in table.note
    assert f"has {worst:.0f}" in table.note
    for place in (1, 3, 5):  # with a liar
        assert unlimited[place] > 0.8 * worst
        assert small[place] < 0.8 * unlimited[place]

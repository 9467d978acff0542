"""Every Python example in the README and in CONTRIBUTING runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")

ROOT = Path(__file__).parents[1]


def examples(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = examples(name)
    assert len(blocks) >= 3
    scope: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:  # later blocks may build on earlier ones, as a reader would
        exec(compile(block, name, "exec", dont_inherit=True), scope)

"""Examples in the pages run as printed, commands can work, and what was measured is not typed."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from contextlib import suppress
from pathlib import Path

import matplotlib as mpl
import pytest
from typer.testing import CliRunner

from fedbandits.cli.commands import app
from fedbandits.live.operations.local_cluster import reserved_ports
from tests.own_things import imported_for_a_while
from tests.pages.source import PAGES as ALL_PAGES
from tests.pages.source import blocks, name_of
from tests.tiers import soak_but

mpl.use("agg")

ROOT = Path(__file__).parents[1]
FILL = runpy.run_path(str(ROOT / "docs" / "fill.py"))
DRAW = runpy.run_path(str(ROOT / "docs" / "draw.py"))

NO_RESULTS = (ROOT / "benchmarks" / "README.md", ROOT / "docs" / "understand" / "theory.md")
PAGES = [page for page in FILL["PAGES"] if page not in NO_RESULTS]
"""Pages with results; of the others one has goals and sizes alone, one a proof."""

WITH_PYTHON = [page for page in ALL_PAGES if blocks(page, "python")]

GIVEN = (
    r"[^\W\d_]\d+",  # names: FedExp3, H200, float32, σ2
    r"[NKTd] ?= ?[\d,]+",  # sizes
    r"(?i:figure|theorems?|definition|algorithm|famil(?:y|ies)) \d(?: (?:to|and) \d)?",
    r"\| \d [a-z]+ \|",  # families in a table
    r"(?:ICML|COLT|ICLR|October|Konstan) 20\d\d",
    r"Python 3\.\d+|Apache-2\.0",
    r"95%|10 runs|3000 rounds|6 by 6",
    r"\b\d/(?:\d|η|sqrt)|η/2|\+ 1\b|0\.01 · t\^|γ_T < 1|\b3d\b|of length at most 1",  # formulas
    r"sqrt\((?:2 ln K|14 N)|\(2BT\)|0\.29 · sqrt\(1 -",
    r"in \[0, 1\]|ratings from 1 to 5|: 100 is guessing, 0 is|below 0|exit status 1|below 1 where",
    r"at most 100,000 cells",
    r"up to 256 agents|leaves 1% of the disagreement|one mean 0\.3, the others 0\.5",
    # What was tried.
    r"the 24 cases|on 5 and 6|12 candidates|best of (?:13|25)|luckiest of 25",
    r"from 50 to 5,000 actions|constants end at 3|8 × 3 of two, 6 × 2 × 2 of three",
    r"(?:spaced|constants|\bc|FTRL's,) from [\d.]+ to [\d.]+",
)
"""Numbers that were not measured: names, references, formulas, sizes and settings."""


LONG = ("sweeps", "hostile", "pictures", "large", "data", "tuning")
"""How-tos whose examples take more than two seconds."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    soak_but([page for page in WITH_PYTHON if page.stem not in LONG], WITH_PYTHON),
    ids=name_of,
)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = name_of(page)
    if name == "docs/howto/sweeps.md":
        have_swept(tmp_path, monkeypatch)
    scope: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):  # later ones may build on earlier ones, as a reader would
        if "until Ctrl-C" in block:
            if shutil.which("curl") is not None:
                serve_and_ask(name, block, scope)
        else:
            exec(compile(block, name, "exec", dont_inherit=True), scope)
    if isinstance(cluster := scope.get("cluster"), OneMachine):
        cluster.workers.close()
    drawn = DRAW["own_pictures"](page.read_text(encoding="utf-8"))
    assert [picture for picture in drawn if not (tmp_path / picture).exists()] == []


class OneMachine:
    """What dask-jobqueue's clusters are to a page, with one worker on this machine for all jobs."""

    def __init__(self, **_: object) -> None:
        from distributed import LocalCluster

        self.workers = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
        self.scheduler_address: str = self.workers.scheduler_address

    def scale(self, jobs: int) -> None:
        assert jobs


def have_swept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader of the page has by then: the finished sweep, another file, and a cluster."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copyfile(ROOT / "examples" / "sweep.toml", folder / "sweep.toml")
    commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", commands)
    sweep = ["fedbandits", "run", "examples/sweep.toml", "--set", "problem.horizon=50"]
    subprocess.run(sweep, check=True)
    # The last block plays a sweep of another name into a folder of its own.
    jobqueue = types.ModuleType("dask_jobqueue")
    jobqueue.SLURMCluster = OneMachine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dask_jobqueue", jobqueue)


def serve_and_ask(name: str, block: str, scope: dict[str, object]) -> None:
    """Run an example that serves, ask it what the page's shell asks, and press Ctrl-C."""
    with reserved_ports(1) as [port]:
        [asking] = [each for each in blocks(ROOT / name, "sh") if ":8080/" in each]
        said: list[str] = []

        def ask() -> None:
            try:
                words = ["sh", "-c", asking.replace("8080", str(port))]
                here = os.environ | {"no_proxy": "*"}
                wait_for(port)
                done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=here)
                said.append(done.stdout)
            finally:
                signal.raise_signal(signal.SIGINT)

        asker = threading.Thread(target=ask)
        asker.start()
        code = compile(block.replace("8080", str(port)), name, "exec", dont_inherit=True)
        with pytest.raises(KeyboardInterrupt):
            exec(code, scope)
        asker.join()
    chosen, counted = said[0].splitlines()
    assert json.loads(chosen)["event"] == "order 17"
    assert json.loads(counted) == {"counted": True}


def own_things_files(folder: Path) -> None:
    """The files that the page shows, which name themselves in their first line."""
    text = (ROOT / "docs" / "howto" / "own-things.md").read_text(encoding="utf-8")
    shown = re.findall(r"(?ms)^```(?:python|toml)\n(# (\S+\.(?:py|toml))\n.*?)^```", text)
    assert [name for _, name in shown] == ["leaders.py", "leader.toml", "places.py", "places.toml"]
    for content, name in shown:
        (folder / name).write_text(content, encoding="utf-8")


@pytest.mark.soak
def test_own_things_are_run_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_things_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with imported_for_a_while(tmp_path):
        for line in "".join(blocks(ROOT / "docs/howto/own-things.md", "sh")).splitlines():
            words, _, file = line.partition(" > ")
            name, *arguments = shlex.split(words)
            done = CliRunner().invoke(app, arguments)
            assert (name, done.exit_code) == ("fedbandits", 0), f"{line}\n{done.output}"
            if file:
                assert json.loads(done.output)["title"].startswith("fedbandits")
    assert (tmp_path / "tuned" / "leader.tuned.nc").exists()
    assert len([*(tmp_path / "swept" / "leader" / "cells").iterdir()]) == 3
    assert len([*(tmp_path / "both" / "leader" / "cells").iterdir()]) == 2


def wait_for(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def test_there_is_one_way_to_ask() -> None:
    pages = [(ROOT / "docs" / name).read_text() for name in ("howto/live.md", "operations.md")]
    [one], [other] = [re.findall(r"(?ms)^ask\(\) \{.*?^\}", page) for page in pages]
    assert one.replace("centre.token", "north.token") == other


def typed(text: str) -> list[str]:
    """Numbers on a page that no command wrote and that are not given, with what is around them."""
    text = FILL["MARKED"].sub("", text)
    for code in (r"(?ms)^```.*?^```", r"(?m)^ {4,}\S.*$", r"`[^`]*`", r"<[^>]*>", r"\]\([^)]*\)"):
        text = re.sub(code, " ", text)
    lines = re.sub(r"(?<!\n) *\n *(?![\n|])", " ", text)  # a paragraph is one line
    return re.findall(r".{,40}\d.{,40}", re.sub("|".join(GIVEN), " ", lines))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_was_measured_is_not_typed(page: Path) -> None:
    assert typed(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "| Figure 2, real ratings, grid: FedExp3 | - | 29.25 [28.13, 30.37] |",
        "| the same: GossipUCB | 600 |",
        "upper bound says nothing (53,714 at T = 3000 on the grid)",
        "33 million ratings in 32 seconds and 2.8 GiB",
        "another the level moves by 0.20 (standard deviation)",
        "with 0.01 it ends at 281 on all three networks",
        "it takes 50 seconds",
    ],
)
def test_typed_numbers_are_found(line: str) -> None:
    assert typed(f"Before.\n{line}\nAfter.") != []


def test_given_numbers_and_filled_ones_are_not() -> None:
    place = "<!-- table: suite / T -->\n| a | 1.5 |\n<!-- end -->"
    assert typed(f"FedExp3 at N = 36, `9`\n\n    8 rows\n\n```sh\nrun 7\n```\n{place}\n") == []


def test_what_is_installed_can_be_found() -> None:
    """There is no release yet: extras are those of the folder, `.[cluster]`.

    Where the library is installed, and says itself what it lacks, pip finds `fedbandits[cluster]`.
    """
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    bad = re.compile("install '?fedbandits")
    wrong = [file for file in files if bad.search(file.read_text(encoding="utf-8"))]
    assert wrong == []


def test_pictures_that_pages_draw_are_known() -> None:
    page = (
        '```python\nfb.plot(a, path="own.png")\n```\n![a](../figures/own.png) ![b](figures/b.png)'
    )
    assert DRAW["own_pictures"](page) == ["own.png"]
    start = (ROOT / "docs" / "start" / "index.md").read_text(encoding="utf-8")
    assert DRAW["own_pictures"](start) == ["sales.png", "shops.png"]

"""Run by `make wheel` in clean environments: the installed package, not this source tree.

    python tests/use_wheel.py [EXTRA ...]

uses what the package promises with these extras, and sees that it asks for the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import numpy as np

import fedbandits as fb
from fedbandits.common.extras import MissingExtraError


def use_base() -> None:
    """One agent plays 1,000 rounds on NumPy; the command has help; nothing is not for revenue."""
    installed = Path(fb.__file__).parent
    assert "site-packages" in installed.parts, installed
    assert (installed / "py.typed").is_file()
    dashboard = {file.name for file in (installed / "live" / "dashboard").iterdir()}
    assert {"index.html", "app.js", "uPlot.iife.min.js", "uPlot.LICENSE.txt"} <= dashboard
    assert metadata("fedbandits")["License-Expression"] == "Apache-2.0 AND MIT"
    data = {file.name for file in (installed / "data").iterdir() if file.suffix not in ("", ".py")}
    assert data == {"cdn.npz"}  # generated, free for all uses
    assert fb.problems.cdn().block(1, 5).shape == (5, 16, 7)
    assert np.argmin((0.2, 0.5, 0.8)) == np.argmax(play(1000, (0.2, 0.5, 0.8)))
    live(Path(tempfile.mkdtemp()) / "agent1.db")
    for words in (["--version"], ["--help"], ["doctor"]):
        said = subprocess.run(
            [sys.executable, "-m", "fedbandits", *words], capture_output=True, text=True, check=True
        )
        assert "fedbandits" in said.stdout, said


def live(journal: Path) -> None:
    """A live agent chooses and observes, and its journal is shown."""
    pair = fb.live.Federation(["tea", "coffee"], fb.networks.path(2))
    with fb.live.Agent("agent1", pair, journal) as agent:
        for _ in range(100):
            ticket = agent.choose()
            agent.observe(ticket.id, loss=0.1 if ticket.arm == "tea" else 0.9)
        assert agent.recommended == "tea"
    shown = subprocess.run(
        [sys.executable, "-m", "fedbandits", "live", "show", str(journal)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "agent1" in shown.stdout, shown
    journal.unlink()


def play(rounds: int, means: tuple[float, ...]) -> Any:
    """What an agent alone would play after so many rounds of coins with these means: `[K]`."""
    rng = np.random.default_rng(0)
    agent = fb.FedExp3()
    state = agent.init(arms=len(means), agents=1)
    for t in map(np.int32, range(1, rounds + 1)):
        p = agent.distribution(state, t)
        arm = np.int32(rng.choice(len(means), p=p / p.sum()))
        loss = np.float32(rng.random() < means[arm])
        state = agent.update(state, agent.message(state), arm, loss, p, t)
    return agent.distribution(state, np.int32(rounds + 1))


def use_sim() -> None:
    """Simulate, save, load and draw."""
    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=50)
    result = fb.simulate(problem, fb.FedExp3(), fb.gossip.max_degree(fb.networks.ring(4)), runs=2)
    assert fb.load(result.save("wheel.nc")).dataset.identical(result.dataset)
    result.plot(path="wheel.png")
    large = fb.networks.from_edges(900, fb.networks.grid(30, 30).edges)
    assert (
        abs(large.algebraic_connectivity - fb.networks.grid(30, 30).algebraic_connectivity) < 1e-6
    )
    asks(fb.problems.movielens, FileNotFoundError, "fedbandits data movielens ml-latest-small")
    asks(fb.problems.movielens_generated, FileNotFoundError, "source tree")


def fastest() -> None:
    """The gossip that takes a solver."""
    assert fb.gossip.fastest(fb.networks.ring(5)).sigma2 < 0.5


def use_solvers() -> None:
    """The fastest gossip, and multigrid."""
    fastest()
    import pyamg  # noqa: F401


def use_cluster() -> None:
    """Dask is there."""
    import distributed  # noqa: F401


def use_live() -> None:
    """What agents on a network need is there."""
    import cryptography  # noqa: F401
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401


def asks(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    """See that a call fails in these words."""
    said = "nothing"
    try:
        call()
    except error as raised:
        said = str(raised)
    assert words in said, said


def main(*extras: str) -> None:
    with tempfile.TemporaryDirectory() as nothing_fetched:
        os.environ["XDG_DATA_HOME"] = nothing_fetched
        use(*extras)


def use(*extras: str) -> None:
    """All that these extras promise."""
    use_base()
    if not {"sim", "solvers", "cluster", "all"} & set(extras):
        asks(lambda: fb.simulate, MissingExtraError, "pip install 'fedbandits[sim]'")
    else:
        use_sim()
    if {"solvers", "all"} & set(extras):
        use_solvers()
    else:
        asks(fastest, MissingExtraError, "pip install 'fedbandits[solvers]'")
    if {"cluster", "all"} & set(extras):
        use_cluster()
    if {"live", "all"} & set(extras):
        use_live()


if __name__ == "__main__":
    main(*sys.argv[1:])

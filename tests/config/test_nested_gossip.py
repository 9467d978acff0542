"""A gossip that is made of another one, in configuration files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.config.document import load_config
from fedbandits.config.expansion import expand
from fedbandits.config.experiment import ConfigError
from fedbandits.results.bounds_table import gossip_of

FILE = """
runs = 2

[problem]
name = "activated_bernoulli"
agents = 6
arms = 3
horizon = 20

[network]
name = "grid"
rows = 2
cols = 3

[gossip]
name = "unreliable"
gossip = {name = "max_degree", lazy = false}
loss = 0.3
rule = "receiver"
delay = 2

[algorithm]
name = "FedExp3"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "config.toml"
    found.write_text(FILE, encoding="utf-8")
    return found


def test_the_inner_gossip_gets_the_network(path: Path) -> None:
    gossip = load_config(path).simulation.gossip
    assert gossip is not None
    expected = fb.gossip.max_degree(fb.networks.grid(2, 3), lazy=False)
    assert repr(gossip) == repr(fb.gossip.unreliable(expected, 0.3, "receiver", delay=2))
    by_sender = load_config(path, ["gossip.loss=[0, 0.1, 0, 0.1, 0, 0.1]"]).simulation.gossip
    assert by_sender is not None
    assert by_sender.faults is not None
    assert by_sender.faults.loss.max() == 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("gossip.loss=1.5", r"\[gossip\].*loss must be in \[0, 1\), not 1.5"),
        ('gossip.gossip={name = "max_degre"}', r"\[gossip\] gossip.*did you mean 'max_degree'"),
        ("gossip.gossip=3", "takes a gossip"),
        ('gossip={name = "unreliable"}', "unreliable needs gossip"),
    ],
)
def test_mistakes_are_named_with_their_place(path: Path, change: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(path, [change])


def test_loss_is_swept() -> None:
    table = {"name": "unreliable", "gossip": {"name": "metropolis"}, "loss": {"sweep": [0.1, 0.3]}}
    cells = expand({"gossip": table}).cells
    assert [cell.config["gossip"]["loss"] for cell in cells] == [0.1, 0.3]
    inside = table | {"loss": 0.1, "gossip": {"name": ["metropolis", "max_degree"]}}
    names = [cell.config["gossip"]["gossip"]["name"] for cell in expand({"gossip": inside}).cells]
    assert names == ["metropolis", "max_degree"]


@pytest.mark.slow
def test_a_loaded_result_knows_its_links_and_what_no_theorem_says(
    path: Path, tmp_path: Path
) -> None:
    result = load_config(path).simulate()
    result.save(tmp_path / "result.nc")
    again = fb.load(tmp_path / "result.nc")
    assert repr(gossip_of(again)) == repr(result.gossip)
    table = again.bounds()
    remark = table.loc["upper bound", "remark"]
    assert remark == "no theorem speaks of this algorithm over bad links with rule receiver"
    assert np.isnan(table["value"]["upper bound"])
    assert not any("Theorem 3" in name for name in table.index)
    symmetric = load_config(path, ['gossip.rule="symmetric"', "gossip.delay=0"]).simulate()
    assert any("Theorem 3" in name for name in symmetric.bounds().index)

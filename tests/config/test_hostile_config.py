"""Liars, and gossip made of another gossip, in configuration files."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedbandits as fb
from fedbandits.config.document import read_document
from fedbandits.config.experiment import ConfigError
from fedbandits.simulation.liars import Liars
from fedbandits.sweeps.plan import make_plan
from fedbandits.tuning.files import request

TEXT = """
runs = 2
[problem]
name = "activated_bernoulli"
agents = 4
arms = 3
horizon = 20
[network]
name = "grid"
rows = 2
cols = 2
[gossip]
name = "clipped"
limit = 2.0
gossip = {name = "max_degree", lazy = false}
[algorithm]
name = "FedExp3"
[liars.1]
name = "promote"
arm = 2
[liars.3]
name = "swap"
"""


def write(folder: Path, text: str = TEXT) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_who_lies_and_what_is_clipped(tmp_path: Path) -> None:
    experiment = read_document(write(tmp_path)).experiment()
    lying = Liars((1, 3), (fb.attacks.promote(2), fb.attacks.swap()))
    assert experiment.simulation.conditions == (lying,)
    gossip = fb.gossip.clipped(fb.gossip.max_degree(fb.networks.grid(2, 2), lazy=False), 2.0)
    assert experiment.simulation.gossip is not None
    assert (experiment.simulation.gossip.name, experiment.simulation.gossip.limit) == (
        gossip.name,
        2.0,
    )


@pytest.mark.slow
def test_it_plays_as_the_same_call(tmp_path: Path) -> None:
    experiment = read_document(write(tmp_path)).experiment()
    result = experiment.simulate(progress=False)
    assert result.config == experiment.simulation.describe()
    gossip = fb.gossip.clipped(fb.gossip.max_degree(fb.networks.grid(2, 2), lazy=False), 2.0)
    liars: dict[int | str, fb.attacks.Attack] = {3: fb.attacks.swap(), 1: fb.attacks.promote(2)}
    direct = fb.simulate(
        fb.problems.activated_bernoulli(4, 3, 20), fb.FedExp3(), gossip, 2, liars=liars
    )
    assert result.dataset.identical(direct.dataset)


def test_lies_and_limits_are_swept(tmp_path: Path) -> None:
    text = TEXT.replace("limit = 2.0", "limit = [1.0, 2.0]")
    text = text.replace("arm = 2", "arm = 2\nby = [1.0, 1e6]")
    plan = make_plan(write(tmp_path, text))
    titles = [cell.title for cell in plan.sweep.cells]
    assert titles == [f"limit={a}, by={b}" for a in ("1.0", "2.0") for b in ("1.0", "1000000.0")]
    built = [
        plan.workshop(plan.parcel(number))[0] for number in range(len(plan.batches))
    ]  # cells with other lies are no batch
    lying = [each.simulation.condition(Liars) for each in built]
    assert [getattr(each and each.attacks[0], "by", None) for each in lying] == [1.0, 1e6, 1.0, 1e6]
    assert len(set(plan.hashes)) == 4


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[liars.3]", "[liars.4]", "[liars]: an agent in liars must be at most 3, not 4"),
        ("[liars.3]", "[liars.north]", "liars names 'north', but these agents have no names"),
        ('"swap"', '"swop"', "[liars.3]: unknown name 'swop'; did you mean 'swap'?"),
        ("arm = 2", "arm = 3", "liar 1 lies about arm 3, but there are 3, counted from 0"),
        ("arm = 2", "", "[liars.1]: promote needs arm"),
        ("[liars.3]\nname", "[liars]\n3", "[liars.3]: expected a table with a name, not 'swap'"),
        ("limit = 2.0", "limit = 0", "[gossip]: limit must be in (0, inf], not 0"),
        ('{name = "max_degree", lazy', '{name = "max_degre", lazy', "[gossip] gossip: unknown"),
        (", lazy = false}", "}\nlasy = 1", "[gossip]: unknown key 'lasy'"),
    ],
)
def test_mistakes_name_the_place_and_the_fix(tmp_path: Path, old: str, new: str, why: str) -> None:
    text = TEXT.replace(old, new)
    if "[liars]\n" in new:
        text = text.replace('[liars.1]\nname = "promote"\narm = 2\n', "")
    with pytest.raises(ConfigError) as caught:
        read_document(write(tmp_path, text)).experiment()
    assert why in str(caught.value)


def test_a_list_of_liars_says_how_to_write_them(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT.split("[liars.1]")[0].replace("runs = 2", "runs = 2\nliars = 14"))
    with pytest.raises(ConfigError, match=r'write \[liars.14\] with name = "promote"'):
        read_document(path).experiment()


def test_nothing_is_tuned_among_liars(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tune plays without \[liars\]; leave it out"):
        request(write(tmp_path), out=tmp_path)

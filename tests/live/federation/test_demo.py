"""The losses of demonstrations by `live up`: each agent replays its part of a problem."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandits as fb
from fedbandits.common.extras import PACKAGES
from fedbandits.engine.trajectory import trajectory
from fedbandits.live import Federation
from fedbandits.live.federation.demo import demo_losses, demo_pace, read_demo
from fedbandits.live.journal import read_journal
from fedbandits.live.rehearsal.rehearsal import Rehearsal, _runs
from tests.without import run_without

from .test_up import page_of, up, wait_for

EXAMPLE = Path(__file__).parents[3] / "examples" / "cdn.toml"
PROBLEM = fb.problems.cdn()


def test_the_example_is_the_problems() -> None:
    federation, demo = Federation.read(EXAMPLE), read_demo(EXAMPLE)
    assert (federation.members, federation.arms) == (PROBLEM.agent_names, PROBLEM.arm_names)
    assert (federation.network.family, demo_pace(demo)) == ("grid", 0.05)
    losses = demo_losses(federation, demo)
    played = [[losses(t, v, 3) for v in range(16)] for t in (1, 2, 2000)]
    np.testing.assert_array_equal(played, PROBLEM.tensor[[0, 1, 1999], :, 3])
    assert losses(2001, 5, 6) == PROBLEM.tensor[0, 5, 6]  # and so on from the start


def test_names_say_whose_part_is_whose() -> None:
    assert PROBLEM.agent_names is not None
    assert PROBLEM.arm_names is not None
    federation = Federation(
        PROBLEM.arm_names[::-1], fb.networks.ring(16), members=PROBLEM.agent_names[::-1]
    )
    losses = demo_losses(federation, {"name": "cdn"})
    assert losses(7, 0, 1) == PROBLEM.tensor[6, 15, 5]


def test_files_are_seen_from_the_federations(tmp_path: Path) -> None:
    np.save(tmp_path / "losses.npy", PROBLEM.tensor[:5])
    federation = Federation.read(EXAMPLE)
    losses = demo_losses(federation, {"name": "from_tensor", "tensor": "losses.npy"}, tmp_path)
    assert losses(2, 3, 4) == PROBLEM.tensor[1, 3, 4]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"members": [f"site{v}" for v in range(16)]}, "no agent 'site0'; .*members = \\[\"oslo\""),
        ({"arms": [*"abcdefg"]}, "no arm 'a'; give the federation arms = \\[\"LRU\", "),
        ({"arms": ["LRU", "FIFO"]}, "16 agents and 7 arms, and the federation 16 and 2"),
    ],
)
def test_others_are_refused(change: dict[str, Any], why: str) -> None:
    given = {"arms": PROBLEM.arm_names, "members": PROBLEM.agent_names} | change
    federation = Federation(gossip=fb.networks.ring(16), **given)
    with pytest.raises(ValueError, match=f"demo: the problem has {why}"):
        demo_losses(federation, {"name": "cdn"})


@pytest.mark.parametrize("pace", [0, "fast", True, float("nan"), float("inf")])
def test_a_bad_pace_is_refused(pace: Any) -> None:
    with pytest.raises(ValueError, match=r"\[demo\] pace must be seconds, at least 0.01, not"):
        demo_pace({"pace": pace})


@pytest.mark.slow
def test_it_takes_no_jax(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from fedbandits.live import Federation\n"
        "from fedbandits.live.federation.demo import read_demo\n"
        "from fedbandits.live.federation.demo import demo_losses\n"
        f"file = Path({str(EXAMPLE)!r})\n"
        "print(demo_losses(Federation.read(file), read_demo(file))(1, 0, 0))"
    )
    beyond = [p.name for p in PACKAGES if p.extra not in ("", "live") and p.name != "tomlkit"]
    done = run_without(beyond, tmp_path, ["-c", code])
    assert (done.stdout, done.stderr) == (f"{float(PROBLEM.tensor[0, 0, 0])}\n", "")


@pytest.mark.slow
def test_edges_rehearse_what_is_simulated() -> None:
    """A rehearsal plays the same arms as a simulation; see docs/start/cdn.md."""
    first = fb.problems.from_tensor(PROBLEM.tensor[:60])
    federation = Federation.read(EXAMPLE)
    [run] = _runs(Rehearsal.of(first, federation, seed=3, lockstep=True))
    assert isinstance(federation.gossip, fb.Gossip)
    simulated = trajectory(first, federation.algorithm, federation.gossip, seed=3)
    np.testing.assert_array_equal(run.play().action, simulated.action[:, 0])


@pytest.mark.soak
def test_sixteen_edges_replay_their_traffic(tmp_path: Path) -> None:
    """Every process observes the misses of its own edge and no others."""
    assert PROBLEM.agent_names is not None
    assert PROBLEM.arm_names is not None
    file, folder = tmp_path / "cdn.toml", tmp_path / "up"
    arms = "[" + ", ".join(f'"{arm}"' for arm in PROBLEM.arm_names[::-1]) + "]"
    file.write_text(re.sub(r"(?m)^arms = .*$", f"arms = {arms}", EXAMPLE.read_text()))
    with up(file, "--folder", folder, "--pace", "0.3") as output, page_of(output) as page:
        wait_for(page, lambda statuses: min(each["rounds"] for each in statuses) > 10)
    for edge, losses in zip(PROBLEM.agent_names, PROBLEM.tensor.swapaxes(0, 1), strict=True):
        tickets = [
            each
            for each in read_journal(folder / f"{edge}.db").saved.tickets
            if each.status == "observed"
        ]
        assert len(tickets) >= 10
        played = [PROBLEM.arms - 1 - each.arm for each in tickets]
        rounds = [each.round - 1 for each in tickets]
        observed = [np.frombuffer(each.feedback)[0] for each in tickets]
        np.testing.assert_array_equal(observed, losses[rounds, played])

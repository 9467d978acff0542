"""The CDN: what its numbers are, that they are the policies', and that no vote finds the best."""

from __future__ import annotations

from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest

import fedbandits as fb
from fedbandits import config
from fedbandits.common.describe import array_hash
from tests.without import OPTIONAL, run_without
from tools.cdn.traffic import CACHE, EDGES, REQUESTS, WARM_UP, requests

PROBLEM = fb.problems.cdn()
MEANS = PROBLEM.tensor.mean(axis=0, dtype=np.float64)


def test_sizes_and_names() -> None:
    assert PROBLEM.tensor.shape == (PROBLEM.horizon, PROBLEM.agents, PROBLEM.arms) == (2000, 16, 7)
    assert PROBLEM.agent_names == tuple(edge.name for edge in EDGES)
    assert PROBLEM.kinds == tuple(edge.kind for edge in EDGES)
    assert PROBLEM.arm_names == ("LRU", "FIFO", "LFU", "ARC", "SIEVE", "S3-FIFO", "W-TinyLFU")
    assert PROBLEM.requests == REQUESTS
    assert PROBLEM.describe()["name"] == "cdn"


def test_the_numbers_are_those_that_were_generated() -> None:
    misses = np.rint(PROBLEM.tensor * PROBLEM.requests).astype(np.uint8)
    np.testing.assert_allclose(PROBLEM.tensor, misses / PROBLEM.requests, rtol=1e-7)
    found = array_hash(misses)
    assert found == "e2cd5129942efcda478db7797ea01af3e1e5bc972eebaa6f04c682f1a4656bef"


@pytest.mark.parametrize("edge", range(4))  # one of each kind
@pytest.mark.parametrize("policy", ["LRU", "FIFO"])
def test_they_are_what_the_policies_miss(edge: int, policy: str) -> None:
    rounds = 20
    asked = requests(edge)[: (WARM_UP + rounds) * REQUESTS].tolist()
    cache: OrderedDict[int, None] = OrderedDict()
    missed = []
    for item in asked:
        missed.append(item not in cache)
        if policy == "LRU" and item in cache:
            cache.move_to_end(item)
        cache[item] = None
        if len(cache) > CACHE:
            cache.popitem(last=False)
    counts = np.reshape(missed, (-1, REQUESTS)).sum(axis=1)[WARM_UP:]
    assert PROBLEM.arm_names is not None
    arm = PROBLEM.arm_names.index(policy)
    np.testing.assert_array_equal(PROBLEM.tensor[:rounds, edge, arm] * REQUESTS, counts)


def test_the_fleets_best_is_nobodys_favourite() -> None:
    names = np.array(PROBLEM.arm_names)
    assert names[MEANS.mean(axis=0).argmin()] == "S3-FIFO"
    assert Counter(names[MEANS.argmin(axis=1)]) == {"W-TinyLFU": 12, "ARC": 4}
    by_kind = zip(PROBLEM.kinds, names[MEANS.argmin(axis=1)], strict=True)
    assert set(by_kind) == {
        ("steady", "W-TinyLFU"),
        ("drifting", "ARC"),
        ("crawled", "W-TinyLFU"),
        ("looping", "W-TinyLFU"),
    }


def test_a_configuration_can_name_it(tmp_path: Path) -> None:
    file = tmp_path / "cdn.toml"
    file.write_text(
        '[problem]\nname = "cdn"\n[network]\nname = "grid"\nrows = 4\ncols = 4\n'
        '[gossip]\nname = "metropolis"\n[algorithm]\nname = "FedExp3"\n'
    )
    problem = config.load_config(file).simulation.problem
    assert problem.describe() == PROBLEM.describe()


@pytest.mark.slow
def test_a_plain_install_reads_it(tmp_path: Path) -> None:
    code = "import fedbandits as fb\nprint(fb.problems.cdn().block(1, 2000).shape)"
    done = run_without(OPTIONAL, tmp_path, ["-c", code])
    assert (done.stdout, done.stderr) == ("(2000, 16, 7)\n", "")

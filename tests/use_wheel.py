"""Run by `make wheel` in an empty environment: the installed package, not this source tree."""

from pathlib import Path

import fedbandits as fb


def main() -> None:
    installed = Path(fb.__file__).parent
    assert "site-packages" in installed.parts, installed
    assert (installed / "py.typed").is_file()
    problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=50)
    gossip = fb.gossip.max_degree(fb.networks.ring(4))
    # The ratings and their licence come along.
    assert fb.problems.movielens().agents == 129
    assert len(list((installed / "data").glob("*.LICENSE.txt"))) == 1
    assert fb.problems.movielens_generated(agents=4, horizon=50).arms == 20
    result = fb.simulate(problem, fb.FedExp3(), gossip, runs=2)
    assert fb.load(result.save("wheel.nc")).dataset.identical(result.dataset)


if __name__ == "__main__":
    main()

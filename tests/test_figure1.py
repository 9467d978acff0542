"""Figure 1, left, at two runs: the files, and the order and level of the curves."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.experiments import figure1

mpl.use("agg")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    out = tmp_path_factory.mktemp("figure1") / "new"
    return out, figure1.left(runs=2, seed=0, out=out)


def test_files(made: tuple[Path, pd.DataFrame]) -> None:
    out, _ = made
    assert sorted(path.name for path in out.iterdir()) == [
        "figure1.csv",
        "figure1_left.pdf",
        "figure1_left.png",
        "figure1_left_exp3.nc",
        "figure1_left_fedexp3.nc",
        "figure1_left_uniform_play.nc",
    ]
    assert (out / "figure1_left.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "figure1_left.pdf").read_bytes().startswith(b"%PDF")


def test_curves_are_those_of_the_results(made: tuple[Path, pd.DataFrame]) -> None:
    out, _ = made
    table = pd.read_csv(out / "figure1.csv")
    assert list(table) == ["network", "algorithm", "time", "mean", "low", "high", "runs"]
    assert set(table["network"]) == {"grid"}
    assert set(table["runs"]) == {2}
    saved = fb.load(out / "figure1_left_fedexp3.nc")
    rows = table[table["algorithm"] == "FedExp3"]
    assert rows["time"].tolist() == saved.dataset["time"].to_numpy().tolist()
    assert rows["mean"].iloc[-1] == pytest.approx(float(saved.band().mean[-1]))


def test_published_against_measured(made: tuple[Path, pd.DataFrame]) -> None:
    _, table = made
    assert len(table) == 5
    at_end = table[table["time"] == 3000].set_index("algorithm")["measured"]
    assert at_end["FedExp3"] < at_end["Exp3"] < at_end["uniform play"]
    # Twice what ten runs must meet; two runs scatter by about 0.7.
    for row in table[table["source"] == "figure 1"].to_dict("records"):
        tolerance = {"FedExp3": 3.0, "Exp3": 6.0}[row["algorithm"]]
        assert row["measured"] == pytest.approx(row["reference"], abs=tolerance)
    uniform = table.set_index("source").loc["exact"]
    assert uniform["measured"] == pytest.approx(uniform["reference"], abs=5)


def test_all_face_the_same_losses_with_the_constants_of_the_paper(
    made: tuple[Path, pd.DataFrame],
) -> None:
    out, _ = made
    results = [fb.load(path) for path in sorted(out.glob("*.nc"))]
    assert len({str(result.config["problem"]) for result in results}) == 1
    for result in results[:2]:
        assert result.config["algorithm"]["learning_rate"]["value"] == 0.1
        assert result.config["algorithm"]["exploration"] == {"name": "Power", "c": 0.01, "a": 1 / 3}

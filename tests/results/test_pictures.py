"""Pictures of results: what they show is what was kept, and what they need is asked for."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import zlib
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.animation import AbstractMovieWriter, writers
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from PIL import Image

import fedbandits as fb
from fedbandits.results.pictures import KINDS, film, network_page
from fedbandits.results.pictures.leaders import OTHERS, Leaders, leaders
from fedbandits.results.plots import COLOURS, figure_of
from tests.figures import check_figure

mpl.use("agg")

PROBLEM = fb.problems.heterogeneous(agents=9, arms=8, horizon=60, gap=0.2, spread=0.3)
GOSSIP = fb.gossip.max_degree(fb.networks.grid(3, 3))
ONE_RESULT = ("network", "arms")
FROM_SNAPSHOTS = [kind for kind in KINDS if kind != "pareto"]


@pytest.fixture(scope="module")
def ours() -> fb.Result:
    return fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=3, record="agents", progress=False)


@pytest.fixture(scope="module")
def alone() -> fb.Result:
    return fb.simulate(PROBLEM, fb.Exp3(), runs=3, record="agents", progress=False)


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_fit_for_a_paper(
    kind: str, ours: fb.Result, alone: fb.Result, tmp_path: Path
) -> None:
    results = [ours] if kind in ONE_RESULT else [ours, alone]
    ax = fb.plot(*results, kind=kind, path=tmp_path / "picture.pdf")
    assert (tmp_path / "picture.pdf").read_bytes().startswith(b"%PDF")
    figure = figure_of(ax)
    assert figure.get_figwidth() <= 5.0  # a column
    check_figure(figure)


@pytest.mark.slow
def test_a_result_draws_itself_on_axes_that_are_there(ours: fb.Result) -> None:
    for kind in KINDS:
        _, ax = plt.subplots()
        assert ours.plot(ax, kind=kind) is ax


@pytest.mark.slow
def test_arms_are_those_of_the_mean_agent(ours: fb.Result) -> None:
    ax = ours.plot(kind="arms")
    [image] = ax.images
    expected = ours.dataset["mean_distribution"].mean("run").transpose("arm", "snapshot")
    np.testing.assert_allclose(np.asarray(image.get_array()), expected)
    assert tuple(image.get_extent())[:2] == (0, 60)
    names = [text.get_text() for text in ax.get_yticklabels()]
    best = int(ours.best_arm.arm)
    assert names == [f"{i} ★" if i == best else str(i) for i in range(8)]


@pytest.mark.slow
def test_disagreement_is_the_mean_over_runs(ours: fb.Result, alone: fb.Result) -> None:
    ax = fb.plot(ours, alone, kind="disagreement")
    for line, result in zip(ax.lines, (ours, alone), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), result.dataset["snapshot"])
        mean = result.dataset["disagreement"].mean("run")
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), mean)
    assert ax.get_legend_handles_labels()[1] == ["FedExp3", "Exp3"]
    wild = ours.dataset["disagreement"].copy(data=np.arange(180).reshape(3, 60) % 7 / 7)
    ax = fb.Result(ours.dataset.assign(disagreement=wild)).plot(kind="disagreement")
    assert ax.get_ylim() == (0, 1)


@pytest.mark.slow
def test_violins_are_of_every_agents_regret(ours: fb.Result) -> None:
    ax = ours.plot(kind="agents")
    medians = [c for c in ax.collections if not isinstance(c, PathCollection)][-1]
    last = medians.get_paths()[-1].vertices
    by_agent = ours.dataset["agent_expected_regret"].mean("run")
    assert np.asarray(last)[0, 1] == pytest.approx(float(by_agent.median()), abs=1e-4)
    assert ax.get_xticks().tolist() == [12, 24, 36, 48, 60]


@pytest.mark.slow
def test_a_short_result_has_a_violin_beside_a_long_one(ours: fb.Result) -> None:
    problem = fb.problems.heterogeneous(agents=9, arms=8, horizon=7)
    short = fb.simulate(problem, fb.FedExp3(), GOSSIP, runs=2, record="agents", progress=False)
    ax = fb.plot({"long": ours, "short": short}, kind="agents")
    check_figure(figure_of(ax))
    [violin] = [c for c in ax.collections if c.get_label() == "short"]
    middle = np.asarray(violin.get_paths()[0].vertices)[:, 0].mean()
    assert ax.get_xlim()[0] < middle == pytest.approx(7, abs=5)


@pytest.mark.slow
def test_violins_among_liars_are_of_the_honest() -> None:
    liars = {4: fb.attacks.promote(1, by=5.0)}
    result = fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, record="agents", liars=liars)
    result.plot(kind="agents")
    result.plot(kind="network")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_agent_alone_has_every_picture(kind: str) -> None:
    problem = fb.problems.bernoulli([0.1, 0.9], horizon=3, agents=1)
    result = fb.simulate(problem, fb.Exp3(), runs=1, record="agents", progress=False)
    check_figure(figure_of(result.plot(kind=kind)))


@pytest.mark.slow
def test_pareto_has_a_place_for_who_sends_nothing(ours: fb.Result, alone: fb.Result) -> None:
    ax = fb.plot({"ours": ours, "alone": alone}, kind="pareto")
    bars = [bar for bar in ax.containers if isinstance(bar, ErrorbarContainer)]
    points = {str(bar.get_label()): np.asarray(bar.lines[0].get_xydata())[0] for bar in bars}
    for name, result in (("ours", ours), ("alone", alone)):
        sent, regret = points[name]
        assert sent == result.communication["bytes"]
        assert regret == pytest.approx(float(result.dataset["regret"].isel(time=-1).mean()))
    shown = [tick for tick in ax.get_xticks() if ax.get_xlim()[0] <= tick <= ax.get_xlim()[1]]
    assert shown[0] == 0
    assert points["alone"][0] == 0


@pytest.mark.slow
def test_agents_have_the_colours_of_their_arms(ours: fb.Result, alone: fb.Result) -> None:
    for result in (ours, alone):
        ax = result.plot(kind="network")
        dots = next(c for c in ax.collections if isinstance(c, PathCollection))
        found = leaders({"x": result})
        seen = [to_hex(colour).upper() for colour in np.asarray(dots.get_facecolor())]
        arms = result.dataset["leading_arm"].isel(run=0, snapshot=-1).to_numpy()
        whole = [colour.upper() for colour in found.colours]
        expected = [whole[i] for i in arms]
        assert (seen if len(seen) == 9 else seen * 9) == expected
        assert found.colours[int(result.best_arm.arm)] == COLOURS[0]
        own = [colour for colour in found.colours if colour != OTHERS]
        assert len(own) == len({*own}) == min(6, len(found.coloured))
        assert sum(share for *_, share in found.shares(-1)) == pytest.approx(1)


def held_in(text: str) -> dict[str, Any]:
    [held] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text)
    found: dict[str, Any] = json.loads(held)
    return found


def unpacked(text: str, dtype: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)


@pytest.mark.slow
def test_the_page_holds_every_snapshot(ours: fb.Result, tmp_path: Path) -> None:
    ours.plot(kind="network", path=tmp_path / "network.html")
    data = held_in((tmp_path / "network.html").read_text())
    frames = unpacked(data["frames"], np.uint8).reshape(60, 9)
    np.testing.assert_array_equal(frames, ours.dataset["leading_arm"].isel(run=0))
    assert data["rounds"] == ours.dataset["snapshot"].to_numpy().tolist()
    links = unpacked(data["links"], np.uint32).reshape(-1, 2)
    np.testing.assert_array_equal(links, GOSSIP.network.edges)
    spots = unpacked(data["spots"], np.uint16).reshape(9, 2)
    assert spots[[0, 8]].tolist() == [[0, 0], [65535, 65535]]  # the first row is the upper one


@pytest.mark.slow
def test_a_loaded_result_knows_its_network_or_asks_for_it(ours: fb.Result, tmp_path: Path) -> None:
    loaded = fb.load(ours.save(tmp_path / "named.nc"))
    loaded.plot(kind="network", path=tmp_path / "named.html")
    edges = fb.gossip.max_degree(fb.networks.from_edges(9, GOSSIP.network.edges))
    own = fb.simulate(PROBLEM, fb.FedExp3(), edges, runs=1, record="agents")
    nameless = fb.load(own.save(tmp_path / "nameless.nc"))
    with pytest.raises(ValueError, match=r"fb\.Result\(result\.dataset, gossip\)\.plot\(kind="):
        nameless.plot(kind="network")
    fb.Result(nameless.dataset, edges).plot(kind="network")


@pytest.mark.slow
def test_draws_are_averaged_but_the_network_is_of_the_first(tmp_path: Path) -> None:
    result = fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=2, draws=2, record="agents")
    for kind in KINDS:
        result.plot(kind=kind)
    found = leaders({"FedExp3": result})
    assert found.title == "FedExp3, grid(rows=3, cols=3), draw 0, run 0"
    np.testing.assert_array_equal(found.arm, result.dataset["leading_arm"].isel(draw=0, run=0))


@pytest.mark.slow
def test_a_gif(ours: fb.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "FRAMES", 5)
    path = tmp_path / "new" / "network.gif"
    ours.plot(kind="network", path=path)
    with Image.open(path) as picture:
        assert picture.n_frames == 5  # type: ignore[attr-defined]
        assert picture.size[0] == 460
        for frame in range(5):
            picture.seek(frame)
            seen = {colour for _, colour in picture.convert("RGB").getcolors(10**6)}  # type: ignore[union-attr]
            # Every colour of the legend, as it is, in every frame.
            for _, colour, _ in leaders({"x": ours}).shares(-1):
                assert tuple(bytes.fromhex(colour[1:])) in seen
    assert [file.name for file in path.parent.iterdir()] == ["network.gif"]


class Writer(AbstractMovieWriter):
    """Stands in for ffmpeg: counts the frames."""

    def setup(self, fig: Any, outfile: Any, dpi: Any = None) -> None:
        super().setup(fig, outfile, dpi)
        self.frames = 0

    def grab_frame(self, **savefig_kwargs: Any) -> None:
        self.fig.canvas.draw()
        self.frames += 1

    def finish(self) -> None:
        Path(self.outfile).write_text(f"{self.frames} frames")


@pytest.mark.slow
def test_an_mp4(ours: fb.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "FRAMES", 5)
    monkeypatch.setitem(writers._registered, "ffmpeg", Writer)  # type: ignore[attr-defined]
    monkeypatch.setattr(Writer, "isAvailable", lambda: True, raising=False)
    ours.plot(kind="network", path=tmp_path / "network.mp4")
    assert (tmp_path / "network.mp4").read_text() == "5 frames"
    assert [file.name for file in tmp_path.iterdir()] == ["network.mp4"]

    def fail(_: Writer) -> None:
        raise subprocess.CalledProcessError(228, "ffmpeg", stderr="No space left on device\n")

    with monkeypatch.context() as full:
        full.setattr(Writer, "finish", fail)
        with pytest.raises(OSError, match=r"^ffmpeg failed .*: No space left on device$"):
            ours.plot(kind="network", path=tmp_path / "network.mp4")
    assert (tmp_path / "network.mp4").read_text() == "5 frames"
    monkeypatch.setattr(writers, "is_available", lambda _: False)
    with pytest.raises(ValueError, match=r"network\.mp4 needs ffmpeg, which is not installed"):
        ours.plot(kind="network", path=tmp_path / "network.mp4")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FROM_SNAPSHOTS)
def test_without_snapshots_the_very_call_is_named(kind: str) -> None:
    plain = fb.simulate(PROBLEM, fb.FedExp3(), GOSSIP, runs=1, seed=5)
    call = (
        r"fb\.simulate\(problem, algorithm, gossip, runs=1, seed=5, record=\"agents\"\), or write "
        r"record = \"agents\" in its configuration file"
    )
    with pytest.raises(ValueError, match=f"kind='{kind}' needs snapshots.*FedExp3.*{call}"):
        plain.plot(kind=kind)
    plain.plot(kind="pareto")


@pytest.mark.slow
def test_refusals(ours: fb.Result, alone: fb.Result, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown kind 'netwrok'; did you mean 'network'"):
        ours.plot(kind="netwrok")
    for kind in ONE_RESULT:
        with pytest.raises(ValueError, match=rf"kind='{kind}' shows one result, not 2"):
            fb.plot(ours, alone, kind=kind)
    with pytest.raises(ValueError, match="bounds are of the regret"):
        ours.plot(kind="arms", bounds=True)
    with pytest.raises(ValueError, match=r"cannot save a figure as x\.xyz"):
        ours.plot(kind="network", path=tmp_path / "x.xyz")


def made(network: fb.Network, arms: int, snapshots: int, seed: int = 0) -> Leaders:
    """Leaders by chance: what packs worst."""
    shape = (snapshots, network.agents)
    kind = np.min_scalar_type(arms - 1)
    return Leaders(
        "by </script> chance",
        network,
        np.arange(1, snapshots + 1),
        snapshots,
        np.random.default_rng(seed).integers(arms, size=shape).astype(kind),
        [str(v) for v in range(network.agents)],
        [f"arm </script> {i}" for i in range(arms)],
        [0, 1],
        [*COLOURS[:2], *[OTHERS] * (arms - 2)],
        np.zeros(snapshots, np.float32),
    )


def test_names_cannot_end_the_script() -> None:
    text = network_page.page(made(fb.networks.ring(4), 3, 2))
    assert text.count("</script>") == 2
    assert "by &lt;/script&gt; chance" in text


@pytest.mark.slow
@pytest.mark.parametrize(("agents", "arms"), [(3364, 20), (3364, 300), (50_000, 20)])
def test_a_page_weighs_less_than_5_mb_whatever_it_shows(agents: int, arms: int) -> None:
    snapshots = min(500, 2**27 // (5 * agents))
    network = fb.networks.square_grid(agents)
    assert len(network_page.page(made(network, arms, snapshots)).encode()) < 5_000_000


def test_a_page_of_too_many_agents_or_links() -> None:
    with pytest.raises(ValueError, match="a page shows up to 100,000 agents, not 100,001"):
        network_page.page(made(fb.networks.path(100_001), 2, 2))
    data = held_in(network_page.page(made(fb.networks.complete(400), 2, 2)))
    assert data["left_out"] == 79_800
    assert not len(unpacked(data["links"], np.uint32))


def test_layouts() -> None:
    network = fb.networks.preferential_attachment(600, 2, seed=1)
    where = network.layout()
    assert where.shape == (600, 2)
    assert all(sorted(axis) == list(range(600)) for axis in where.T)  # spread evenly
    apart = fb.networks.from_edges(600, [(0, 1)])
    np.testing.assert_allclose(np.hypot(*apart.layout().T), 1)
    grid = fb.networks.grid(2, 3)
    assert grid.positions is not None
    np.testing.assert_array_equal(grid.layout(), grid.positions)

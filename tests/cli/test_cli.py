"""The command line: what each command prints and writes, and how it fails."""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedbandits as fb
from fedbandits.cli.commands import app
from fedbandits.config.catalogue import REGISTRIES
from fedbandits.config.experiment import Experiment
from fedbandits.paper.section import SectionTable
from tests.instances import SMALL_CONFIG


def call(*args: str | Path) -> Result:
    plain = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner(env=plain).invoke(app, [str(arg) for arg in args])


def refused(*args: str | Path, status: int = 2) -> str:
    """Return the errors of a command that fails."""
    failed = call(*args)
    assert failed.exit_code == status
    return failed.stderr


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_CONFIG)
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    (folder / "small.toml").write_text(SMALL_CONFIG)
    assert call("run", folder / "small.toml", "--out", folder).exit_code == 0
    return folder / "small.nc"


@pytest.mark.parametrize(
    ("words", "fixes"),
    [
        (["--seeds", "3"], ["--set seed=3"]),
        (["--seed=3"], ["--set seed=3"]),
        (["--horizon", "100"], ["--set problem.horizon=100"]),
        (["--learning-rate", "0.1"], ["--set algorithm.learning_rate=0.1"]),
        (["--agents", "9"], ["--set network.agents=9", "--set problem.agents=9"]),
        (["--dtype"], ["--set dtype=VALUE"]),
        (["--runs", "two words"], ["--set 'runs=two words'"]),
        (["--xyzzy", "1"], []),
    ],
)
def test_keys_that_are_written_as_options(small: Path, words: list[str], fixes: list[str]) -> None:
    for command in ("run", "bounds"):
        done = call(command, small, *words)
        assert done.exit_code == 2
        said = " ".join(done.stderr.replace("│", " ").split())
        found = re.search(r"\(Possible options: (.*)\)", said)
        assert (found[1] if found else "") == ", ".join(fixes)
    assert "--dry-run" in call("run", small, "--dry-rum").stderr


def test_keys_are_options_of_no_other_command(saved: Path) -> None:
    assert "--set" not in call("plot", saved, "--seeds", "3").stderr


def test_run(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    done = call("run", small, "--out", out, "--set", "seed=3")
    assert done.exit_code == 0, done.stderr
    assert "FedExp3: 4 agents, 3 arms, 20 rounds, 2 runs" in done.stdout
    result = fb.load(out / "small.nc")
    assert result.config["seed"] == 3
    assert f" {float(result.band().mean[-1]):.2f} " in done.stdout
    # Two neighbours each, three float32 numbers to either.
    assert "2.00 messages, 24 bytes per agent and round" in done.stdout
    assert "z (estimate, 24 bytes)" in done.stdout
    assert "recommended arm: " in done.stdout
    for ending in ("nc", "png", "pdf"):
        assert f"wrote {out / f'small.{ending}'}\n" in done.stdout
        assert (out / f"small.{ending}").stat().st_size > 0


@pytest.mark.slow
def test_run_quietly_prints_only_files(small: Path, tmp_path: Path) -> None:
    done = call("run", small, "--out", tmp_path / "out", "--quiet")
    files = [str(tmp_path / "out" / f"small.{ending}") for ending in ("nc", "png", "pdf")]
    assert done.stdout.split("\n") == [*files, ""]
    assert done.stderr == ""


@pytest.mark.slow
def test_run_without_communication(small: Path, tmp_path: Path) -> None:
    done = call("run", small, "--out", tmp_path, "--set", "algorithm.name=Exp3")
    assert "communication: none" in done.stdout


@pytest.mark.slow
def test_run_says_what_noise_protects(small: Path, tmp_path: Path) -> None:
    noised = "algorithm={name='PrivateFedExp3', block=5}"
    done = call("run", small, "--out", tmp_path, "--set", noised)
    said = "privacy: ε = 1 per round for the arm and the loss of one agent (event level)"
    assert said in done.stdout
    assert said in repr(fb.load(tmp_path / "small.nc"))


def test_communication_of_an_older_file_without_bytes_by_leaf(saved: Path, tmp_path: Path) -> None:
    from fedbandits.cli.tables import communication_line

    result = fb.load(saved)
    older = {k: v for k, v in result.communication.items() if k != "leaf_bytes"}
    result.dataset.attrs["communication"] = json.dumps(older)
    loaded = fb.load(result.save(tmp_path / "older.nc"))
    assert communication_line(loaded).endswith("leaves the agent: z (estimate)")


@pytest.mark.slow
@pytest.mark.filterwarnings("default:the theorem's")
def test_a_warning_is_one_line(small: Path, tmp_path: Path) -> None:
    done = call("run", small, "--out", tmp_path, "--set", "algorithm.from_theorem=true")
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: the theorem's exploration rate")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "problem.agnts=4"], "did you mean 'agents'?"),
        (["--set", "runs=0"], "runs must be a whole number of at least 1, not 0"),
        (["--set", "sweeep.zip=1"], "'sweeep'; did you mean 'sweep'?"),
        (["--set", "runs"], "--set runs: expected section.key=value"),
    ],
)
def test_errors_are_one_line(small: Path, args: list[str], message: str) -> None:
    failed = call("run", small, *args)
    assert failed.exit_code == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith("error: ")
    assert message in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_section_names_survive_in_errors(small: Path) -> None:
    failed = call("run", small, "--set", "problem.arms=1")
    assert f"{small} [problem] with --set problem.arms=1: arms must be" in failed.stderr


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    failed = call("run", tmp_path / "nowhere.toml")
    assert failed.exit_code == 2
    assert failed.stderr == f"error: no configuration file at {tmp_path / 'nowhere.toml'}\n"
    (tmp_path / "foreign.nc").write_text("not a result")
    failed = call("plot", tmp_path / "foreign.nc")
    assert failed.exit_code == 2
    assert "is not a readable NetCDF file" in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_an_unwritable_folder_is_refused_before_the_run(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Experiment, "simulate")
    failed = call("run", small, "--out", small)  # a file where a folder should be
    assert failed.exit_code == 2
    assert failed.stderr.startswith(f"error: the folder {small} cannot be made (")
    assert failed.stderr.endswith("); choose another --out\n")


LIMITED = """
import resource, sys
from fedbandits.cli.commands import app
resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, resource.RLIM_INFINITY))
app(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are POSIX")
@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("run", "small.nc"),
        pytest.param("reproduce", "figure1_left_fedexp3.nc", marks=pytest.mark.soak),
    ],
)
def test_a_file_without_room_ends_in_one_line(
    small: Path, tmp_path: Path, command: str, file: str
) -> None:
    """A file may not grow beyond a limit: the system fails in the middle, as on a full disk."""
    out = tmp_path / "out"
    small.write_text(small.read_text().replace("horizon = 20", "horizon = 2000"))
    what = [str(small)] if command == "run" else ["figure1", "--quick"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, command, *what, "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"FEDBANDITS_COMPILE_CACHE": "off"},
    )
    assert done.returncode == 2, done.stderr
    pattern = (
        rf"error: {re.escape(str(out / file))}: File too large: the file needs [\d,]+ bytes, and "
        r"[\d,]+ bytes are free; make room there, or choose another folder\n"
    )
    assert re.fullmatch(pattern, done.stderr), done.stderr
    assert not list(out.iterdir())


def test_a_run_whose_folder_is_full_is_kept_elsewhere(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, spare = tmp_path / "out", tmp_path / "spare"
    spare.mkdir()
    sync = os.fsync

    def fail_once(_: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail_once)
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    failed = call("run", small, "--out", out)
    assert failed.exit_code == 2
    error, note = failed.stderr.splitlines()
    assert error.startswith(f"error: {out / 'small.nc'}: No space left on device: the file needs ")
    [kept] = spare.rglob("*.nc")
    assert note == f"the result is in {kept}; move it to keep it"
    assert fb.load(kept).config["runs"] == 2
    assert not list(out.iterdir())


@pytest.mark.parametrize("checkpoint", [True, False])
def test_interrupted(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool
) -> None:
    def stop(self: Experiment, **kwargs: object) -> None:
        raise KeyboardInterrupt("stopped after round 10 of 20")

    monkeypatch.setattr(Experiment, "simulate", stop)
    folder = tmp_path / "my checkpoints"
    keep = ["--checkpoint", str(folder)] if checkpoint else []
    stopped = call("run", small, "--set", "runs=3", "--out", tmp_path / "o", *keep)
    assert stopped.exit_code == 130
    assert stopped.stderr.startswith("stopped after round 10 of 20; ")
    resume = f"fedbandits run {small} --set runs=3 --out {tmp_path / 'o'} --checkpoint '{folder}'"
    assert (resume in stopped.stderr) == checkpoint
    assert ("nothing is kept" in stopped.stderr) != checkpoint


def test_one_run_has_no_band(small: Path, tmp_path: Path) -> None:
    why = "One run has no 95% interval: use at least two runs."
    small.write_text(small.read_text().replace("runs = 2", "runs = 1"))
    printed = [call("run", small, "--out", tmp_path)]
    swept = ["--set", "algorithm.learning_rate=[0.1, 0.2]", "--out", str(tmp_path / "swept")]
    printed += [call("run", small, *swept), call("results", tmp_path / "swept" / "small")]
    for done in printed:
        assert done.exit_code == 0, done.stderr
        assert why in done.stdout
        assert "nan" not in done.stdout.lower()
    rows = call("results", tmp_path / "swept" / "small", "--csv", "-").stdout.splitlines()
    assert re.match(r"0\.1,done,[\d.]+,,,,", rows[1])
    assert why not in call("run", small, "--out", tmp_path, "--set", "runs=2", "--force").stdout


def test_network() -> None:
    done = call("network", "grid:6,6", "--horizon", "1000")
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    rows = {line[0]: line[-1] for line in lines}
    assert rows["agents"] == "36"
    assert rows["edges"] == "60"
    assert rows["diameter"] == "10"
    assert rows["connected"] == "yes"
    network = fb.networks.grid(6, 6)
    for name, gossip in {
        "max_degree": fb.gossip.max_degree(network),
        "max_degree(lazy=False)": fb.gossip.max_degree(network, lazy=False),
        "metropolis": fb.gossip.metropolis(network),
    }.items():
        assert float(rows[name]) == pytest.approx(gossip.c_w(1000), rel=1e-3)
    assert "fastest" not in done.stdout
    assert "--picture" in done.stdout


def test_network_with_the_fastest_gossip() -> None:
    assert "fastest" in call("network", "ring:4", "--fastest").stdout


def test_network_picture(tmp_path: Path) -> None:
    picture = tmp_path / "ring.png"
    done = call("network", "ring:5", "--picture", picture)
    assert done.exit_code == 0, done.stderr
    assert f"wrote {picture}" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_disconnected_network_is_described_as_far_as_it_goes(tmp_path: Path) -> None:
    import networkx as nx

    path = tmp_path / "two.graphml"
    nx.write_graphml(nx.disjoint_union(nx.path_graph(2), nx.path_graph(3)), path)
    done = call("network", path)
    assert done.exit_code == 0, done.stderr
    assert "infinite: not connected" in done.stdout
    assert "no gossip" in done.stdout
    assert "max_degree" not in done.stdout


def test_a_network_with_a_typo() -> None:
    assert "did you mean 'grid'?" in refused("network", "gird:6,6")


def test_colons_in_errors_are_no_emoji() -> None:
    assert "error: network ring:a: agents must be" in call("network", "ring:a").stderr


def test_list_in_a_process_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedbandits", "list"], capture_output=True, text=True, check=True
    )
    for registry in REGISTRIES.values():
        for name in registry:
            assert f"{name}(" in done.stdout
    assert "not a privacy guarantee" in done.stdout
    assert done.stdout.count("privacy: ε = epsilon per round for") == 2
    assert done.stderr == ""


def test_help_and_list_load_nothing_heavy() -> None:
    code = (
        "import sys; from fedbandits.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'scipy', 'matplotlib', 'xarray', 'pandas', 'networkx'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_version() -> None:
    assert call("--version").stdout == f"fedbandits {fb.__version__}\n"


def test_plot(saved: Path, tmp_path: Path) -> None:
    figure = tmp_path / "both.pdf"
    done = call("plot", saved, saved, "--label", "a", "--label", "b", "--out", figure)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"wrote {figure}\n"
    assert figure.read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_run_and_plot_every_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL_CONFIG)
    done = call("run", "small.toml", "--set", "record=agents", "--quiet")
    assert done.exit_code == 0, done.stderr
    for target in ("network.html", "arms.pdf", "pareto.pdf"):
        kind = Path(target).stem
        done = call("plot", Path("out", "small.nc"), "--kind", kind)
        assert done.exit_code == 0, done.stderr
        assert done.stdout == f"wrote {Path('out', target)}\n"
        assert Path("out", target).stat().st_size > 0


def test_plot_says_what_a_picture_needs(saved: Path, tmp_path: Path) -> None:
    failed = call("plot", saved, "--kind", "network", "--out", tmp_path / "x.html")
    assert failed.exit_code == 2
    assert 'record = "agents" in its configuration file' in " ".join(failed.stderr.split())


@pytest.mark.slow
def test_plot_names_curves_by_algorithm_and_file(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits.results import plots

    seen: list[str] = []
    original = plots.plot_regret

    def spy(results: dict[str, fb.Result], *args: Any, **kwargs: Any) -> object:
        seen.extend(results)
        return original(results, *args, **kwargs)

    monkeypatch.setattr(plots, "plot_regret", spy)
    other = tmp_path / "other.nc"
    other.write_bytes(saved.read_bytes())
    call("plot", saved, other, "--out", tmp_path / "x.png")
    assert seen == ["FedExp3, small", "FedExp3, other"]  # alike in all but the file
    seen.clear()
    data = fb.load(saved).dataset
    config = data.attrs["config"].replace('"max_degree"', '"metropolis"')
    fb.Result(data.assign_attrs(config=config)).save(other)
    call("plot", saved, other, "--out", tmp_path / "x.png")
    assert seen == ["FedExp3, max_degree(lazy=true)", "FedExp3, metropolis(lazy=true)"]


def test_plot_with_too_few_labels(saved: Path) -> None:
    assert "2 results need as many different labels, not a" in refused(
        "plot", saved, saved, "--label", "a"
    )


def test_reproduce_with_a_typo() -> None:
    assert "did you mean 'figure1'?" in refused("reproduce", "figur1")


def test_bounds(small: Path) -> None:
    done = call("bounds", small)
    assert done.exit_code == 0, done.stderr
    for name in ("mean agent", "Theorem 1", "Theorem 2", "Theorem 3", "uniform play"):
        assert name in done.stdout


def test_reproduce_prints_tables_and_reports_what_is_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits import paper

    def part(name: str) -> Callable[[paper.PartOptions], paper.Section]:
        def play(options: paper.PartOptions) -> paper.Section:
            table = SectionTable("T", ("what", "value"), [(name, str(options.seed))], "a note")
            return paper.Section(name, name, options.command(name), ["found"], tables=[table])

        return play

    parts = {name: part(name) for name in ("one", "two")}
    monkeypatch.setattr(paper, "REGISTRY", parts)
    done = call("reproduce", "two", "--seed", "7", "--out", tmp_path / "new")
    assert done.exit_code == 0, done.stderr
    for text in ("two", "7", "a note", "found", f"wrote {tmp_path / 'new' / 'report.html'}"):
        assert text in done.stdout
    done = call("reproduce", "one", "--out", tmp_path / "new")
    report = (tmp_path / "new" / "report.html").read_text()
    assert "fedbandits reproduce two --seed 7" in report
    assert "fedbandits reproduce one" in report


def test_a_study_beyond_the_paper_names_its_command(tmp_path: Path) -> None:
    from fedbandits.paper import STUDIES

    for name in STUDIES:
        failed = call("reproduce", name, "--out", tmp_path / "new")
        assert failed.exit_code == 2
        assert f"run `python -m studies {name}` in a source checkout" in failed.stderr
    assert not (tmp_path / "new").exists()


def test_data_says_where_the_zip_is(tmp_path: Path) -> None:
    from fedbandits.data import embedded

    (tmp_path / "ml-32m.zip").write_bytes(embedded().read_bytes())
    done = call("data", "movielens", "ml-32m", "--folder", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert f"fedbandits reproduce figure2 --data {tmp_path / 'ml-32m.zip'}" in done.stdout
    done = call("data", "movielens", "ml-33m", "--folder", tmp_path)
    assert "did you mean 'ml-32m'?" in done.stderr


def test_data_goes_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def download(release: str, folder: Path) -> Path:
        asked.append(folder)
        return folder / f"{release}.zip"

    monkeypatch.setattr("fedbandits.data.download.download", download)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert call("data", "movielens", "ml-latest-small").exit_code == 0
    assert asked == [tmp_path / "fedbandits"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["figure1", "--data", "generated"], "--data generated is for figure2; leave it out"),
        (["--data", "typo.zip"], "--data typo.zip: neither embedded nor generated, and no file"),
    ],
)
def test_reproduce_refuses_before_it_plays(args: list[str], message: str, tmp_path: Path) -> None:
    assert message in refused("reproduce", *args, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_part_that_fails_leaves_no_old_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits import paper

    def fails(options: paper.PartOptions) -> paper.Section:
        raise ValueError("no luck")

    paper.Section("one", "One", "fedbandits reproduce one").save(tmp_path)
    monkeypatch.setattr(paper, "REGISTRY", {"one": fails})
    assert call("reproduce", "--out", tmp_path).exit_code == 2
    assert not (tmp_path / "one.json").exists()


def test_quick_parts_say_so_and_stay_out_of_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits import paper

    seen: list[Path] = []

    def part(options: paper.PartOptions) -> paper.Section:
        seen.append(options.out)
        return paper.Section("one", "One", options.command("one"))

    monkeypatch.setattr(paper, "REGISTRY", {"one": part})
    monkeypatch.chdir(tmp_path)
    assert call("reproduce", "--quick").exit_code == 0
    assert call("reproduce").exit_code == 0
    assert seen == [Path("out/quick"), Path("out")]
    assert "One (quick)" in Path("out/quick/report.html").read_text()
    assert "Not evidence." in Path("out/quick/report.html").read_text()
    assert "quick" not in Path("out/report.html").read_text()


def test_an_interrupted_part_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedbandits import paper

    def done(options: paper.PartOptions) -> paper.Section:
        return paper.Section("one", "One", options.command("one"))

    def stopped(options: paper.PartOptions) -> paper.Section:
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "REGISTRY", {"one": done, "two": stopped})
    failed = call("reproduce", "--out", tmp_path)
    assert failed.exit_code == 130
    said = f"stopped in two, which starts again next time; parts done are kept in {tmp_path}"
    assert said in failed.stderr
    assert "One" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("done_before", [0, 1])
def test_a_part_that_keeps_its_cells_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done_before: int
) -> None:
    """Whether it does is seen in what it has kept, not in its name."""
    from fedbandits import paper
    from fedbandits.paper.cells import kept_cells

    played: list[int] = []
    left = [done_before]

    def play(cell: int) -> int:
        if len(played) >= left[0]:
            raise KeyboardInterrupt
        played.append(cell)
        return cell

    def two(options: paper.PartOptions) -> paper.Section:
        kept = kept_cells(options, "two", "about").keeping(int, play)
        assert [kept(1), kept(2)] == [1, 2]
        return paper.Section("two", "Two", options.command("two"))

    def one(options: paper.PartOptions) -> paper.Section:
        return paper.Section("one", "One", options.command("one"))

    monkeypatch.setattr(paper, "REGISTRY", {"one": one, "two": two})
    out = tmp_path / "my out"
    stopped = call("reproduce", "--seed", "3", "--out", out)
    assert stopped.exit_code == 130
    assert ("starts again" in stopped.stderr) == (not done_before)
    said = stopped.stderr.replace("\n", "")
    command = f"fedbandits reproduce two --seed 3 --out '{out}'; parts done are kept in {out}"
    assert (f"finished cells are kept; to continue: {command}" in said) == bool(done_before)
    left[0] = 2
    assert call("reproduce", "two", "--seed", "3", "--out", out).exit_code == 0
    assert played == [1, 2]  # neither twice


def test_bounds_need_a_network(small: Path) -> None:
    text = small.read_text().replace("FedExp3", "Exp3")
    small.write_text(re.sub(r"\[(network|gossip)\][^\[]*", "", text))
    assert "bounds need a [network] and a [gossip]; add them" in refused("bounds", small)

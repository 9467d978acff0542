"""What pages say was measured, is kept, and is filled in by a command, never typed."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from fedbandits.paper.digests import changed, digests
from fedbandits.paper.section import versions
from fedbandits.results.communication import communication
from studies import leaderboard, suite
from tests.engine.simulations import prepare
from tests.pages.source import name_of

FILL = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "fill.py"))

SECTION: dict[str, Any] = {
    "name": "suite",
    "title": "The suite",
    "command": "python -m studies suite",
    "paragraphs": ["It was found.", "Twice."],
    "pictures": [["drawn", "", ""], ["other", "", ""]],
    "versions": {"device": "2 × abacus", "jax": "0.9"},
    "tables": [{"title": "T", "columns": ["a", "b"], "rows": [["x", "1"]], "note": "Read so."}],
}

AWAITED = {"live", "robustness"}
"""Parts that take long, and whose last run is older than what pages must say of them, or
than the draws of today: `bernoulli`, `heterogeneous` draw other coins now."""

UNTOLD = {
    *("figure1", "figure1_older", "figure2", "figure2_older", "figure2_generated"),
    *("theory", "theory_older", "horizons", "linear", "leaks", "cdn"),
}
"""Kept before sections told what seeds draw; the families they play have not changed since."""


def test_a_page_is_filled_and_filled_again() -> None:
    table = "<!-- table: suite / T -->\nold\n<!-- end -->"
    page = f"Before\n\n{table}\n\n<!-- findings: suite -->\n<!-- end -->\n"
    once = FILL["filled"](page, {"suite": SECTION})
    assert "| a | b |\n| --- | ---: |\n| x | 1 |\n\n*Read so.*\n" in once
    assert "By `python -m studies suite`, on 2 × abacus, JAX 0.9." in once
    older = SECTION | {"command": "fedbandits reproduce suite"}
    assert FILL["filled"](page, {"suite": older}) == once
    assert "It was found.\n\nTwice.\n" in once
    assert "old" not in once
    assert FILL["filled"](once, {"suite": SECTION}) == once
    assert FILL["filled"](once, {}) == once


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ({"play": 250.4}, ", in 4 min 10 s."),
        ({"play": 30.2, "draw": 1.6}, ", in 32 s."),
        ({"play": 3600.0}, ", in 60 min 0 s."),
        ({}, "JAX 0.9."),
    ],
)
def test_a_page_says_how_long_it_took_where_that_is_kept(
    seconds: dict[str, float], told: str
) -> None:
    page = "<!-- findings: suite -->\n<!-- end -->"
    text = FILL["filled"](page, {"suite": SECTION | {"seconds": seconds}})
    assert f"on 2 × abacus, JAX 0.9{told.removeprefix('JAX 0.9')}\n" in text


def test_times_and_draws_are_kept_but_no_time_of_what_was_stopped(folder: Path) -> None:
    told = {"seconds": {"play": 61.0}, "draws": {"bernoulli": "01234567"}}
    for resumed in (False, True):
        (folder / "suite.json").write_text(json.dumps(SECTION | told | {"resumed": resumed}))
        FILL["main"](folder)
        kept = json.loads((folder / "kept" / "suite.json").read_text())
        assert kept["draws"] == told["draws"]
        assert ("seconds" in kept) != resumed
        assert (", in 1 min 1 s." in (folder / "page.md").read_text()) != resumed


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match="suite has no table 'U', only T"):
        FILL["filled"]("<!-- table: suite / U -->\n<!-- end -->", {"suite": SECTION})
    with pytest.raises(SystemExit, match="no summary 'papers', only paper, speed"):
        FILL["filled"]("<!-- summary: papers -->\n<!-- end -->", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pages and what is kept, in a folder of their own."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "shown").mkdir()
    (tmp_path / "page.md").write_text("<!-- findings: suite -->\n<!-- end -->\n")
    scope = FILL["main"].__globals__
    monkeypatch.setitem(scope, "PAGES", (tmp_path / "page.md",))
    monkeypatch.setitem(scope, "KEPT", tmp_path / "kept")
    monkeypatch.setitem(scope, "PICTURES", tmp_path / "shown")
    return tmp_path


@pytest.mark.parametrize(
    "changed",
    [
        {"command": "python -m studies suite --quick"},
        {"command": "python -m studies suite --seed 3"},
        {"versions": SECTION["versions"] | {"XLA_FLAGS": "--xla_cpu_max_isa=AVX"}},
    ],
    ids=str,
)
def test_only_what_pages_name_is_evidence(
    folder: Path, changed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "suite.json").write_text(json.dumps(SECTION | changed))
    FILL["main"](folder)
    assert "found" not in (folder / "page.md").read_text()
    assert "suite.json: not of the pages, left out" in capsys.readouterr().out
    (folder / "suite.json").write_text(json.dumps(SECTION))
    FILL["main"](folder)
    assert "It was found." in (folder / "page.md").read_text()


def test_other_data_and_other_processors_are_kept_under_names_of_their_own(folder: Path) -> None:
    flags = {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}
    embedded = SECTION | {"name": "figure2", "command": "fedbandits reproduce figure2"}
    generated = embedded | {"command": "fedbandits reproduce figure2 --data generated"}
    older = embedded | {"versions": SECTION["versions"] | flags}
    for i, section in enumerate((embedded, generated, older)):
        (folder / f"{i}.json").write_text(json.dumps(section))
    FILL["main"](folder)
    kept = {
        file.stem: json.loads(file.read_text())["command"] for file in folder.glob("kept/*.json")
    }
    assert kept == {
        "figure2": "fedbandits reproduce figure2",
        "figure2_generated": "fedbandits reproduce figure2 --data generated",
        "figure2_older": "fedbandits reproduce figure2",
    }


def test_pictures_on_pages_are_those_of_the_kept_run(folder: Path) -> None:
    (folder / "shown" / "drawn.png").write_text("old")
    for name in ("drawn", "other"):
        (folder / f"{name}.png").write_text("new")
    (folder / "suite.json").write_text(json.dumps(SECTION))
    FILL["main"](folder)
    shown = {file.name: file.read_text() for file in (folder / "shown").iterdir()}
    assert shown == {"drawn.png": "new"}


def table(title: str, *lines: str) -> dict[str, Any]:
    columns, *rows = (line.split(" | ") for line in lines)
    return {"title": title, "columns": columns, "rows": rows, "note": ""}


def parts(left: str, exponent: str) -> dict[str, dict[str, Any]]:
    """What the summary of the paper is made from."""
    figure1 = [
        table(
            "Left: regret on the grid",
            "algorithm | t | reference | measured | 95% band",
            "FedExp3 | 500 | 9.0 | 8.00 | 7.00 to 9.00",
            f"FedExp3 | 3,000 | 33.6 | {left} | 32.00 to 34.00",
            "Exp3 | 3,000 | 68.5 | 68.00 | 67.00 to 69.00",
        ),
        table(
            "Right: the line",
            "of the line | published | measured | 95%",
            "R² | 0.980 | 0.900 | 0.850 to 0.950",
        ),
    ]
    figure2 = table(
        "Regret at T",
        "regret at T | measured | 95% band",
        "FedExp3, grid | 29.00 | 28.00 to 30.00",
        "GossipUCB, grid | 74.00 | 74.00 to 74.00",
    )
    theory = table(
        "Lower bound: growth",
        "far agent's regret | theory | fitted exponent | 95% interval",
        f"FedExp3, in T | 0.500 | {exponent} | 0.450 to 0.550",
        "uniform play, in T | 0.500 | 0.497 | 0.450 to 0.550",
    )
    tables = {"figure1": figure1, "figure2": [figure2], "theory": [theory]}
    return {name: SECTION | {"tables": of} for name, of in tables.items()}


def test_the_paper_stands_beside_both_processors() -> None:
    """Two numbers move, by 0.5 of an interval of 2 and by 0.01 of one of 0.1."""
    here, older = parts("33.00", "0.500"), parts("33.50", "0.510")
    kept = here | {f"{name}_older": section for name, section in older.items()}
    text = FILL["filled"]("<!-- summary: paper -->\n<!-- end -->", kept)
    assert "grid: regret of FedExp3 | 33.6 | 33.00 (32.00 to 34.00) | 33.50 |" in text
    assert "source tree, grid: regret of FedExp3 | - | 29.00 (28.00 to 30.00) | 29.00 |" in text
    assert "FedExp3 | 0.500 | 0.500 (0.450 to 0.550) | 0.510 |" in text
    assert "round otherwise: 2 of 6 numbers move, by at most 25% of their intervals' width." in text
    same = here | {f"{name}_older": section for name, section in here.items()}
    assert "0 of 6 numbers move." in FILL["filled"](text, same)
    del kept["theory_older"]
    assert FILL["filled"](text, kept) == text


@pytest.mark.parametrize("flags", ["", "--xla_cpu_max_isa=SSE4_2"])
def test_sections_say_what_they_were_computed_on(
    flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", flags)
    found = versions()
    assert found.get("XLA_FLAGS", "") == flags
    assert not found["device"].endswith("× cpu")  # which one?


# The pages themselves.


def places(page: Path) -> list[Any]:
    return list(FILL["MARKED"].finditer(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", FILL["PAGES"], ids=name_of)
def test_pages_say_what_was_found(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert FILL["filled"](text, FILL["all_kept"]()) == text


@pytest.mark.parametrize("page", FILL["PAGES"], ids=name_of)
def test_every_place_is_filled_from_what_is_kept(page: Path) -> None:
    kept = set(FILL["all_kept"]())
    for place in places(page):
        assert FILL["needed"](place) <= kept | AWAITED
        assert place["body"].strip()
        assert (place["kind"] == "table") == (place["title"] is not None)


def test_every_kept_result_is_on_a_page() -> None:
    shown = {
        name for page in FILL["PAGES"] for place in places(page) for name in FILL["needed"](place)
    }
    assert set(FILL["all_kept"]()) - {"latest"} <= shown


def current(name: str, kept: dict[str, Any]) -> bool:
    """Whether a part is kept, stands on the draws of today and says what it must."""
    if name not in kept or not same_draws(name, kept[name]):
        return False
    said = " ".join(kept[name]["paragraphs"])
    if name == "suite":
        return suite.IN_VIEW in said
    if name == "leaderboard":
        return leaderboard.IN_VIEW in said and kept_bytes(kept[name]) == counted_bytes()
    return True


def same_draws(name: str, section: dict[str, Any]) -> bool:
    """Whether seeds draw what they drew for a section, as far as it tells."""
    if "draws" not in section:
        return name in UNTOLD
    return not changed(section["draws"])


def test_what_stands_on_other_draws_is_awaited() -> None:
    now = digests()
    said = SECTION | {"paragraphs": [suite.IN_VIEW]}
    assert current("suite", {"suite": said | {"draws": now}})
    for family in now:
        assert not current("suite", {"suite": said | {"draws": now | {family: "0" * 8}}})
    # A family that is new makes nothing old, and one that is gone does.
    older = {family: found for family, found in now.items() if family != "linear"}
    assert current("suite", {"suite": said | {"draws": older}})
    assert not current("suite", {"suite": said | {"draws": now | {"gone": "0" * 8}}})
    # Who tells nothing is old, but for those that are known.
    assert not current("suite", {"suite": said})
    assert current("figure1", {"figure1": SECTION})
    assert not current("figure1", {"figure1": SECTION | {"draws": now | {"linear": "0" * 8}}})


def test_who_tells_its_draws_is_off_the_list_of_those_that_do_not() -> None:
    kept = FILL["all_kept"]()
    assert {name for name in UNTOLD if "draws" in kept[name]} == set()
    assert {*AWAITED, *UNTOLD} <= set(FILL["KEPT_AS"].values())
    drawn = {name for name in FILL["KEPT_AS"].values() if name in kept} - UNTOLD
    assert {name for name in drawn if not same_draws(name, kept[name])} <= AWAITED


def kept_bytes(section: dict[str, Any]) -> dict[str, str]:
    board = FILL["table_of"](section, "leaderboard", "The board")
    column = board["columns"].index("bytes")
    return {row[0]: row[column] for row in board["rows"]}


def counted_bytes() -> dict[str, str]:
    """What every algorithm of the board sends on its grid, as it is counted now."""
    gossip = suite.networks()[leaderboard.NETWORK]
    problem = next(iter(suite.families().values())).make(0)
    found = {}
    for name, algorithm in leaderboard.players().items():
        start = prepare(problem, algorithm, gossip, 1, 0, dtype="float32")
        found[name] = f"{communication(gossip, start.algorithm, start.sent).bytes:,.0f}"
    return found


@pytest.mark.slow
def test_parts_beyond_the_paper_say_what_they_must() -> None:
    """That the default was chosen in view of these families, bytes as they are counted now, and
    losses as they are drawn now.

    A part that was run anew comes off the list of those that are awaited.
    """
    kept = FILL["all_kept"]()
    parts = set(FILL["KEPT_AS"].values())
    assert {name for name in parts if not current(name, kept)} == AWAITED


def test_goals_that_were_not_met_are_told() -> None:
    def rows(**found: float | None) -> dict[str, Any]:
        return {
            "rows": [
                {"name": name, "status": "measured" if over else "failed", "over_goal": over}
                for name, over in found.items()
            ]
        }

    kept = {"h200": rows(met=1.0, late=1.24), "links-h200": rows(broken=None)}
    page = "<!-- summary: missed -->\n<!-- end -->"
    text = FILL["filled"](page, kept | {"cpu-2-cores": rows(met=0.5)})
    assert "on the H200: `late` (missed by 24%), `broken` (failed); on two CPU cores" in text
    assert "the first table: none.\n" in text


def test_what_an_installation_costs() -> None:
    row = {"extra": "sim", "packages": 3, "wheels": 150.4, "installed": 300.0, "seconds": 12.3}
    kept = {"install": {"machine": "2 abaci", "wheel": 0.33, "rows": [row | {"extra": ""}, row]}}
    text = FILL["filled"]("<!-- summary: install -->\n<!-- end -->", kept)
    assert "| `pip install .` | live agents on NumPy" in text
    assert "| `pip install '.[sim]'` | simulations" in text
    assert " | 150 | 300 | 12.3 |\n" in text
    assert "own wheel has 0.330 MB. Seconds are pip's own with the wheels at hand" in text

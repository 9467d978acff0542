"""Tables in the README and the docs are filled from what was reproduced, never typed."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from fedbandits.experiments import REGISTRY

FILL = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "fill.py"))

SECTION = {
    "name": "suite",
    "title": "The suite",
    "command": "fedbandits reproduce suite --runs 3",
    "paragraphs": ["It was found.", "Twice."],
    "versions": {},
    "tables": [{"title": "T", "columns": ["a", "b"], "rows": [["x", "1"]], "note": "Read so."}],
}


def test_a_page_is_filled_and_filled_again() -> None:
    table = "<!-- table: suite / T -->\nold\n<!-- end -->"
    page = f"Before\n\n{table}\n\n<!-- findings: suite -->\n<!-- end -->\n"
    once = FILL["filled"](page, {"suite": SECTION})
    assert "| a | b |\n| --- | ---: |\n| x | 1 |\n\n*Read so.*\n" in once
    assert "By `fedbandits reproduce suite --runs 3`." in once
    assert "It was found.\n\nTwice.\n" in once
    assert "old" not in once
    assert FILL["filled"](once, {"suite": SECTION}) == once
    assert FILL["filled"](once, {}) == once


def test_a_table_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match="suite has no table 'U', only T"):
        FILL["filled"]("<!-- table: suite / U -->\n<!-- end -->", {"suite": SECTION})


def test_quick_sections_are_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- findings: suite -->\n<!-- end -->\n")
    main = FILL["main"]
    monkeypatch.setitem(main.__globals__, "PAGES", (page,))
    monkeypatch.setitem(main.__globals__, "KEPT", tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    quick: dict[str, Any] = SECTION | {"title": "The suite (quick)"}
    (tmp_path / "suite.json").write_text(json.dumps(quick))
    main(tmp_path)
    assert "found" not in page.read_text()
    (tmp_path / "suite.json").write_text(json.dumps(SECTION))
    main(tmp_path)
    assert "It was found." in page.read_text()


@pytest.mark.parametrize("page", FILL["PAGES"], ids=lambda page: page.name)
def test_every_place_names_a_part_and_is_filled(page: Path) -> None:
    for place in FILL["MARKED"].finditer(page.read_text(encoding="utf-8")):
        assert place["name"] in REGISTRY
        assert f"By `fedbandits reproduce {place['name']}" in place["body"]
        assert (place["kind"] == "table") == (place["title"] is not None)


@pytest.mark.parametrize("page", FILL["PAGES"], ids=lambda page: page.name)
def test_pages_say_what_was_found(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert FILL["filled"](text, FILL["kept"]()) == text

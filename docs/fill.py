"""Fills the tables of the README and the docs from what `fedbandits reproduce` wrote.

    python docs/fill.py out

A table stands between `<!-- table: SECTION / TITLE -->` and `<!-- end -->`, the findings of a
section between `<!-- findings: SECTION -->` and `<!-- end -->`. SECTION is the part's name, as in
`fedbandits reproduce SECTION`. What a part has to say is kept in docs/results, from where all pages
are filled: parts that are not in the folder are filled from there.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from fedbandits.experiments import BEYOND

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "results"
FIELDS = ("name", "title", "command", "paragraphs", "tables", "versions")
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
MARKED = re.compile(
    r"<!-- (?P<kind>table|findings): (?P<name>\w+)(?: / (?P<title>.+?))? -->\n"
    r"(?P<body>.*?)<!-- end -->",
    re.DOTALL,
)


def markdown(table: dict[str, Any]) -> str:
    """A table with its note."""
    columns = table["columns"]
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *table["rows"]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n*{table['note']}*\n" if table["note"] else f"{text}\n"


def filled(text: str, sections: dict[str, dict[str, Any]]) -> str:
    """A page with what the sections have to say in its places."""

    def fill(found: re.Match[str]) -> str:
        kind, name, title = found["kind"], found["name"], found["title"]
        if name not in sections:
            return found[0]
        section = sections[name]
        if kind == "findings":
            body = "\n\n".join(section["paragraphs"]) + "\n"
        else:
            tables = {table["title"]: table for table in section["tables"]}
            if title not in tables:
                raise SystemExit(f"{name} has no table {title!r}, only {', '.join(tables)}")
            body = markdown(tables[title])
        head = found[0].partition("\n")[0]
        return f"{head}\n{body}\nBy `{section['command']}`.\n<!-- end -->"

    return MARKED.sub(fill, text)


def kept() -> dict[str, dict[str, Any]]:
    """What every part has to say, by name."""
    files = sorted(KEPT.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def main(out: Path) -> None:
    """Keep the sections in a folder, and fill every page from all that are kept."""
    for file in sorted(out.glob("*.json")):
        section = json.loads(file.read_text(encoding="utf-8"))
        if section.get("name") in BEYOND and not section["title"].endswith("(quick)"):
            said = json.dumps({field: section[field] for field in FIELDS}, indent=1)
            (KEPT / file.name).write_text(said + "\n", encoding="utf-8")
    sections = kept()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text, sections), encoding="utf-8")
    sys.stdout.write(f"filled from {', '.join(sections) or 'nothing'}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))

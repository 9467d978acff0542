"""The report: all parts as one web page with its figures inside and without scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedbandits.common.files import atomic_write

from .section import load_section

if TYPE_CHECKING:
    from .pictures import Picture
    from .section import Section, Table

TITLE = "Doubly Adversarial Federated Bandits, reproduced"
ABOUT = (
    "The figures and theorems of “Doubly Adversarial Federated Bandits” (Jialin Yi and Milan "
    "Vojnović, ICML 2023), computed again: published values stand next to measured ones. Each "
    "section ends with its settings, seeds and timings, and the command that repeats it."
)
DETAILS = "Configuration, seeds, versions, timings, files"
MIME = {".svg": "image/svg+xml", ".png": "image/png"}

# The page never loads anything over a network, whatever the text of a section contains.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")


def write_report(out: Path, names: Sequence[str]) -> Path:
    """Write `report.html` from the sections in a folder.

    Args:
        out: the folder with the section files `NAME.json`, their pictures and their data.
        names: sections in the order of the report; names without a file are skipped.

    Returns:
        the path of the report.
    """
    paths = [out / f"{name}.json" for name in names]
    sections = [load_section(path) for path in paths if path.exists()]
    if not sections:
        raise ValueError(
            f"{out} has no section to report: {', '.join(names)} are missing; "
            f"`fedbandits reproduce --out {out}` writes them"
        )
    target = out / "report.html"
    with atomic_write(target) as file:
        file.write(_page(sections, out).encode())
    return target


def _page(sections: Sequence[Section], out: Path) -> str:
    contents = "\n".join(
        f'<li><a href="#{quote(section.name)}">{escape(section.title)}</a> '
        f"<span>{_seconds(sum(section.seconds.values()))}</span></li>"
        for section in sections
    )
    body = "\n".join(_section(section, out) for section in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{TITLE}</h1>
<p>{escape(ABOUT)}</p>
</header>
<nav aria-labelledby="contents">
<h2 id="contents">Contents and wall times</h2>
<ul>
{contents}
</ul>
</nav>
<main>
{body}
</main>
</body>
</html>
"""


def _section(section: Section, out: Path) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.paragraphs]
    parts += [_picture(picture, section, out) for picture in section.pictures]
    parts += [_table(table) for table in section.tables]
    body = "\n".join([*parts, _details(section)])
    return f'<section id="{escape(section.name)}">\n{body}\n</section>'


def _picture(picture: Picture, section: Section, out: Path) -> str:
    # As an image, each SVG is a separate document, so ids of two SVGs cannot clash.
    files = [out / f"{picture.stem}{ending}" for ending in MIME]
    file = next((file for file in files if file.exists()), None)
    if file is None:
        raise FileNotFoundError(
            f"{' and '.join(map(str, files))} are missing; `{section.command}` writes them"
        )
    data = b64encode(file.read_bytes()).decode("ascii")
    return (
        f'<figure>\n<div><img src="data:{MIME[file.suffix]};base64,{data}" '
        f'alt="{escape(picture.alt)}"></div>\n'
        f"<figcaption>{escape(picture.caption)}</figcaption>\n</figure>"
    )


def _table(table: Table) -> str:
    title = escape(table.title)
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in table.rows
    )
    note = f'\n<p class="note">{escape(table.note)}</p>' if table.note else ""
    # The tab stop lets the arrow keys scroll the table.
    return f"""<div class="table">
<div class="scroll" role="region" aria-label="{title}" tabindex="0">
<table>
<caption><span>{title}</span></caption>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>{note}
</div>"""


def _details(section: Section) -> str:
    seconds = {step: _seconds(taken) for step, taken in section.seconds.items()}
    files = [f'<li><a href="{quote(name)}">{escape(name)}</a></li>' for name in section.files]
    blocks = [
        _block("Command", [f"<p><code>{escape(section.command)}</code></p>"]),
        _block("Configuration and seeds", _pairs(section.settings)),
        _block("Versions", _pairs(section.versions)),
        _block("Timings", _pairs(seconds)),
        _block("Files", ['<ul class="files">', *files, "</ul>"] if files else []),
    ]
    body = "\n".join(filter(None, blocks))
    return (
        f"<details>\n<summary>{DETAILS}</summary>\n"
        f'<div class="details">\n{body}\n</div>\n</details>'
    )


def _block(title: str, lines: Iterable[str]) -> str:
    """Return lines under a headline, or nothing if there are no lines."""
    body = "\n".join(lines)
    return f"<h3>{title}</h3>\n{body}" if body else ""


def _pairs(pairs: Mapping[str, str]) -> list[str]:
    rows = [f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs.items()]
    return ["<dl>", *rows, "</dl>"] if rows else []


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s"

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
    from .section import Picture, Section, Table

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

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1b1e22; --muted: #565c64; --rule: #d5d9de; --wash: #f4f6f8;
  --accent: #0072b2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181b; --ink: #e4e7ea; --muted: #a7aeb6; --rule: #3a4047; --wash: #1f2428;
    --accent: #56b4e9;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  max-width: 46rem; margin: 0 auto; padding: 2rem 1rem 4rem; overflow-wrap: break-word;
  background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.6 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, serif;
}
h1, h2, h3, nav, table, summary, .details, .note, figcaption {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
h1, h2, h3 { line-height: 1.25; text-wrap: balance; break-after: avoid; }
h1 { font-size: clamp(1.55rem, 1.2rem + 1.7vw, 1.9rem); margin: 0 0 1rem; }
h2 { font-size: 1.4rem; margin: 3.5rem 0 1rem; }
section > h2 { padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
nav h2 { font-size: 1rem; margin: 2rem 0 .3rem; }
a { color: var(--accent); text-underline-offset: .15em; }
a:focus-visible, summary:focus-visible, .scroll:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px;
}
nav ul, .files { list-style: none; margin: 0; padding: 0; }
nav ul { font-size: .95rem; }
nav li { display: flex; align-items: baseline; justify-content: space-between; gap: 1rem; }
nav li { padding: .25rem 0; }
nav span { color: var(--muted); white-space: nowrap; font-variant-numeric: tabular-nums; }
figure { margin: 1.75rem 0; break-inside: avoid; }
/* Figures have a white background, so they keep a white card in dark mode. */
figure div { background: #fff; padding: .5rem; border-radius: 4px; text-align: center; }
img { display: inline-block; max-width: 100%; height: auto; vertical-align: top; }
figcaption, .note { font-size: .9rem; line-height: 1.5; color: var(--muted); margin: .6rem 0 0; }
.table { margin: 1.75rem 0; }
/* A wide table scrolls; the page does not. */
.scroll { overflow-x: auto; }
table { border-spacing: 0; width: 100%; font-size: .9rem; line-height: 1.4; }
caption { text-align: left; font-weight: 600; padding-bottom: .5rem; }
caption span { display: inline-block; position: sticky; left: 0; max-width: calc(100vw - 2rem); }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); }
th, td { text-align: right; vertical-align: baseline; }
/* The first column stays in view while the others scroll. */
th:first-child {
  position: sticky; left: 0; background: var(--paper); text-align: left; padding-left: 0;
}
th:last-child, td:last-child { padding-right: 0; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; }
tbody th { font-weight: inherit; min-width: 7rem; }
td { white-space: nowrap; font-variant-numeric: tabular-nums; }
tr { break-inside: avoid; }
details { margin: 1.75rem 0; padding: .6rem .9rem; background: var(--wash); border-radius: 4px; }
summary { cursor: pointer; font-size: .9rem; font-weight: 600; }
.details { font-size: .875rem; line-height: 1.5; overflow-wrap: anywhere; }
.details h3 { font-size: .875rem; margin-top: 1.1rem; }
.details p { margin: 0; }
dl { display: grid; grid-template-columns: minmax(6rem, 30%) 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--muted); }
dd { margin: 0; min-width: 0; }
.files { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
code { font: .95em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
@media print {
  :root {
    color-scheme: light;
    --paper: #fff; --ink: #000; --muted: #444; --rule: #bbb; --wash: #fff; --accent: #0072b2;
  }
  @page { margin: 18mm 16mm; }
  html { font-size: 10pt; }
  body { max-width: none; padding: 0; line-height: 1.45; }
  h2 { margin-top: 2rem; }
  /* A printed page cannot scroll or unfold. */
  .scroll { overflow: visible; }
  th:first-child, caption span { position: static; background: none; }
  td { white-space: normal; }
  caption { break-after: avoid; }
  thead { display: table-header-group; }
  details { padding: 0; }
  details::details-content { content-visibility: visible; display: block; }
  summary { list-style: none; break-after: avoid; }
  summary::-webkit-details-marker { display: none; }
  p { orphans: 3; widows: 3; }
}
"""


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
            f"{out} has no section to report, none of {', '.join(names)}; "
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

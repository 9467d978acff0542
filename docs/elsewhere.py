"""Pages of the site whose text stands elsewhere in the repository, and links to them.

A page under its name here is a stub, which readers of the repository follow; on the site it has the
text of the other file. Links to that file lead to the page.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ELSEWHERE = {
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "reproduced/benchmarks": "benchmarks/RESULTS.md",
    "reproduced/measuring": "benchmarks/README.md",
}
"""By the name of the page: the file."""
ON_THE_SITE = {
    **{file: f"/{page}.md" for page, file in ELSEWHERE.items()},
    # Sphinx-Gallery makes these pages.
    "examples/gallery/README.rst": "/gallery/index.rst",
    **{
        f"examples/gallery/{script.name}": f"/gallery/{script.stem}.rst"
        for script in (ROOT / "examples" / "gallery").glob("plot_*.py")
    },
}
"""By the file: where links to it lead."""


def read(docname: str, text: str) -> str:
    """The text of a page of the site."""
    file = ELSEWHERE.get(docname, f"docs/{docname}.md")
    if docname in ELSEWHERE:
        stub = re.findall(r"(?ms)^```\{toctree\}.*?^```$", text)
        text = "\n\n".join([(ROOT / file).read_text(encoding="utf-8"), *stub])
    folder = PurePosixPath(file).parent

    def link(found: re.Match[str]) -> str:
        path = normpath(str(folder / found["path"]))
        if path in ON_THE_SITE:
            return f"]({ON_THE_SITE[path]}{found['anchor'] or ''})"
        if docname in ELSEWHERE and path.startswith("docs/"):
            return f"](/{path.removeprefix('docs/')}{found['anchor'] or ''})"
        return found[0]

    return re.sub(r"\]\((?P<path>[\w./-]+\.(?:md|rst|py))(?P<anchor>#[\w-]+)?\)", link, text)


def setup(app: Any) -> dict[str, bool]:
    """Let Sphinx read pages so."""

    def source_read(_: Any, docname: str, source: list[str]) -> None:
        if (DOCS / f"{docname}.md").exists():
            source[0] = read(docname, source[0])

    app.connect("source-read", source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

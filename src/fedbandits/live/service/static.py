"""The dashboard's files, read once: no path of a request ever reaches the disk."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .answers import Headers

DASHBOARD = Path(__file__).parents[1] / "dashboard"

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""What is served, and as what; other files are not."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page runs its own scripts and asks this service, and nothing and nobody else."""


class File(NamedTuple):
    """A file as it is sent."""

    body: bytes
    headers: Headers


def files(folder: Path | None) -> dict[str, File]:
    """What stands in a folder, by path; `index.html` under `/` too. Nothing if it is not there."""
    if folder is None or not folder.is_dir():
        return {}
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = KINDS.get(path.suffix)
        if kind is None or not path.is_file():
            continue
        file = File(path.read_bytes(), _headers(kind))
        found[f"/{path.relative_to(folder).as_posix()}"] = file
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


def _headers(kind: str) -> Headers:
    named = {
        "content-type": kind,
        "cache-control": "no-cache",
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }
    return [(name.encode(), value.encode()) for name, value in named.items()]

"""Compare, write or show the golden programs: `python -m tests.engine.golden --help`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from fedbandits.engine.devices import one_per_core

from . import digests
from .table import PROGRAMS


def file_name(program: str) -> str:
    """Return the name of a program's text file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", program) + ".mlir"


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Lower every program; return 1 if one differs from its pinned digest."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.golden", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; all by default")
    parser.add_argument("--write", action="store_true", help="pin the digests of all programs")
    parser.add_argument("--texts", type=Path, metavar="DIR", help="write a text file a program")
    given = parser.parse_args()
    one_per_core()  # before the first problem starts JAX
    if given.write and given.names:
        parser.error("--write pins all programs; leave the names out")
    old = digests.pinned() if digests.PINNED.exists() else {"versions": {}, "programs": {}}
    if not given.write and old["versions"] != digests.versions():
        report(f"pinned with {old['versions']}, compared with {digests.versions()}")
    found, differ = {}, 0
    for name in given.names or PROGRAMS:
        start = time.perf_counter()
        text = PROGRAMS[name].text()
        found[name] = digests.digest(text)
        same = found[name] == old["programs"].get(name)
        differ += not same
        seconds, lines = time.perf_counter() - start, found[name]["lines"]
        report(f"{'same  ' if same else 'DIFFER'} {seconds:5.1f} s {lines:6d} lines  {name}")
        if given.texts is not None:
            given.texts.mkdir(parents=True, exist_ok=True)
            file = given.texts / file_name(name)
            file.write_text(text + "\n", encoding="utf-8")
    if given.write:
        digests.write(found)
        return 0
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())

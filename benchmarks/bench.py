"""Measure everything that has a goal, print one table and save it with the facts of the machine.

    python benchmarks/bench.py [--only NAME ...] [--out FILE.json] [--markdown FILE.md] [--quick]

The same command on a CPU and on an accelerator. README.md beside this file says what the rows are.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import (
    exchanges,
    figure1,
    forms,
    links,
    live,
    machine,
    million,
    movielens,
    regret_against,
    scaling,
    service,
    small,
    startup,
    table,
)
from benchmarks.rows import Measure, Row, take
from fedbandits.common.files import atomic_write

GROUPS = (
    *(small, links, figure1, startup, regret_against, forms),
    *(live, exchanges, service, movielens, million, scaling),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = _parser().parse_args(arguments)
    # Some rows start processes of their own beside this one: neither may take the whole device.
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.4")
    # As in a user's process: the engine is there before JAX starts, and asks it for every core.
    import fedbandits.engine.simulate  # noqa: F401

    measures = chosen([m for group in GROUPS for m in group.measures(options.quick)], options.only)
    facts = machine.facts()
    began = perf_counter()
    rows: list[Row] = []
    interrupted = False
    try:
        for measure in measures:
            sys.stderr.write(f"{perf_counter() - began:4.0f} s  {measure.name}\n")
            rows.append(take(measure, goals=not options.quick))
            # After every row: whatever ends this process, what is measured is kept.
            if options.out is not None:
                save(options.out, rows, facts, options.quick, perf_counter() - began)
    except KeyboardInterrupt:
        interrupted = True
        sys.stderr.write(f"interrupted after {len(rows)} of {len(measures)} rows\n")
    text = f"{table.of_rows(rows)}\n\n{machine.line(facts)}\n"
    sys.stdout.write(text)
    if options.markdown is not None:
        _replace(options.markdown, text)
    return 130 if interrupted else 0


def chosen(measures: Sequence[Measure], only: Sequence[str] | None) -> list[Measure]:
    """The rows whose names start with one of the given names; all without any."""
    if not only:
        return list(measures)
    for name in only:
        if not any(measure.name.startswith(name) for measure in measures):
            known = ", ".join(measure.name for measure in measures)
            raise SystemExit(f"no row starts with {name!r}; the rows are {known}")
    return [measure for measure in measures if measure.name.startswith(tuple(only))]


def save(
    path: Path, rows: Sequence[Row], facts: dict[str, Any], quick: bool, seconds: float
) -> None:
    """Write the rows so far; a reader finds the old file or the new one, never half of one."""
    content = {
        "machine": facts,
        "quick": quick,
        "seconds": round(seconds, 1),
        "rows": [row.as_data() for row in rows],
    }
    _replace(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _replace(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows whose names start so")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where to save the table")
    parser.add_argument("--markdown", type=Path, metavar="FILE.md", help="write it as text too")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    return parser


if __name__ == "__main__":
    sys.exit(main())

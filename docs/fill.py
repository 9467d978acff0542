"""Fill the README, the docs and the benchmarks' page with measured results.

    python docs/fill.py FOLDER ...

copies the sections that `fedbandits reproduce --out FOLDER` and `python -m studies PART --out
FOLDER` wrote into docs/results. Then it fills every page from docs/results and benchmarks/results.
A place on a page stands between a mark and `<!-- end -->`:

    <!-- table: SECTION / TITLE -->    a table of a part, with its note
    <!-- findings: SECTION -->         what a part found, in words
    <!-- summary: paper -->            the paper beside what was measured; of several parts
    <!-- summary: speed -->            what is fast; of several benchmarks
    <!-- summary: missed -->           the goals that were not met
    <!-- summary: precision -->        what float32 costs on long horizons
    <!-- summary: install -->          what an installation costs, with each extra
    <!-- summary: live -->             what live agents bear
    <!-- bench: FILE -->               the table in benchmarks/results/FILE.json

SECTION is a name in KEPT_AS. Only sections made with the commands there are kept, so that neither
`--quick` nor another seed gets on a page.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import ROOT, machine, table
from benchmarks import precision as measure
from benchmarks.rows import Row
from fedbandits.common.files import atomic_write
from fedbandits.live.service.guard import WITH_TOKEN
from fedbandits.paper import REGISTRY, STUDIES

KEPT = ROOT / "docs" / "results"
MEASURED = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "figures"
PAGES = (
    *(ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))),
    *sorted((ROOT / "benchmarks").glob("*.md")),
)
FIELDS = ("name", "title", "command", "paragraphs", "tables", "versions", "seconds", "draws")
OLDER = "--xla_cpu_max_isa=SSE4_2"
"""XLA held to the instructions of older processors."""
KEPT_AS = {
    **{(f"fedbandits reproduce {name}", ""): name for name in REGISTRY},
    **{(f"fedbandits reproduce {name}", OLDER): f"{name}_older" for name in REGISTRY},
    ("fedbandits reproduce figure2 --data generated", ""): "figure2_generated",
    **{(f"python -m studies {name}", ""): name for name in STUDIES},
}
"""The name under which a section is kept, by its command and XLA's flags."""
MOVED = re.compile(rf"fedbandits reproduce ({'|'.join(STUDIES)})\b")
"""Commands of studies in kept sections that are older than `python -m studies`."""
MARKED = re.compile(
    r"<!-- (?P<kind>table|findings|summary|bench): (?P<name>[\w-]+)(?: / (?P<title>.+?))? -->\n"
    r"(?P<body>.*?)<!-- end -->",
    re.DOTALL,
)

Kept = Mapping[str, dict[str, Any]]
"""Sections and benchmarks by name."""


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table with its note."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n*{note}*\n" if note else f"{text}\n"


def filled(text: str, kept: Kept) -> str:
    """A page with what was measured in its places; places of what is not kept stay as they are."""

    def fill(found: re.Match[str]) -> str:
        if not needed(found) <= set(kept):
            return found[0]
        head = found[0].partition("\n")[0]
        return f"{head}\n{body(found, kept)}<!-- end -->"

    return MARKED.sub(fill, text)


def needed(place: re.Match[str]) -> set[str]:
    """The names of what a place is filled from."""
    if place["kind"] != "summary":
        return {place["name"]}
    if place["name"] not in SUMMARIES:
        raise SystemExit(f"there is no summary {place['name']!r}, only {', '.join(SUMMARIES)}")
    return SUMMARIES[place["name"]][0]


def body(place: re.Match[str], kept: Kept) -> str:
    """What belongs in a place."""
    kind, name = place["kind"], place["name"]
    if kind == "summary":
        return SUMMARIES[name][1](kept)
    if kind == "bench":
        return bench(kept[name])
    section = kept[name]
    if kind == "findings":
        said = "\n\n".join(section["paragraphs"]) + "\n"
    else:
        found = table_of(section, name, place["title"])
        said = markdown(found["columns"], found["rows"], found["note"])
    by = f"By `{section['command']}`, on {machine_of(section)}{time_of(section)}.\n"
    return MOVED.sub(r"python -m studies \1", f"{said}\n{by}")


def machine_of(section: Mapping[str, Any]) -> str:
    """What a section was computed on, in a few words."""
    return "{device}, JAX {jax}".format(**section["versions"])


def time_of(section: Mapping[str, Any]) -> str:
    """How long a section took, in a few words; nothing where that is not kept."""
    if not section.get("seconds"):
        return ""
    minutes, seconds = divmod(round(sum(section["seconds"].values())), 60)
    return f", in {f'{minutes} min ' if minutes else ''}{seconds} s"


def table_of(section: Mapping[str, Any], name: str, title: str) -> dict[str, Any]:
    """The table of a section with this title."""
    tables: dict[str, dict[str, Any]] = {table["title"]: table for table in section["tables"]}
    if title not in tables:
        raise SystemExit(f"{name} has no table {title!r}, only {', '.join(tables)}")
    return tables[title]


def bench(kept: Mapping[str, Any]) -> str:
    """A table of benchmarks with its notes, and what it was measured on."""
    rows = [Row(**row) for row in kept["rows"]]
    return f"{table.of_rows(rows)}\n\n{machine.line(kept['machine'])}.\n"


class Headline(NamedTuple):
    """One number of the paper: where the measured one is kept.

    Attributes:
        label: what it is.
        section: its part.
        title: of the table.
        row: how the row starts.
        columns: of the published value, which may be missing, of the measured one and of its
            interval.
    """

    label: str
    section: str
    title: str
    row: tuple[str, ...]
    columns: tuple[str, str, str]


LEFT, LINE = "Left: regret on the grid", "Right: the line"
ON_THE_LEFT = ("reference", "measured", "95% band")
HEADLINES = (
    Headline(
        *("Figure 1, left, grid: regret of FedExp3", "figure1", LEFT, ("FedExp3", "3,000")),
        ON_THE_LEFT,
    ),
    Headline(
        *("the same: Exp3, without communication", "figure1", LEFT, ("Exp3", "3,000")),
        ON_THE_LEFT,
    ),
    Headline(
        "Figure 1, right: R² of regret against (1 − σ2)^(−1/3) on nine networks",
        *("figure1", LINE, ("R²",), ("published", "measured", "95%")),
    ),
    Headline(
        "Figure 2, the ratings in the source tree, grid: regret of FedExp3",
        *("figure2", "Regret at T", ("FedExp3, grid",), ("published", "measured", "95% band")),
    ),
    Headline(
        "the same: GossipUCB",
        *("figure2", "Regret at T", ("GossipUCB, grid",), ("published", "measured", "95% band")),
    ),
    Headline(
        "Figure 3, ours, lower bound: exponent of T of the far agent's regret, FedExp3",
        *("theory", "Lower bound: growth", ("FedExp3, in T",)),
        ("theory", "fitted exponent", "95% interval"),
    ),
)


def cells(headline: Headline, kept: Kept, suffix: str = "") -> list[str]:
    """The published value, the measured one and its interval; a dash for what is not there."""
    name = headline.section + suffix
    found = table_of(kept[name], name, headline.title)
    rows = [row for row in found["rows"] if tuple(row[: len(headline.row)]) == headline.row]
    if len(rows) != 1:
        raise SystemExit(f"{name}, {headline.title}: {len(rows)} rows start {headline.row}, not 1")
    by_column = dict(zip(found["columns"], rows[0], strict=True))
    return [by_column.get(column, "-") for column in headline.columns]


def number(text: str) -> float:
    """What a table says, as a number."""
    return float(text.replace(",", ""))


def paper(kept: Kept) -> str:
    """The paper's numbers beside ours, and how far another processor moves these."""
    rows, moves = [], []
    for headline in HEADLINES:
        published, measured, span = cells(headline, kept)
        elsewhere = cells(headline, kept, "_older")[1]
        rows.append((headline.label, published, f"{measured} ({span})", elsewhere))
        if elsewhere != measured:
            low, high = (number(end) for end in span.split(" to "))
            moves.append(abs(number(elsewhere) - number(measured)) / max(high - low, 1e-9))
    columns = ("at T, mean over agents", "the paper", "here (95%)", "older processor")
    by = f", by at most {max(moves):.0%} of their intervals' width" if moves else ""
    note = (
        f"Default settings, seed 0, on {machine_of(kept['figure1'])}. In the last column XLA was "
        f"held to the instructions of older processors (`XLA_FLAGS={OLDER}`), which round "
        f"otherwise: {len(moves)} of {len(rows)} numbers move{by}."
    )
    return f"{markdown(columns, rows, note)}\nBy `fedbandits reproduce`.\n"


def speed(kept: Kept) -> str:
    """What a user waits for, on two machines."""

    def took(name: str, row: str) -> str:
        rows = {row["name"]: row for row in kept[name]["rows"]}
        return f"{table.number(rows[row]['value'])} {rows[row]['unit']}"

    networks = ("complete", "grid", "RGG(0.5)")
    rows = [
        (
            "N = 36 on a grid, T = 3000, 100 runs on two CPU cores",
            took("cpu-2-cores", "small/100 runs"),
        ),
        (
            "the same, `FedExp3()`: the default rate",
            took("cpu-2-cores", "small/100 runs, default rate"),
        ),
        (
            f"N = 3,364, T = 12,800, 10 runs on one H200: {', '.join(networks)}",
            ", ".join(took("h200", f"movielens/{network}/FedExp3") for network in networks),
        ),
        (
            "N = 1,000,000 on a grid, `bernoulli` losses, one run, each further round: one H200, "
            "two CPU cores",
            ", ".join(took(name, "million/grid") for name in ("h200", "cpu-2-cores")),
        ),
    ]
    columns = (
        "`fb.simulate` after compiling, K = 20, `FedExp3(0.1)` unless it says otherwise",
        "time",
    )
    days = {name: kept[name]["machine"]["date"][:10] for name in ("h200", "cpu-2-cores")}
    return (
        f"{markdown(columns, rows)}\nFrom the tables in `benchmarks/RESULTS.md`: the H200's of "
        f"{days['h200']}, the two cores' of {days['cpu-2-cores']}.\n"
    )


def missed(kept: Kept) -> str:
    """The goals that were missed, of the tables that other pages quote."""

    def rows(*names: str) -> str:
        found = [row for name in names for row in kept[name]["rows"]]
        told = [
            (row["name"], table.verdict(row["over_goal"]) if measured else row["status"])
            for row in found
            if not (measured := row["status"] == "measured") or (row["over_goal"] or 0) > 1
        ]
        return ", ".join(f"`{name}` ({how})" for name, how in told) or "none"

    return (
        f"Goals that were not met, on the H200: {rows('h200', 'links-h200')}; on two CPU cores, in "
        f"the first table: {rows('cpu-2-cores')}.\n"
    )


def precision(kept: Kept) -> str:
    """What float32 costs, algorithm by algorithm and horizon by horizon."""
    note = (
        "95% intervals over runs, whose differences are paired. Coins: losses of 0 and 1 with a "
        "gap of 0.05; small: losses up to 0.1 with a gap of 0.01. Four agents on a ring, four arms."
    )
    pairs = measure.pairs(kept["precision"]["cells"])
    found = markdown(measure.COLUMNS, [measure.row(pair) for pair in pairs], note)
    return f"{measure.finding(pairs)}\n\n{found}\nBy `python benchmarks/precision.py`.\n"


BRINGS = {
    "": "live agents on NumPy, and the command's help",
    "live": "the same on a network: messages, certificates, a service",
    "sim": "simulations, results, figures, tuning, the paper",
    "solvers": "the same, the fastest gossip, very large networks",
    "cluster": "simulations, and sweeps on many machines",
    "all": "everything",
}
"""What each extra is for."""


def install(kept: Kept) -> str:
    """What an installation costs, with each extra."""
    found = kept["install"]
    columns = ("in this folder", "brings", "wheels, MB", "installed, MB", "seconds")
    rows = [
        (
            f"`pip install '.[{row['extra']}]'`" if row["extra"] else "`pip install .`",
            BRINGS[row["extra"]],
            *(table.number(row[name]) for name in ("wheels", "installed", "seconds")),
        )
        for row in found["rows"]
    ]
    note = (
        f"With all they depend on; the package's own wheel has {table.number(found['wheel'])} MB. "
        f"Seconds are pip's own with the wheels at hand, of one core ({found['machine']})."
    )
    return f"{markdown(columns, rows, note)}\nBy `python benchmarks/install.py`.\n"


def live(kept: Kept) -> str:
    """What live agents bear, for who plans with them."""
    measured = {row["name"]: row["value"] for row in kept["cpu-2-cores"]["rows"]}
    pair, exchange = measured["live/HTTP, 16 clients"], measured["live/16 agents/journals"]
    rows = [
        (
            "choices with their observations in a second's burst, over HTTP",
            table.number(1e6 / pair),
        ),
        ("for longer, of one address: half its limit of requests", f"{WITH_TOKEN.each // 2:,}"),
        ("99% of requests are answered within, ms", measured["live/HTTP, 16 clients, p99"]),
        ("exchanges a second of all agents together", table.number(1e6 / exchange)),
        ("CPU of an exchange, both ends, µs", measured["live/16 agents/journals, CPU"]),
        ("memory of an agent that waits, without the service, MiB", measured["live/idle memory"]),
    ]
    told = [(what, n if isinstance(n, str) else table.number(n)) for what, n in rows]
    found = kept["cpu-2-cores"]["machine"]
    note = (
        f"One agent and 16 clients that keep their connections; 16 agents in 4 processes. K = 20, "
        f"everything on disk before it is answered or sent, all on {found['cores']} cores "
        f"({found['cpu']})."
    )
    by = "From the table of two cores in `benchmarks/RESULTS.md`."
    return f"{markdown(('on one machine', ''), told, note)}\n{by}\n"


SUMMARIES: dict[str, tuple[set[str], Callable[[Kept], str]]] = {
    "paper": ({f"{h.section}{suffix}" for h in HEADLINES for suffix in ("", "_older")}, paper),
    "speed": ({"cpu-2-cores", "h200"}, speed),
    "missed": ({"cpu-2-cores", "h200", "links-h200"}, missed),
    "precision": ({"precision"}, precision),
    "install": ({"install"}, install),
    "live": ({"cpu-2-cores"}, live),
}
"""By name: what a summary is made from, and how."""


def all_kept() -> dict[str, dict[str, Any]]:
    """What every part and every benchmark has to say, by name."""
    files = sorted(KEPT.glob("*.json")) + sorted(MEASURED.glob("*.json"))
    kept = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    lines = (MEASURED / "precision.jsonl").read_text(encoding="utf-8").splitlines()
    return kept | {"precision": {"cells": [json.loads(line) for line in lines]}}


def keep(file: Path) -> str | None:
    """Keep a section and the pictures of it that pages show; its name, or None if it is no such."""
    section = json.loads(file.read_text(encoding="utf-8"))
    made = (section.get("command"), section.get("versions", {}).get("XLA_FLAGS", ""))
    name = KEPT_AS.get(made)
    if name is None:
        return None
    if section.get("resumed"):  # what it took before it was stopped is not known
        del section["seconds"]
    said = json.dumps({field: section[field] for field in FIELDS if field in section}, indent=1)
    with atomic_write(KEPT / f"{name}.json") as kept:
        kept.write(f"{said}\n".encode())
    if name == section["name"]:
        for stem, *_ in section["pictures"]:
            shown, drawn = PICTURES / f"{stem}.png", file.with_name(f"{stem}.png")
            if shown.exists() and drawn.exists():
                shutil.copyfile(drawn, shown)
    return name


def main(*folders: Path) -> None:
    """Keep the sections in some folders, and fill every page from all that are kept."""
    for file in (file for folder in folders for file in sorted(folder.glob("*.json"))):
        name = keep(file)
        sys.stdout.write(f"{file}: {f'kept as {name}' if name else 'not of the pages, left out'}\n")
    kept = all_kept()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        with atomic_write(page) as written:
            written.write(filled(text, kept).encode())
    sys.stdout.write(f"filled from {', '.join(kept) or 'nothing'}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Tables and lines that the command line prints, made from results and networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandits.common.describe import label
from fedbandits.common.statistics import ONE_RUN
from fedbandits.config import catalogue
from fedbandits.privacy.response import guarantees

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from fedbandits.gossip.base import Gossip
    from fedbandits.networks import Network
    from fedbandits.paper.section import Table as SectionTable
    from fedbandits.results.result import Result
    from fedbandits.sweeps.store import Manifest, Status, StoredCell
    from fedbandits.tuning import Choice, Report
    from fedbandits.tuning.files import Tuned

NO_BAND = "-"
_ONE_RUN = f"{ONE_RUN.capitalize()}."

LISTED = 40
"""Cells of a sweep that a table shows."""

ERROR_WIDTH = 30
"""Columns for an error, which is broken between words."""


def empty_table(*columns: str) -> Table:
    """Return a table with a left-aligned first column and right-aligned numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    return table


def titled(title: str, table: Table, note: str = "") -> Group:
    """Return a table between a title and a note."""
    from rich.console import Group
    from rich.text import Text

    return Group(Text(title, "bold"), table, *([Text(note, "dim italic")] if note else []))


def counted(number: int, what: str) -> str:
    """Return a number with its noun.

    Example:
        >>> counted(1, "cell"), counted(2, "cell")
        ('1 cell', '2 cells')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def _band(low: float, high: float) -> str:
    if low != low:  # NaN: one run has no band
        return NO_BAND
    return "all runs alike" if low == high else f"{low:,.2f} to {high:,.2f}"


def summary_table(result: Result) -> Group:
    """Return a table of the regret at T with its bands."""
    sizes = result.dataset.sizes
    rounds = int(result.dataset["time"][-1])
    table = empty_table("regret at T", "mean", "95% band")
    for name, mean, low, high in result.summary().itertuples():
        table.add_row(name, f"{mean:,.2f}", _band(low, high))
    title = (
        f"{result.label}: {sizes['agent']} agents, {sizes['arm']} arms, {rounds:,} rounds, "
        f"{counted(sizes['run'], 'run')}{_on_draws(result)}"
    )
    return titled(title, table, _ONE_RUN if result.sample[1] == 1 else "")


def _on_draws(result: Result) -> str:
    over, count = result.sample
    return f" on {count} draws of the losses" if over == "draw" else ""


def bounds_table(result: Result) -> Group:
    """Return a table of the paper's bounds and the measured regret."""
    from fedbandits.results.bounds_table import amount

    sizes = result.dataset.sizes
    table = empty_table("regret at T", "value", "")
    table.columns[2].justify = "left"
    for name, value, remark in result.bounds().itertuples():
        table.add_row(name, amount(value), remark)
    return titled(
        f"{result.label}: {sizes['agent']} agents, {sizes['arm']} arms, T = "
        f"{int(result.dataset['time'][-1]):,}",
        table,
        "Lower bounds are about the worst losses there are: on other losses a run may be below.",
    )


def sweep_tables(
    folder: Path,
    manifest: Manifest,
    status: Status,
    width: int,
    sequence: Mapping[str, int] | None = None,
) -> list[Group]:
    """Return tables of the finished cells with their regret at T, the failed and the missing cells.

    With a `sequence`, the arguments of `Result.regret_against`, the title says against what.
    """
    from fedbandits.results.dynamic_regret import in_words
    from fedbandits.sweeps.listing import final_regret

    tables = []
    if status.done:
        regrets = [final_regret(folder, cell, sequence) for cell in status.done[:LISTED]]
        columns = {
            "regret at T": [f"{mean:,.2f}" for mean, _, _ in regrets],
            "95% band": [_band(low, high) for _, low, high in regrets],
        }
        title = "cells that are done"
        if sequence:
            title += f", regret against {in_words(**sequence)}"
        note = _ONE_RUN if NO_BAND in columns["95% band"] else ""
        tables.append(cell_table(title, manifest, status.done, width, columns, note))
    if status.failed:
        cells = [cell for cell, _ in status.failed]
        errors = {"error": [error for _, error in status.failed[:LISTED]]}
        tables.append(cell_table("cells that failed", manifest, cells, width, errors))
    if status.missing:
        tables.append(cell_table("cells that are missing", manifest, status.missing, width))
    return tables


def cell_table(
    title: str,
    manifest: Manifest,
    cells: Sequence[StoredCell],
    width: int,
    columns: Mapping[str, Sequence[str]] | None = None,
    note: str = "",
) -> Group:
    """Return a table of the first cells, with columns for their axes and those given.

    Every axis has a column; where they do not fit, all share one, with lines broken between axes.

    Args:
        title: above the table.
        manifest: of the sweep.
        cells: all of them, of which the first are shown.
        width: of the terminal.
        columns: more texts, for each cell that is shown; the last column may be broken anywhere.
        note: below the table.
    """
    from rich.text import Text

    columns = columns or {}
    names = [name for axis in manifest.axes for name in axis.names]
    rows = [[label(value) for value in cell.values.values()] for cell in cells[:LISTED]]
    widths = [_widest(name, texts) for name, texts in columns.items()]
    if "error" in columns:
        widths[-1] = min(widths[-1], ERROR_WIDTH)
    axes = [_widest(name, texts) for name, *texts in zip(names, *rows, strict=True)]
    if sum(axes) + sum(widths) + 3 * (len(axes) + len(widths)) + 1 > width:
        room = width - sum(widths) - 3 * (1 + len(widths)) - 1
        rows = [[_broken(names, row, room)] for row in rows]
        names, axes = ["cell"], [max(_widest("cell", row[0].split("\n")) for row in rows)]
    table = empty_table(*names, *columns)
    if "error" in columns:
        table.columns[-1].justify = "left"
        # A separate width; otherwise the table would shrink the other columns too.
        table.columns[-1].max_width = width - sum(axes) - 3 * (len(axes) + 1) - 1
    for row, *texts in zip(rows, *columns.values(), strict=True):
        table.add_row(*map(Text, [*row, *texts]))
    return titled(title, table, "\n".join(filter(None, [_more(cells), note])))


def _widest(*texts: str | Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(t) for text in texts for t in ([text] if isinstance(text, str) else text))


def _broken(names: Sequence[str], values: Sequence[str], room: int) -> str:
    """Return names and values in lines, each as full as there is room for.

    Example:
        >>> _broken(["seed", "network", "c"], ["0", "ring(agents=4)", "0.1"], 31).splitlines()
        ['seed=0, network=ring(agents=4),', 'c=0.1']
    """
    lines: list[str] = []
    for name, value in zip(names, values, strict=True):
        item = f"{name}={value}"
        if lines and len(lines[-1]) + len(item) + 3 <= room:  # with the commas
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return ",\n".join(lines)


def sweep_line(folder: Path, status: Status) -> str:
    """Return the numbers of finished, failed and missing cells."""
    total = len(status.done) + len(status.failed) + len(status.missing)
    return (
        f"{folder}: {counted(total, 'cell')}: {len(status.done)} done, "
        f"{len(status.failed)} failed, {len(status.missing)} missing"
    )


def sweep_privacy(manifest: Manifest) -> list[str]:
    """Return what ε means in a line, if a sweep has randomised response."""
    given = manifest.config.get("privacy")
    if given is None:
        return []
    each = [
        cell.values.get("privacy.epsilon", cell.values.get("privacy", given))
        for cell in manifest.cells
    ]
    said = guarantees(one["epsilon"] if isinstance(one, Mapping) else one for one in each)
    return [f"privacy: {said}"]


def print_tuning(found: Tuned, console: Console) -> None:
    """Print the candidates, their regret on fresh seeds, and the lines for the configuration."""
    console.print(_candidates_table(found.choice))
    console.print(_fresh_table(found.report))
    protected = found.report.tuned[0].guarantee
    for line, style in [
        *([] if protected is None else [(f"privacy: {protected}", "")]),
        *((line, "yellow") for line in tuning_warnings(found)),
        (tuning_outcome(found), "bold"),
        (found.section, ""),
    ]:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _candidates_table(choice: Choice) -> Group:
    """Return a table of the candidates, the best first."""
    order = choice.regret.mean(axis=1).argsort(kind="stable")
    tried = choice.table().iloc[order]
    names = list(tried.columns[: tried.columns.get_loc("regret")])
    table = empty_table(*names, "regret at T", "")
    table.columns[0].justify = "right"
    for row in tried[:LISTED].to_dict("records"):
        numbers = (row[name] for name in names)
        table.add_row(
            *("-" if x is None else f"{x:g}" if isinstance(x, int | float) else x for x in numbers),
            f"{row['regret']:,.2f}",
            "as in the file" if row["given"] else "",
        )
    on = f"{counted(len(choice.seeds), 'draw')} of the losses" if choice.redrawn else "these losses"
    return titled(f"{counted(len(tried), 'candidate')} on {on}", table, _more(tried.index))


def _fresh_table(report: Report) -> Group:
    table = empty_table("expected regret at T", "mean", "95% band")
    for name, mean, low, high in report.summary().itertuples():
        table.add_row(name.replace("given", "file's own"), f"{mean:,.2f}", _band(low, high))
    runs = counted(report.tuned[0].dataset.sizes["run"], "run")
    on = (
        f"{counted(len(report.seeds), 'fresh draw')} of the losses, {runs} on each"
        if report.redrawn
        else f"{runs} with fresh randomness of the agents, on the same losses"
    )
    return titled(f"{report.tuned[0].label}: {on}", table, f"Bands are over {report.unit}s.")


def tuning_warnings(found: Tuned) -> list[str]:
    """Return warnings about the outcome of tuning."""
    choice, report = found.choice, found.report
    lines = [
        f"{edge.name} {edge.value:g} is the {edge.side} tried, better ones may lie beyond: "
        f"--range {edge.name}={edge.wider[0]:g}:{edge.wider[1]:g}"
        for edge in choice.edges
    ]
    if not report.redrawn:
        lines.append(
            "the losses are stored or computed, not drawn from a seed: what was tuned has seen "
            "them, and only the agents' randomness is fresh; on other losses regret may be larger"
        )
    return lines


def tuning_outcome(found: Tuned) -> str:
    """Return which of the two settings is written, and why."""
    choice, report = found.choice, found.report
    if choice.given is not None and choice.winner is choice.candidates[choice.given]:
        return "no candidate was better than the file's own setting, which stays"
    if report.wins:
        return (
            "on fresh seeds what tuning found is better than the file's own setting: it is written"
        )
    low = report.difference().low
    if low > 0:
        return "on fresh seeds what tuning found is worse than the file's own setting, which stays"
    if low != low:  # NaN
        return "one run has no interval: the file's own setting stays; give more --runs"
    return (
        "on fresh seeds what tuning found is not clearly better than the file's own setting, which "
        "stays: the interval of the difference reaches 0"
    )


def _more(rows: Sequence[object]) -> str:
    return f"and {len(rows) - LISTED} more" if len(rows) > LISTED else ""


def communication_line(result: Result) -> str:
    """Return what an agent sends: its size, and the kind of each leaf."""
    sent = result.communication
    if not sent["leaves"]:
        return "communication: none, nothing leaves an agent"
    of_each = sent.get("leaf_bytes", {})  # older result files lack it
    leaves = ", ".join(
        f"{name} ({kind}, {of_each[name]:,.0f} bytes)" if name in of_each else f"{name} ({kind})"
        for name, kind in sent["leaves"].items()
    )
    return (
        f"communication: {sent['messages']:.2f} messages, {sent['bytes']:,.0f} bytes per agent "
        f"and round; leaves the agent: {leaves}"
    )


def recommendation_line(result: Result) -> str:
    """Return the arm that most agents would play now, and the best in hindsight."""
    import numpy as np

    honest = result.dataset["agent_expected_regret"].notnull().to_numpy()
    counts = np.bincount(result.dataset["recommended_arm"].to_numpy()[honest])
    arm = result.dataset["arm"].to_numpy()[counts.argmax()]
    best = result.best_arm
    share = counts.max() / counts.sum()
    hindsight = f"the best in hindsight, {best.lead}" if arm == best.arm else f"in hindsight {best}"
    return f"recommended arm: {arm}, by {share:.0%} of agents and runs; {hindsight}"


def section_table(shown: SectionTable) -> Group:
    """Return a table of a reproduced figure with its note."""
    table = empty_table(*shown.columns)
    for row in shown.rows:
        table.add_row(*row)
    return titled(shown.title, table, shown.note)


def print_catalogue(section: str, console: Console) -> None:
    """Print everything that a section of a configuration can name."""
    from rich.padding import Padding
    from rich.text import Text

    places = {"schedule": "rates in [algorithm]", "attack": "[liars.AGENT]"}
    named = "" if section not in catalogue.NAMELESS else ", which needs no name"
    console.print(Text(places.get(section, f"[{section}]{named}"), "bold"))
    for entry in catalogue.catalogue(section):
        head = Text.assemble((entry.name, "cyan"), f"({', '.join(entry.parameters)})")
        console.print(Padding(head, (0, 0, 0, 2)))
        for line in (entry.doc, *entry.notes):
            console.print(Padding(Text(line, "dim"), (0, 0, 0, 6)))
    console.print()


def network_table(graph: Network, title: str) -> Group:
    """Return a table of a network's size, degrees and distances."""
    degrees = graph.degrees
    connected = graph.connected
    rows = {
        "agents": f"{graph.agents:,}",
        "edges": f"{len(graph.edges):,}",
        "degree, min / mean / max": f"{degrees.min()} / {degrees.mean():.2f} / {degrees.max()}",
        "connected": "yes" if connected else "no",
        "algebraic connectivity": f"{graph.algebraic_connectivity:.4g}",
        "diameter": f"{graph.diameter}" if connected else "infinite: not connected",
    }
    table = empty_table("", "")
    table.show_header = False
    for name, value in rows.items():
        table.add_row(name, value)
    return titled(title, table)


def gossip_table(graph: Network, horizon: int, fastest: bool) -> Table:
    """Return a table of the mixing speed of each rule."""
    from fedbandits import gossip

    rules: dict[str, Callable[[], Gossip]] = {
        "max_degree": lambda: gossip.max_degree(graph),
        "max_degree(lazy=False)": lambda: gossip.max_degree(graph, lazy=False),
        "metropolis": lambda: gossip.metropolis(graph),
    }
    if fastest:
        rules["fastest"] = lambda: gossip.fastest(graph)
    table = empty_table("gossip", "sigma2", "gap", f"C_W({horizon:,})")
    for name, make in rules.items():
        matrix = make()
        table.add_row(
            name, f"{matrix.sigma2:.6f}", f"{matrix.gap:.4g}", f"{matrix.c_w(horizon):,.4g}"
        )
    return table

"""Rows as a table that is read in a terminal and pasted into a Markdown page alike."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import combining

from benchmarks.rows import Row

COLUMNS = (
    "row",
    "measured",
    "goal",
    "met",
    "times faster than NumPy",
    "times the floor",
    "best of",
)


def markdown(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns of equal width; the first is text, the others numbers."""
    cells = [[cell.replace("|", "\\|") for cell in line] for line in (columns, *lines)]
    widths = [max(_width(line[i]) for line in cells) for i in range(len(columns))]

    def row(line: Sequence[str]) -> str:
        padded = [
            cell + " " * (width - _width(cell)) if i == 0 else " " * (width - _width(cell)) + cell
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width if i == 0 else "-" * (width - 1) + ":") for i, width in enumerate(widths)]
    return "\n".join([row(cells[0]), f"| {' | '.join(rule)} |", *map(row, cells[1:])])


def of_rows(rows: Sequence[Row]) -> str:
    """The table, and under it what has to be known to read it."""
    notes = [f"- {row.name}: {row.note}" for row in rows if row.note]
    return "\n".join([markdown(COLUMNS, [_cells(row) for row in rows]), "", *notes])


def number(value: float | None) -> str:
    """Three digits that count.

    Example:
        >>> number(1234567.8), number(12.345), number(0.01234), number(None)
        ('1,234,568', '12.3', '0.0123', '-')
    """
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def apart(value: float, goal: float | None) -> tuple[str, str | None]:
    """Both with three digits that count, or as many as tell them apart.

    Example:
        >>> apart(12.345, 15), apart(1.3745, 1.3698), apart(26185.3, 26184.7), apart(5, None)
        (('12.3', '15.0'), ('1.375', '1.370'), ('26,185.3', '26,184.7'), ('5.00', None))
    """
    if goal is None:
        return number(value), None
    texts = number(value), number(goal)
    decimals = len(texts[0].partition(".")[2])
    while texts[0] == texts[1] and value != goal:
        decimals += 1
        texts = f"{value:,.{decimals}f}", f"{goal:,.{decimals}f}"
    return texts


def _cells(row: Row) -> tuple[str, ...]:
    if row.status != "measured" or row.value is None:
        return (row.name, row.status, "-", "-", "-", "-", "-")
    value, goal = apart(row.value, row.goal)
    return (
        row.name,
        f"{value} {row.unit}",
        "-" if goal is None else f"≤ {goal}",
        verdict(row.over_goal),
        number(row.times_faster),
        number(row.times_floor),
        f"{row.n}, +{row.spread or 0:.0%}" if row.n > 1 else "1",
    )


def verdict(over_goal: float | None) -> str:
    """Met, or missed by how much.

    Example:
        >>> verdict(0.5), verdict(1.5), verdict(1.001), verdict(None)
        ('met', 'missed by 50%', 'missed by less than 1%', '-')
    """
    if over_goal is None:
        return "-"
    if over_goal <= 1:
        return "met"
    if over_goal >= 3:
        return f"missed {over_goal:.1f} times"
    return f"missed by {over_goal - 1:.0%}" if over_goal >= 1.01 else "missed by less than 1%"


def _width(cell: str) -> int:
    return sum(not combining(character) for character in cell)

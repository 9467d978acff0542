"""Lines and tables that the commands for live agents print."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandits.common.describe import label
from fedbandits.privacy.response import guarantee

from .tables import counted, empty_table, titled

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from fedbandits.live.federation.membership import Change
    from fedbandits.live.journal.summary import JournalSummary

TICKETS = 20
"""The largest number of open tickets in a table."""

LISTED = 40
"""The largest number of arms in a table."""


def journal_lines(found: JournalSummary) -> list[str]:
    """Return lines with the agent, its counts and its privacy."""
    held = "not open"
    if found.process is not None:
        held = f"opened by process {found.process}, which runs or was killed"
    return [
        f"{found.agent} (life {found.life}, {held}): {label(found.algorithm)}",
        f"{counted(found.rounds, 'choice')}: {found.observed} observed, {found.expired} expired, "
        f"{len(found.open)} open",
        f"privacy: {guarantee(found.epsilon)}",
    ]


def journal_tables(found: JournalSummary) -> list[Group | Table]:
    """Return tables of the leaves by arm, the open tickets and the ledger; omit empty tables."""
    shown: list[Group | Table] = []
    by_arm = {name: values for name, values in found.values.items()
              if len(values) == len(found.arms)}  # fmt: skip
    table = empty_table("arm", *by_arm)
    for i, arm in enumerate(found.arms):
        table.add_row(arm, *(f"{values[i]:.6g}" for values in by_arm.values()))
    shown.append(table)
    if others := found.values.keys() - by_arm.keys():
        table = empty_table("leaf", "values")
        for name in sorted(others):
            table.add_row(name, ", ".join(f"{value:.6g}" for value in found.values[name]))
        shown.append(table)
    if found.open:
        table = empty_table("open ticket", "arm", "probability", "age in s")
        for ticket in found.open[:TICKETS]:
            age = f"{ticket.age:,.1f}"
            table.add_row(ticket.id, ticket.arm, f"{ticket.probability:.4g}", age)
        of = f"the first {TICKETS} of {len(found.open)} open tickets; --json has all"
        shown.append(titled(of, table) if len(found.open) > TICKETS else table)
    if found.edges:
        table = empty_table("neighbour", "incarnation", "its incarnation", "flows", "largest flow")
        for neighbour, edge in found.edges.items():
            numbers = str(edge.incarnation), str(edge.other), str(edge.sequence)
            table.add_row(neighbour, *numbers, f"{edge.largest_flow:.6g}")
        shown.append(table)
    return shown


def status_lines(found: Mapping[str, Any]) -> list[str]:
    """Return lines with the agent, its recommended arm, its counts and its certificates."""
    likeliest, baseline = max(found["probabilities"]), found.get("baseline")
    return [
        f"{found['name']}: {found['algorithm']}, up for {found['uptime']:,.0f} s, version "
        f"{found['version']}; version {found['federation_version']} of the federation's file",
        f"recommends {found['recommended']} (p = {likeliest:.3f}); disagreement "
        f"{found['disagreement']:.3g}",
        *([f"an apprentice: plays {baseline} each time"] if baseline else []),
        f"{counted(found['rounds'], 'choice')}: {found['observed']} observed, {found['expired']} "
        f"expired, {found['open_tickets']} open",
        *_expiry_lines(found),
        f"privacy: {guarantee(found.get('epsilon'))}",  # absent from older agents
    ]


def _expiry_lines(found: Mapping[str, Any]) -> list[str]:
    """Return when certificates expire, with a warning a month ahead."""
    from fedbandits.live.transport.certificate_expiry import MONTH, expiry_text

    lines = []
    for what, key in (("certificate", "certificate"), ("authority's certificate", "authority")):
        end, now = found[f"{key}_expires"], found["time"]
        if end is not None:
            warning = "warning: " if end - now < MONTH else ""
            lines.append(f"{warning}the {what} {expiry_text(end, now)}")
    return lines


def losses_table(found: Mapping[str, Any]) -> Group | None:
    """Return mean losses, or rewards, by arm and window; None without observations."""
    losses = found.get("losses")  # absent from older agents
    if losses is None:
        return None
    windows = losses["windows"]
    table = empty_table("", *windows)
    table.add_row("since", *(_utc(window["since"]) for window in windows.values()))
    counts = [[window["observed"], *window["arm_observed"]] for window in windows.values()]
    means = [[window["loss"], *window["arm_loss"]] for window in windows.values()]
    rows = sorted(range(1, 1 + len(found["arms"])), key=lambda row: -counts[-1][row])[:LISTED]
    for row in (0, *sorted(rows)):
        cells = [_mean(losses, of[row], n[row]) for of, n in zip(means, counts, strict=True)]
        table.add_row(found["arms"][row - 1] if row else "played", *cells)
    of = "and number of observations; times in UTC"
    if losses["noise"] is not None:
        of = "estimated from noisy bits, ± standard error; times in UTC"
    what = "reward" if losses["rewards"] else "loss"
    more = f"the {LISTED} arms with the most observations; --json lists all"
    note = more if len(found["arms"]) > LISTED else ""
    return titled(f"mean {what} {of}", table, note)


def _mean(losses: Mapping[str, Any], loss: float | None, count: int) -> str:
    """Return a mean as a loss or a reward, whichever the application reports."""
    if loss is None:
        return "-"
    mean = losses["low"] + losses["high"] - loss if losses["rewards"] else loss
    if losses["noise"] is None:
        return f"{mean:.4g} ({count:,})"
    return f"{mean:.4g} ± {losses['noise'] / count**0.5:.2g}"


def _utc(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}"


def neighbours_table(found: Mapping[str, Any]) -> Table:
    """Return a table of the neighbours."""
    table = empty_table("neighbour", "heard", "disagreement", "refused", "why")
    table.columns[-1].justify = "left"
    for name, each in found["neighbours"].items():
        silent, apart = each["silent_for"], each["disagreement"]
        heard = "never" if silent is None else f"{silent:,.1f} s ago"
        table.add_row(
            name,
            "has left" if each["left"] else heard,
            "-" if apart is None else f"{apart:.3g}",
            str(each["refused"]),
            each.get("no_link") or each["last_refusal"] or "-",
        )
    return table


def join_lines(file: Path, name: str, change: Change) -> list[str]:
    """Return the next steps after a member was added to the file."""
    return [
        f"{name} is in {file}, now version {change.after.version}. Next:",
        f"  fedbandits live keys {file} --add {name}",
        f"  copy its folder of keys, {file.name} and an agent.toml to {name}; start its agent",
        *_other_members(file, change),
    ]


def leave_lines(file: Path, name: str, change: Change) -> list[str]:
    """Return the next steps after a member was removed from the file."""
    return [
        f"{name} is no longer in {file}, now version {change.after.version}. Next:",
        f"  stop the agent of {name}",
        *_other_members(file, change),
    ]


def _other_members(file: Path, change: Change) -> list[str]:
    """Return which members need the file now, and which at their next start."""
    old = [each for each in change.after.members if each in change.before.members]
    rest = [each for each in old if each not in change.concerned]
    lines = []
    if change.concerned:
        where = ", ".join(change.concerned)
        lines.append(f"  copy {file.name} to {where}, and restart these agents, in any order")
    if rest:
        lines.append(
            f"  copy {file.name} to {', '.join(rest)} too; their links stay the same, so they "
            "need no restart"
        )
    return lines

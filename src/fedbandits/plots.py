"""Figures ready for a paper: labelled axes, bands, colours that everyone can tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from .gossip import Gossip
    from .results import Result

# Okabe and Ito's palette, told apart with every common form of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")


def new_axes(width: float = 5.0, height: float = 3.4) -> Axes:
    """Empty axes in the house style."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.6)
    return ax


def plot_regret(
    results: Mapping[str, Result], ax: Axes | None = None, *, dates: bool = True
) -> Axes:
    """Regret over time, one line and 95% band per result.

    Args:
        results: by the name of the curve.
        ax: axes to draw on; new ones by default.
        dates: time is the date where all results have dates, else the round.
    """
    ax = new_axes() if ax is None else ax
    # What the axes have already cannot be changed into dates.
    dates = dates and (not ax.lines or ax.get_xlabel() == "date")
    dates = dates and all("date" in result.dataset.coords for result in results.values())
    for i, (label, result) in enumerate(results.items()):
        # Continue the palette where earlier lines of the same axes left off.
        colour = COLOURS[len(ax.lines) % len(COLOURS)]
        mean, low, high = result.band("regret")
        time = result.dataset["date" if dates else "time"]
        style = STYLES[i // len(COLOURS) % len(STYLES)]
        ax.plot(time, mean, style, color=colour, label=label, linewidth=1.6)
        if result.dataset.sizes["run"] > 1:
            ax.fill_between(time, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set_xlabel("date" if dates else "round $t$")
    ax.set_ylabel("cumulative regret, mean over agents")
    ax.margins(x=0)
    if dates:
        short_dates(ax)
    else:
        ax.set_xlim(left=0)
    ax.legend(title=_what_bands_cover(results), title_fontsize="small", frameon=False)
    return ax


def plot_bounds(result: Result, gossip: Gossip | None, ax: Axes) -> None:
    """The paper's lower and upper bound beside a regret curve, on a logarithmic axis."""
    from .theorems import bound_curves, checked, gossip_of

    matrix = checked(result, gossip) if gossip else gossip_of(result)
    times, curves = bound_curves(result, matrix)
    for style, (name, curve) in zip(("--", "-."), curves.items(), strict=False):
        ax.plot(times, curve, style, color="0.35", linewidth=1.2, label=name)
    ax.plot(times, times, ":", color="0.35", linewidth=1.2, label="t: a bound above it is vacuous")
    ax.set_yscale("log")
    new_legend(ax, fontsize="small")


def short_dates(ax: Axes) -> None:
    """Dates along x as short as can be: what they share is written once."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def new_legend(ax: Axes, **options: Any) -> None:
    """The legend anew, for curves added since; its title says what the bands cover."""
    legend = ax.get_legend()
    title = legend.get_title().get_text() if legend else None
    ax.legend(title=title, title_fontsize="small", frameon=False, **options)


def plain_log(ax: Axes, *, x: bool = True, y: bool = True) -> None:
    """Log axes, both or one alone, labelled with plain numbers, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes: list[Axis] = [axis for axis, wanted in ((ax.xaxis, x), (ax.yaxis, y)) if wanted]
    ax.set(xscale="log" if x else "linear", yscale="log" if y else "linear")
    for axis in axes:
        low, high = axis.get_view_interval()
        # Labels at 1, 2 and 5 of each decade, but only at 1 where there are many.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def save_figure(figure: Figure, *paths: str | Path) -> None:
    """Write a figure, in the format each name ends in, whole or not at all."""
    for path in map(Path, paths):
        kind = path.suffix.lstrip(".")
        known = figure.canvas.get_supported_filetypes()
        if kind not in known:
            raise ValueError(
                f"cannot save a figure as {path.name}; known endings: {', '.join(sorted(known))}"
            )
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=200)


def _what_bands_cover(results: Mapping[str, Result]) -> str | None:
    runs = sorted({result.dataset.sizes["run"] for result in results.values()})
    if runs == [1]:
        return None
    return f"band: 95% over {' or '.join(map(str, runs))} runs on fixed losses"

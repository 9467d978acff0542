"""Figures ready for a paper: labelled axes, bands, colours that everyone can tell apart."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbandits.common.files import save_figure
from fedbandits.privacy.response import guarantee, guarantees

from .comparison import named

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

    from fedbandits.gossip.base import Gossip

    from .result import Result

# Okabe and Ito's palette, told apart with every common form of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")

LONGEST_IN_FULL = 10_000
"""Larger numbers of rounds would touch each other along x."""


def plot(
    *results: Result | Mapping[str, Result],
    kind: str = "regret",
    ax: Axes | None = None,
    label: str | Sequence[str] | None = None,
    path: str | Path | None = None,
    dates: bool = True,
) -> Axes:
    """Draw the regret of several results over time, each with its 95% band.

    Or another picture of them, by `kind`; all but `regret` and `pareto` need what
    `fb.simulate(..., record="agents")` keeps:

    - `regret`: over time
    - `pareto`: regret at T against the bytes that an agent sends in a round
    - `disagreement`: how far agents are from their mean distribution, over time
    - `agents`: the regret of every agent, as violins
    - `arms`: the probability of every arm over time, as a heat map; of one result
    - `network`: the agents of one result, each in the colour of its leading arm, in run 0 (of draw
      0): all snapshots in a `path` that ends in .html, .gif or .mp4, else the last

    Args:
        results: one by one, named by algorithm and what else tells them apart; or a mapping from
            names to results.
        kind: which picture.
        ax: axes to draw on; new ones by default. The legend goes below them. A figure with these
            axes alone becomes so much taller; one without a layout gets matplotlib's constrained
            one, which makes room for the legend.
        label: the names in the legend, one for each result.
        path: where to write the figure, as .pdf, .svg, .png, ...; nowhere by default.
        dates: regret is over the date where all results have dates, else over the round.

    Returns:
        the axes, to change or add to.

    Example:
        >>> import fedbandits as fb
        >>> problem = fb.problems.activated_bernoulli(agents=4, arms=3, horizon=100)
        >>> slow, fast = (fb.simulate(problem, fb.Exp3(rate), runs=2) for rate in (0.1, 1.0))
        >>> ax = fb.plot(slow, fast)
        >>> ax.get_legend_handles_labels()[1]
        ['Exp3, learning_rate=0.1', 'Exp3, learning_rate=1']
    """
    from .pictures import picture

    told_apart = named(results, label)
    if kind != "regret":
        return picture(kind, told_apart, ax, path)
    ax = plot_regret(told_apart, ax, dates=dates)
    if path is not None:
        save_figure(figure_of(ax), path)
    return ax


def new_axes(width: float = 5.0, height: float = 3.1) -> Axes:
    """Make empty axes in the common style.

    Args:
        width: of the figure, in inches.
        height: of the figure before `legend_below` makes it taller.
    """
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.6)
    return ax


def plot_regret(
    results: Mapping[str, Result], ax: Axes | None = None, *, dates: bool = True
) -> Axes:
    """Draw regret over time, one line and 95% band per result.

    Args:
        results: by the name of the curve.
        ax: axes to draw on; new ones by default.
        dates: time is the date where all results have dates, else the round.
    """
    ax = new_axes() if ax is None else ax
    dated = bool(ax.lines) and ax.get_xlabel() == "date"
    # What the axes have already cannot be changed into dates.
    dates = dates and (not ax.lines or dated)
    dates = dates and all("date" in result.dataset.coords for result in results.values())
    if dated and not dates:
        raise ValueError(
            "the axes have dates, and a result has rounds alone; give it axes of its own"
        )
    for label, result in results.items():
        draw_band(ax, label, result.dataset["date" if dates else "time"], result, "regret")
    ax.set_xlabel("date" if dates else "round $t$")
    ax.set_ylabel("cumulative regret,\nmean over agents")
    ax.margins(x=0)
    if dates:
        short_dates(ax)
    else:
        ax.set_xlim(left=0)
        short_rounds(ax)
    said = [*against(results), *what_bands_cover(results), *_what_is_protected(results)]
    legend_below(ax, "\n".join(said) or None)
    return ax


def draw_band(ax: Axes, label: str, time: xr.DataArray, result: Result, variable: str) -> None:
    """Draw the mean of a variable over time with its 95% band, in the next colour."""
    times_round, place = divmod(len(ax.lines), len(COLOURS))
    style, colour = STYLES[times_round % len(STYLES)], COLOURS[place]
    mean, low, high = result.band(variable)
    ax.plot(time, mean, style, color=colour, label=label, linewidth=1.6)
    if result.sample[1] > 1:
        ax.fill_between(time, low, high, color=colour, alpha=0.2, linewidth=0)


def plot_bounds(result: Result, gossip: Gossip | None, ax: Axes) -> None:
    """Draw the paper's lower and upper bound next to a regret curve, on a logarithmic axis."""
    from .bounds_table import bound_curves, check_fixed, checked, gossip_of

    check_fixed(result)
    matrix = checked(result, gossip) if gossip else gossip_of(result)
    times, curves = bound_curves(result, matrix)
    for style, (name, curve) in zip(("--", "-."), curves.items(), strict=False):
        ax.plot(times, curve, style, color="0.35", linewidth=1.2, label=name)
    ax.plot(times, times, ":", color="0.35", linewidth=1.2, label="t: a bound above it is vacuous")
    ax.set_yscale("log")
    legend_below(ax)


def short_rounds(ax: Axes) -> None:
    """Write large rounds along x as 50k or 2M."""
    from matplotlib.ticker import EngFormatter

    if ax.get_xlim()[1] > LONGEST_IN_FULL:
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))


def short_dates(ax: Axes) -> None:
    """Write few dates along x, each complete: a day has month and year."""
    from matplotlib import dates

    # Five of the widest have room side by side.
    locator = dates.AutoDateLocator(minticks=3, maxticks=5)  # type: ignore[no-untyped-call]
    formatter = dates.AutoDateFormatter(locator)  # type: ignore[no-untyped-call]
    formatter.scaled = {
        dates.DAYS_PER_YEAR: "%Y",
        dates.DAYS_PER_MONTH: "%b\n%Y",
        1.0: "%d %b\n%Y",
        1 / dates.HOURS_PER_DAY: "%H:%M\n%d %b\n%Y",
        1 / dates.SEC_PER_DAY: "%H:%M:%S\n%d %b\n%Y",
    }
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(formatter)


def legend_below(ax: Axes, title: str | None = None) -> None:
    """Put the legend under the x axis, where no curve can be, in as few rows as possible.

    Call it when the curves and the label of the x axis are there. Axes alone in their figure stay
    as tall as they are, however long the legend: the figure grows.

    Args:
        ax: what it is for. Its figure gets a layout that makes room, where it has none.
        title: over the names; that of the legend before, where there is one.
    """
    from matplotlib.transforms import ScaledTranslation

    before, figure = ax.get_legend(), figure_of(ax)
    if before is not None:
        title = title or before.get_title().get_text()
    options: dict[str, Any] = {
        **{"title": title, "title_fontsize": "small", "fontsize": "small", "frameon": False},
        **{"handlelength": 1.8, "columnspacing": 1.4},
    }
    if ax.get_subplotspec() is None:  # placed by hand: no layout can make room
        ax.legend(**options)
        return
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    figure.draw_without_rendering()  # for the layout
    room, axis = ax.get_window_extent(), ax.xaxis.get_tightbbox()
    depth = 0.0 if axis is None else room.y0 - axis.y0
    under = ax.transAxes + ScaledTranslation(0, -depth / figure.dpi, figure.dpi_scale_trans)
    names = len(ax.get_legend_handles_labels()[1])
    if not names:
        return
    for rows in range(1, names + 1):
        legend = ax.legend(
            **options,
            ncols=math.ceil(names / rows),
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=under,
        )
        if legend.get_window_extent().width <= room.width:
            break
    else:
        _break_lines(legend, room.width)
    if figure.axes == [ax]:
        _grow(ax, legend, room.height)


def _grow(ax: Axes, legend: Legend, height: float) -> None:
    """Make the figure so tall that the axes above the legend have this height, in pixels."""
    figure = figure_of(ax)

    def add(pixels: float) -> None:
        figure.set_figheight(figure.get_figheight() + pixels / figure.dpi)
        figure.draw_without_rendering()  # for the layout

    add(legend.get_window_extent().height)  # no layout could work in less
    add(height - ax.get_window_extent().height)


def _break_lines(legend: Legend, room: float) -> None:
    """Break the texts of a legend until it is no wider than that, in pixels."""
    texts = [legend.get_title(), *legend.get_texts()]
    whole = [text.get_text() for text in texts]
    for width in range(max(map(len, whole)), 9, -3):
        for text, words in zip(texts, whole, strict=True):
            text.set_text(textwrap.fill(words, width))
        if legend.get_window_extent().width <= room:
            return


def plain_log(ax: Axes, *, x: bool = True, y: bool = True) -> None:
    """Make both axes or one logarithmic, with plain numbers and not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes: list[Axis] = [axis for axis, wanted in ((ax.xaxis, x), (ax.yaxis, y)) if wanted]
    ax.set(xscale="log" if x else "linear", yscale="log" if y else "linear")
    for axis in axes:
        low, high = axis.get_view_interval()
        # Labels at 1, 2 and 5 of each decade, but only at 1 where there are many.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
        axis.set_minor_formatter(NullFormatter())


def figure_of(ax: Axes) -> Figure:
    """Return the figure of axes."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def against(results: Mapping[str, Result]) -> list[str]:
    """Return the common sequence of arms that regret is against, if there is one."""
    moving = {result.moving for result in results.values()}
    return [f"against {words}" for words in moving if words and len(moving) == 1]


def _what_is_protected(results: Mapping[str, Result]) -> list[str]:
    """Return the privacy guarantees of the results in lines."""
    epsilons = [result.epsilon for result in results.values()]
    by_bits = [None if epsilon is None else guarantee(epsilon) for epsilon in epsilons]
    if None not in by_bits and by_bits == [result.guarantee for result in results.values()]:
        return textwrap.wrap(guarantees(epsilons) or "", 50)  # the labels say which ε
    said: dict[str | None, list[str]] = {}
    for name, result in results.items():
        said.setdefault(result.guarantee, []).append(name)
    lines = []
    for promise, names in said.items():
        whose = "" if len(said) == 1 else f"{', '.join(names)}: "
        if promise is not None or len(said) > 1:
            lines += textwrap.wrap(f"{whose}{promise or 'no privacy guarantee'}", 50)
    return lines


def what_bands_cover(results: Mapping[str, Result]) -> list[str]:
    """Return lines that describe the bands; one run has no band."""
    samples = sorted({result.sample for result in results.values()})
    single = ["no band: one run"] if ("run", 1) in samples else []
    samples = [sample for sample in samples if sample != ("run", 1)]
    if not samples:
        return single
    watched = any(result.watched for result in results.values())
    of = {"run": "runs" if watched else "runs on fixed losses", "draw": "draws of the losses"}
    counts = {
        over: " or ".join(str(count) for other, count in samples if other == over)
        for over, _ in samples
    }
    return [
        f"band: 95% over {', or '.join(f'{n} {of[over]}' for over, n in counts.items())}",
        *single,
    ]

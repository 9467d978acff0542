"""Results: an xarray Dataset with what was run in its attributes; bands, tables and files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .files import atomic_path

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from .engine.communication import Communication
    from .engine.record import Record
    from .gossip import Gossip

FORMAT = 1
"""Version of the file layout. A file of another version is refused, never misread."""

DIMENSIONS = {
    "regret": ("run", "time"),
    "expected_regret": ("run", "time"),
    "worst_regret": ("time",),
    "agent_regret": ("run", "agent"),
    "agent_expected_regret": ("run", "agent"),
    "arm_loss": ("time", "arm"),
    "arm_frequency": ("run", "time", "arm"),
    "recommended_arm": ("run", "agent"),
}
"""Of the variables; see `Result`."""

ATTRIBUTES = {"config", "communication", "against"}

LEVEL = 0.95


class Band(NamedTuple):
    """A mean over runs with its 95% confidence interval, Student's t; NaN limits for one run."""

    mean: xr.DataArray
    low: xr.DataArray
    high: xr.DataArray


def band(values: xr.DataArray, level: float = LEVEL) -> Band:
    """Mean over the dimension `run` and its interval, 95% by default: mean ± t · s/√R."""
    from scipy.special import stdtrit

    runs = values.sizes["run"]
    mean = values.mean("run")
    if runs == 1:
        return Band(mean, mean * np.nan, mean * np.nan)
    half = stdtrit(runs - 1, (1 + level) / 2) * values.std("run", ddof=1) / np.sqrt(runs)
    return Band(mean, mean - half, mean + half)


class Interval(NamedTuple):
    """A mean and its confidence limits; NaN limits for a single value."""

    mean: float
    low: float
    high: float


def interval(values: npt.ArrayLike, level: float = LEVEL) -> Interval:
    """Mean of independent values and its interval, mean ± t · s/√n.

    Example:
        >>> interval([1.0, 2.0, 3.0])
        Interval(mean=2.0, low=-0.484..., high=4.484...)
    """
    import xarray as xr

    sample = xr.DataArray(np.asarray(values, np.float64).ravel(), dims="run")
    return Interval(*(float(part) for part in band(sample, level)))


@dataclass(frozen=True, eq=False)
class Result:
    """What a simulation found.

    `dataset` holds, losses being averaged over all agents as in the paper:

    - `regret[run, time]`: mean over agents, from the arms sampled
    - `expected_regret[run, time]`: the same from the distributions, ⟨p_t, ℓ̄_t⟩: less noise
    - `worst_regret[time]`: the largest over agents of the run-averaged expected regret
    - `agent_regret[run, agent]` and `agent_expected_regret[run, agent]`: at T
    - `arm_loss[time, arm]`: cumulative mean loss of each arm
    - `arm_frequency[run, time, arm]`: share of plays up to then
    - `recommended_arm[run, agent]`: what the agent would most likely play in round T + 1 (a random
      one of equals)

    Its coordinate `time` counts the rounds; where the losses have dates, `date` beside it has them.

    All runs share one loss draw, so bands cover the agents' own randomness.

    `gossip` is what was simulated with; a file does not hold it.
    """

    dataset: xr.Dataset
    gossip: Gossip | None = None

    @property
    def config(self) -> dict[str, Any]:
        """Problem, network, gossip, algorithm, runs, seed, dtype and version."""
        config: dict[str, Any] = json.loads(self.dataset.attrs["config"])
        return config

    @property
    def communication(self) -> dict[str, Any]:
        """Messages and bytes per agent and round, and what leaves the agent, leaf by leaf.

        `leaves` says what each is declared to be (`estimate`, `count` or `raw`), `leaf_bytes` how
        much of `bytes` it is; older files have no `leaf_bytes`.
        """
        sent: dict[str, Any] = json.loads(self.dataset.attrs["communication"])
        return sent

    @property
    def label(self) -> str:
        """The algorithm's name."""
        return str(self.config["algorithm"]["name"])

    @property
    def recommended_arm(self) -> xr.DataArray:
        """What each agent would most likely play now, `[run, agent]`: arms by name or number."""
        chosen = self.dataset["recommended_arm"]
        return chosen.copy(data=self.dataset["arm"].to_numpy()[chosen.to_numpy()])

    @property
    def worst_agent(self) -> int:
        """The number of the agent with the largest run-averaged expected regret at T."""
        return int(self.dataset["agent_expected_regret"].mean("run").argmax("agent"))

    @property
    def uniform_regret(self) -> float:
        """The regret at T of uniform play on the same losses: exact, it needs no run."""
        arm_loss = self.dataset["arm_loss"].isel(time=-1)
        return float(arm_loss.mean() - arm_loss.min())

    def band(self, variable: str = "regret") -> Band:
        """Mean over runs and 95% interval of a variable of the dataset."""
        return band(self.dataset[variable])

    def summary(self) -> pd.DataFrame:
        """Regret at T of the mean agent, the worst agent and uniform play, with 95% bands.

        The worst agent is the one with the largest run-averaged expected regret. Uniform play's
        regret is exact: it needs no run.
        """
        import pandas as pd

        data = self.dataset
        by_agent = data["agent_expected_regret"]
        worst = by_agent.isel(agent=self.worst_agent)
        rows = {
            "mean agent": band(data["regret"].isel(time=-1)),
            "mean agent, expected": band(data["expected_regret"].isel(time=-1)),
            f"worst agent ({worst['agent'].item()}), expected": band(worst),
        }
        uniform = self.uniform_regret
        table = {name: [float(x) for x in interval] for name, interval in rows.items()}
        table["uniform play, exact"] = [uniform, uniform, uniform]
        return pd.DataFrame.from_dict(
            table, orient="index", columns=["regret", "low 95%", "high 95%"]
        )

    def against(self, which: Literal["current", "final"]) -> Result:
        """The same result with curves against the arm best up to each time, or best at T."""
        data = self.dataset
        if which not in ("current", "final"):
            raise ValueError(f"against must be 'current' or 'final', not {which!r}")
        if which == data.attrs["against"]:
            return self
        shift = _best(data["arm_loss"], data.attrs["against"]) - _best(data["arm_loss"], which)
        curves = ("regret", "expected_regret", "worst_regret")
        changed = data.assign({name: data[name] + shift for name in curves})
        return Result(changed.assign_attrs(against=which), self.gossip)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        label: str | None = None,
        path: str | Path | None = None,
        bounds: bool | Gossip = False,
    ) -> Axes:
        """Regret over time with its 95% band; the legend says what the band covers.

        Time is the date where the losses have dates, else the round.

        Args:
            ax: axes to draw on, for several results in one figure; new ones by default.
            label: the curve's name in the legend; the algorithm's by default.
            path: where to write the figure, as .pdf, .svg, .png, ...; nowhere by default.
            bounds: draw the paper's bounds too, on a logarithmic axis. A result loaded from a file
                whose network has no name needs its gossip here.
        """
        from .plots import plot_bounds, plot_regret, save_figure

        # Bounds are functions of the round.
        ax = plot_regret({label or self.label: self}, ax=ax, dates=bounds is False)
        if bounds is not False:
            plot_bounds(self, None if bounds is True else bounds, ax)
        if path is not None:
            save_figure(ax.figure, path)  # type: ignore[arg-type]
        return ax

    def bounds(self, gossip: Gossip | None = None) -> pd.DataFrame:
        """What the paper's theorems say at T beside what was measured.

        Args:
            gossip: needed for a result loaded from a file whose network has no name.
        """
        from .theorems import bounds_table, checked, gossip_of

        return bounds_table(self, checked(self, gossip) if gossip else gossip_of(self))

    def save(self, path: str | Path) -> Path:
        """Write a NetCDF file (`.nc`), whole or not at all; `fb.load` gives it back."""
        target = Path(path)
        if target.suffix != ".nc":
            raise ValueError(f"a result is saved as NetCDF: end the name in .nc, not {target.name}")
        with atomic_path(target) as temporary:
            self.dataset.to_netcdf(temporary, engine="h5netcdf")
        return target

    @property
    def _sends(self) -> str:
        sent = self.communication
        if not sent["bytes"]:
            return "nothing"
        kinds = " and ".join(f"{kind}s" if kind != "raw" else "raw" for kind in _kinds(sent))
        return f"{kinds}, {sent['bytes']:,.0f} bytes per agent and round"

    def __repr__(self) -> str:
        sizes = self.dataset.sizes
        return (
            f"Result({self.label}: {sizes['run']} runs, {sizes['agent']} agents, "
            f"{sizes['arm']} arms, {int(self.dataset['time'][-1])} rounds; sends {self._sends})\n"
            f"{self.summary().round(2)}"
        )


def _kinds(sent: dict[str, Any]) -> list[str]:
    """What is sent, each kind once."""
    return list(dict.fromkeys(sent["leaves"].values()))


def load(path: str | Path) -> Result:
    """A result from the file that `Result.save` wrote."""
    import xarray as xr

    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no result file at {source}")
    try:
        with xr.open_dataset(source, engine="h5netcdf") as opened:
            data = opened.load()
    except Exception as error:  # whatever a broken file makes the HDF5 layers raise
        raise ValueError(
            f"{source} is not a readable NetCDF file ({error}); it may be cut off or of another "
            "kind"
        ) from error
    found = data.attrs.get("fedbandits_format")
    if found is None:
        raise ValueError(f"{source} is a NetCDF file, but not a fedbandits result")
    if found != FORMAT:
        raise ValueError(
            f"{source} is a fedbandits result of layout {found}; this version reads {FORMAT}"
        )
    missing = (DIMENSIONS.keys() | ATTRIBUTES) - set(data.data_vars) - set(data.attrs)
    if missing:
        raise ValueError(f"{source} lacks {', '.join(sorted(missing))}; it may be damaged")
    return Result(data)


def build_result(
    record: Record,
    recommended: np.ndarray[Any, Any],
    config: dict[str, Any],
    sent: Communication,
    against: Literal["current", "final"],
    agent_names: tuple[str, ...] | None = None,
    arm_names: tuple[str, ...] | None = None,
    gossip: Gossip | None = None,
    dates: np.ndarray[Any, Any] | None = None,
) -> Result:
    """A result from a finished record."""
    import xarray as xr

    runs, agents = recommended.shape
    arms = record.arm_loss.shape[1]
    best = record.arm_loss.min(axis=1)
    spent = record.expected.mean(axis=1) + record.worst_lead
    data = xr.Dataset(
        {
            "regret": (("run", "time"), (record.incurred - best[:, None]).T),
            "expected_regret": (("run", "time"), (record.expected - best[:, None]).T),
            "worst_regret": ("time", spent - best),
            "agent_regret": (("run", "agent"), record.agent_incurred - best[-1]),
            "agent_expected_regret": (("run", "agent"), record.agent_expected - best[-1]),
            "arm_loss": (("time", "arm"), record.arm_loss),
            "arm_frequency": (
                ("run", "time", "arm"),
                (record.plays / record.times[:, None, None]).transpose(2, 0, 1),
            ),
            "recommended_arm": (("run", "agent"), recommended),
        },
        coords={
            "run": np.arange(runs),
            "time": record.times,
            "agent": np.arange(agents) if agent_names is None else list(agent_names),
            "arm": np.arange(arms) if arm_names is None else list(arm_names),
            **({} if dates is None else {"date": ("time", dates[record.times - 1])}),
        },
        attrs={
            "fedbandits_format": FORMAT,
            "config": json.dumps(config),
            "communication": json.dumps(sent._asdict()),
            "against": "current",
        },
    )
    return Result(data, gossip).against(against)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The paired difference of two results on the same losses.

    Attributes:
        first: what is compared.
        second: what it is compared with.
        difference: first minus second, `[run, time]`; negative where the first is better.
    """

    first: str
    second: str
    difference: xr.DataArray

    def band(self) -> Band:
        """Mean difference over runs and its 95% interval, over time."""
        return band(self.difference)

    def summary(self) -> pd.DataFrame:
        """The difference at T with its 95% interval."""
        import pandas as pd

        at_end = [float(x.isel(time=-1)) for x in self.band()]
        return pd.DataFrame(
            [at_end],
            index=[f"{self.first} - {self.second}"],
            columns=["difference", "low 95%", "high 95%"],
        )

    def __repr__(self) -> str:
        return str(self.summary())


def compare(a: Result, b: Result) -> Comparison:
    """Run by run, the regret of a minus that of b: the paired difference with its interval.

    The two must have faced the same losses, at the same times, in as many runs. With the same
    seed the agents' randomness is shared too, which is what makes the interval narrow.
    """
    for dimension in ("run", "time"):
        if a.dataset.sizes[dimension] != b.dataset.sizes[dimension]:
            raise ValueError(
                f"the results have {a.dataset.sizes[dimension]} and "
                f"{b.dataset.sizes[dimension]} entries along {dimension}; compare needs as many"
            )
    if a.dataset.attrs["against"] != b.dataset.attrs["against"]:
        raise ValueError("one result is against the current best arm and one against the final")
    x, y = a.dataset["arm_loss"], b.dataset["arm_loss"]
    # Sums of the same losses, up to the rounding of another dtype or chunk length.
    if x.shape != y.shape or not np.allclose(x, y, rtol=1e-5, atol=1e-5):
        raise ValueError(
            "the two results did not face the same losses: simulate both with one problem"
        )
    first, second = a.label, b.label
    if first == second:
        first, second = f"{first} (first)", f"{second} (second)"
    return Comparison(first, second, a.dataset["regret"] - b.dataset["regret"])


def _best(arm_loss: xr.DataArray, against: str) -> xr.DataArray:
    """Cumulative mean loss, over time, of the arm that regret is measured against."""
    if against == "current":
        return arm_loss.min("arm")
    return arm_loss.isel(arm=int(arm_loss.isel(time=-1).argmin("arm")))

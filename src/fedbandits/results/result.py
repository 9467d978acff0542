"""Results: an xarray Dataset with what was run in its attributes; bands, tables and files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from fedbandits.algorithms import REGISTRY
from fedbandits.common.describe import label
from fedbandits.common.files import atomic_write, save_figure
from fedbandits.common.statistics import ONE_RUN, Band, band
from fedbandits.privacy.response import guarantee

from .snapshots import write_netcdf
from .summary import COLUMNS, BestArm, RegretSummary, text_table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from fedbandits.gossip.base import Gossip
    from fedbandits.problems.base import Problem

    from .bounds_table import BoundsTable

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
"""Of the variables that every result has; see `Result`."""

ATTRIBUTES = {"config", "communication", "against"}


@dataclass(frozen=True)
class Unbuilt:
    """The arrays of a dataset before it is built, which loads xarray; one draw of the losses.

    Attributes:
        variables: dimensions and values by name, as `xarray.Dataset` takes them.
        coords: the same for the coordinates.
        attrs: the attributes.
    """

    variables: Mapping[str, Any]
    coords: Mapping[str, Any]
    attrs: dict[str, Any]

    def build(self) -> xr.Dataset:
        """Return the dataset."""
        import xarray as xr

        return xr.Dataset(self.variables, self.coords, self.attrs)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the dimensions that every result has."""
        return {name: len(self.coords[name]) for name in ("run", "time", "agent", "arm")}


class _Dataset:
    """The field `dataset`, built from arrays when it is first read."""

    def __get__(self, result: Result | None, kind: type | None = None) -> xr.Dataset:
        if result is None:
            raise AttributeError("dataset")  # as of a field without a default
        if isinstance(result.held, Unbuilt):
            result.__dict__["held"] = result.held.build()
        return cast("xr.Dataset", result.held)

    def __set__(self, result: Result, dataset: xr.Dataset | Unbuilt) -> None:
        result.__dict__["held"] = dataset


@dataclass(frozen=True, eq=False)
class Result:
    """What a simulation found.

    `dataset` holds, losses being averaged over all agents as in the paper (over the honest ones
    where some lie, whose own regret is NaN):

    - `regret[run, time]`: mean over agents, from the arms sampled
    - `expected_regret[run, time]`: the same from the distributions, ⟨p_t, ℓ̄_t⟩: less noise
    - `worst_regret[time]`: the largest over agents of the run-averaged expected regret
    - `agent_regret[run, agent]` and `agent_expected_regret[run, agent]`: at T
    - `arm_loss[time, arm]`: cumulative mean loss of each arm; `arm_loss[run, time, arm]` where the
      problem watches what agents play, so that every run has losses of its own
    - `arm_frequency[run, time, arm]`: share of plays up to then
    - `round_loss[round, arm]`: mean loss of each arm in every round, in the simulation's dtype
      (`[run, round, arm]` where the problem watches), for `regret_against`. Kept up to 8 million
      numbers, of all draws together: 4 bytes each in memory and in a file, 2.4 MB at T = 30,000
      and K = 20, at most 32 MB. Above, and in older files, it is not there
    - `recommended_arm[run, agent]`: what the agent would most likely play in round T + 1 (a random
      one of equals)

    With `fb.simulate(..., record="agents")` it has snapshots too, of what agents would do in the
    round after `snapshot`, at most 128 MiB of them:

    - `leading_arm[run, snapshot, agent]`: the arm the agent would most likely play
    - `agent_excess[run, snapshot, agent]`: its expected loss so far less the agents' mean, so that
      its regret is `expected_regret` and that
    - `mean_distribution[run, snapshot, arm]`: the mean over agents of their distributions
    - `disagreement[run, snapshot]`: how far from it they are, mean over agents of
      ½ Σ_i |p^v(i) - p̄(i)|: the share of its plays that an agent would have to change

    Its coordinate `time` counts the rounds; where the losses have dates, `date` beside it has them.

    Where the problem watches, regret is against the losses as they came in each run: see
    `fb.problems.Adaptive`.

    All runs share one loss draw, so bands cover the agents' own randomness. With
    `fb.simulate(..., draws=10)` each variable has a first dimension `draw`, and bands are over it.

    `gossip` is what was simulated with; a file does not hold it.
    """

    if TYPE_CHECKING:
        dataset: xr.Dataset
        held: ClassVar[xr.Dataset | Unbuilt]
    else:
        dataset: xr.Dataset = _Dataset()
    gossip: Gossip | None = None

    @property
    def config(self) -> dict[str, Any]:
        """Problem, network, gossip, algorithm, runs, seed, dtype and version."""
        config: dict[str, Any] = json.loads(self.held.attrs["config"])
        return config

    @property
    def communication(self) -> dict[str, Any]:
        """Messages and bytes per agent and round, and what leaves the agent, leaf by leaf.

        `leaves` says what each is declared to be (`estimate`, `count` or `raw`), `leaf_bytes` how
        much of `bytes` it is; older files have no `leaf_bytes`.
        """
        sent: dict[str, Any] = json.loads(self.held.attrs["communication"])
        return sent

    @property
    def epsilon(self) -> float | None:
        """ε of randomised response, None without it; `guarantee` says what it means."""
        privacy = self.config.get("privacy")
        return None if privacy is None else float(privacy["epsilon"])

    @property
    def guarantee(self) -> str | None:
        """What protects an agent's arms or losses, with ε, unit and adversary; None: nothing.

        It speaks of what other agents see. This result is computed from the true losses, and has no
        guarantee.
        """
        own = self.config["algorithm"]
        kind = REGISTRY.get(own["name"])
        said = [] if kind is None or kind.guarantee is None else [kind.guarantee]
        said = [words.format(epsilon=f"{own['epsilon']:g}") for words in said]
        if self.epsilon is not None and not (said and math.isinf(self.epsilon)):
            said.insert(0, guarantee(self.epsilon))
        if said and self.watched:
            said.append("here losses depended on arms: no guarantee for arms")
        return "; ".join(said) or None

    @property
    def watched(self) -> bool:
        """Whether the losses depended on the arms played, so that every run had its own."""
        held = self.held
        of_arms: Any = held.variables["arm_loss"]
        return "run" in (of_arms[0] if isinstance(held, Unbuilt) else of_arms.dims)

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
    def best_arm(self) -> BestArm:
        """The best arm in hindsight, how far it is ahead, and how many agents recommend it.

        Where every run has losses of its own, the best on average over runs.

        Example:
            >>> import fedbandits as fb
            >>> problem = fb.problems.bernoulli([0.0, 1.0], horizon=200, agents=3)
            >>> fb.simulate(problem, fb.Exp3(), runs=2).best_arm
            BestArm(arm 0, its mean loss 1 below arm 1's; recommended by 100% of agents and runs)
        """
        return self._at_end.best_arm()

    @property
    def worst_agent(self) -> str | int:
        """Who has the largest run-averaged expected regret at T: a name where agents have names."""
        return self._at_end.worst_agent

    @property
    def worst_index(self) -> int:
        """The worst agent's number, also where agents have names."""
        return self._at_end.worst

    @property
    def uniform_regret(self) -> float:
        """The regret at T of uniform play on the same losses: exact, it needs no run.

        Of a problem that watches: on the losses as they came, the mean over runs. Had all played
        uniformly, it would have seen other arms.
        """
        return float(self._at_end.uniform.mean())

    @property
    def _at_end(self) -> RegretSummary:
        """The result at T, without building the dataset."""
        held = self.held
        if isinstance(held, Unbuilt):
            return RegretSummary.of(lambda name: held.variables[name][1], held.coords)
        coords: Any = held.coords
        compared = None
        if self.moving is not None:
            compared = held["compared_loss"].isel(time=-1).to_numpy()
        return RegretSummary.of(
            lambda name: held[name].to_numpy(), coords, compared, "draw" in held.dims
        )

    @property
    def _compared(self) -> xr.DataArray:
        """Cumulative mean loss, over time, of what regret is measured against."""
        if self.moving is not None:
            return self.dataset["compared_loss"]
        return _best(self.dataset["arm_loss"], self.dataset.attrs["against"])

    @property
    def moving(self) -> str | None:
        """The sequence of arms that regret is against, in words; None where it is one arm."""
        if isinstance(self.held, Unbuilt) or "compared_loss" not in self.dataset:
            return None
        return str(self.dataset.attrs["against"])

    @property
    def sample(self) -> tuple[str, int]:
        """What intervals are over, `run` or `draw`, and how many of them there are."""
        sizes = self.held.sizes
        return ("draw", sizes["draw"]) if "draw" in sizes else ("run", sizes["run"])

    def band(self, variable: str = "regret") -> Band:
        """Return the mean over runs, or draws, of a variable, and its 95% interval."""
        return band(self.dataset[variable])

    def summary(self) -> pd.DataFrame:
        """Return regret at T of the mean agent, the worst agent and uniform play, with 95% bands.

        One run has no band: its limits are NaN.

        The worst agent is the one with the largest run-averaged expected regret. Uniform play's
        regret is exact on given losses: it needs no run. Of a problem that watches, it is on the
        losses as they came.
        """
        import pandas as pd

        return pd.DataFrame.from_dict(self._at_end.rows(), orient="index", columns=list(COLUMNS))

    def against(self, which: Literal["current", "final"]) -> Result:
        """Return the result with curves against the arm best up to each time, or best at T."""
        if which not in ("current", "final"):
            raise ValueError(f"against must be 'current' or 'final', not {which!r}")
        if which == self.held.attrs["against"]:
            return self
        data = self.dataset
        changed = self._shifted(self._compared - _best(data["arm_loss"], which))
        changed = changed.drop_vars("compared_loss", errors="ignore")
        return Result(changed.assign_attrs(against=which), self.gossip)

    def regret_against(
        self,
        *,
        changes: int | None = None,
        parts: int | None = None,
        problem: Problem | None = None,
    ) -> Result:
        """Return the result with regret against a best arm that changes, without running again.

        It is exact. At time t regret is against the best sequence up to t. What is asked of the
        result, tables, plots and comparisons, is then of this regret. `changes=0` and `parts=1` are
        the best fixed arm.

        Args:
            changes: S, at most T - 1: against the best sequence of arms with at most S changes, the
                same for all agents. Half a second for T = 30,000, K = 20 and S = 50; it grows with
                each of them.
            parts: S, from 1 to T: against the best arm of each of S equal parts of the horizon.
            problem: what was simulated. It makes its losses again where the result does not hold
                `round_loss`.

        Returns:
            a result whose `regret`, `expected_regret`, `worst_regret`, `agent_regret` and
            `agent_expected_regret` are against that sequence, of each draw (or run) its own.

        Example:
            >>> import fedbandits as fb
            >>> problem = fb.problems.switching(agents=4, arms=3, horizon=400, parts=4)
            >>> result = fb.simulate(problem, fb.Exp3(), runs=2)
            >>> moving = result.regret_against(changes=3)
            >>> moving.dataset["regret"].dims, moving.moving
            (('run', 'time'), 'the best sequence with at most 3 changes')
            >>> bool((moving.dataset["regret"] >= result.dataset["regret"]).all())
            True
        """
        from .dynamic_regret import compared_with

        loss, words = compared_with(self, changes, parts, problem)
        changed = self._shifted(self._compared - loss).assign(compared_loss=loss)
        return Result(changed.assign_attrs(against=words), self.gossip)

    def _shifted(self, shift: xr.DataArray) -> xr.Dataset:
        """Return the dataset with so much more regret at each time."""
        data = self.dataset
        at_end = shift.isel(time=-1, drop=True)
        return data.assign(
            {
                **{name: data[name] + shift for name in ("regret", "expected_regret")},
                "worst_regret": data["worst_regret"] + _over_runs(shift),
                **{name: data[name] + at_end for name in ("agent_regret", "agent_expected_regret")},
            }
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: str = "regret",
        label: str | None = None,
        path: str | Path | None = None,
        bounds: bool | Gossip = False,
    ) -> Axes:
        """Draw regret over time with its 95% band; the legend describes the band.

        `fb.plot` draws several results into one figure. Time is the date where the losses have
        dates, else the round.

        Args:
            ax: axes to draw on; new ones by default.
            kind: `regret`, or another picture, as in `fb.plot`: `network`, `arms`, `disagreement`,
                `agents`, `pareto`.
            label: the curve's name in the legend; the algorithm's by default.
            path: where to write the figure, as .pdf, .svg, .png, ...; nowhere by default. The
                network is written as an animation where it ends in .html, .gif or .mp4.
            bounds: draw the paper's bounds too, on a logarithmic axis. A result loaded from a file
                whose network has no name needs its gossip here.
        """
        from .plots import figure_of, plot, plot_bounds

        if kind != "regret":
            if bounds is not False:
                raise ValueError(f"bounds are of the regret, not of kind={kind!r}; leave them out")
            return plot(self, kind=kind, ax=ax, label=label, path=path)
        # Bounds are functions of the round.
        ax = plot(self, ax=ax, label=label, dates=bounds is False)
        if bounds is not False:
            plot_bounds(self, None if bounds is True else bounds, ax)
        if path is not None:
            save_figure(figure_of(ax), path)
        return ax

    def bounds(self, gossip: Gossip | None = None) -> BoundsTable:
        """Return the bounds of the paper's theorems at T, and the measured regret.

        Args:
            gossip: needed for a result loaded from a file whose network has no name.

        Returns:
            a DataFrame with the columns `value` and `remark`, whose remarks print whole.
        """
        from .bounds_table import bounds_table, check_fixed, checked, gossip_of

        check_fixed(self)
        return bounds_table(self, checked(self, gossip) if gossip else gossip_of(self))

    def to_pandas(self) -> pd.DataFrame:
        """Return the curves over time: a row for each recorded round t, with means over runs.

        Columns: `regret`, `expected_regret`, each with its 95% limits in `..._low` and `..._high`,
        and `worst_regret` (with draws, the mean of each draw's own worst agent); before them what
        else is known of a round. Limits of one run are NaN. Everything there is, agent
        by agent and run by run, is in `dataset`.
        """
        data = self.dataset
        bands = {name: self.band(name) for name in ("regret", "expected_regret")}
        curves = {
            name + limit: values
            for name, band in bands.items()
            for limit, values in zip(("", "_low", "_high"), band, strict=True)
        }
        curves["worst_regret"] = _over_draws(data["worst_regret"])
        of_rounds = [name for name in data["time"].coords if name != "time"]
        frame = data[[]].assign(curves).to_dataframe()
        return frame[[*of_rounds, *curves]]

    def to_csv(self, path: str | Path) -> Path:
        """Write the table of `to_pandas` as .csv, whole or not at all."""
        target = Path(path)
        if target.suffix != ".csv":
            raise ValueError(f"a table is written as CSV: end the name in .csv, not {target.name}")
        with atomic_write(target) as file:
            file.write(self.to_pandas().to_csv().encode())
        return target

    def save(self, path: str | Path) -> Path:
        """Write a NetCDF file (`.nc`), whole or not at all; `fb.load` gives it back.

        The file is made in memory first, which takes as many bytes as the file has.

        Raises:
            OSError: if the file has no room, with the path, the bytes it needs and those that are
                free. The result is unchanged: save it elsewhere.
        """
        target = Path(path)
        if target.suffix != ".nc":
            raise ValueError(f"a result is saved as NetCDF: end the name in .nc, not {target.name}")
        if self.moving is not None:
            raise ValueError(
                f"a file holds regret against one arm, and this is against {self.moving}: save the "
                "result itself, of which regret_against makes this again without a run"
            )
        write_netcdf(self.dataset, target)
        return target

    @property
    def _played(self) -> str:
        runs, (over, count) = self.held.sizes["run"], self.sample
        played = "1 run" if runs == 1 else f"{runs} runs"
        return f"{played} on {count} draws of the losses" if over == "draw" else played

    @property
    def _sends(self) -> str:
        sent = self.communication
        if not sent["bytes"]:
            return "nothing"
        kinds = " and ".join(f"{kind}s" if kind != "raw" else "raw" for kind in _kinds(sent))
        return f"{kinds}, {sent['bytes']:,.0f} bytes per agent and round"

    def __repr__(self) -> str:
        held, at_end = self.held, self._at_end
        single = self.sample[1] == 1
        rows = {name: row[:1] if single else row for name, row in at_end.rows().items()}
        return (
            f"Result({self.label}: {self._played}, {held.sizes['agent']} agents, "
            f"{held.sizes['arm']} arms, {at_end.rounds} rounds; sends {self._sends})\n"
            f"{text_table(rows)}\n"
            + (f"{ONE_RUN}\n" if single else "")
            + f"best in hindsight: {at_end.best_arm()}"
            + (f"\n{self.links}" if self.links else "")
            + (f"\nregret is against {self.moving}" if self.moving else "")
            + (f"\n{self.lies}" if self.lies else "")
            + (f"\nprivacy: {self.guarantee}" if self.guarantee else "")
        )

    @property
    def links(self) -> str:
        """What is unlike plain averages in the gossip, in words; empty where nothing is."""
        rule = self.config.get("gossip") or {}
        return f"gossip: {label(rule)}" if "gossip" in rule else ""

    @property
    def lies(self) -> str:
        """Who lies and how, and whose regret it then is, in words; empty where nobody lies."""
        liars = self.config.get("liars")
        if not liars:
            return ""
        names = self.dataset["agent"].to_numpy()
        told = [
            f"agent {names[int(who)]} by {label(attack).lower()}" for who, attack in liars.items()
        ]
        return f"liars: {', '.join(told)}; regret is of the honest, against the arm best for them"


def _kinds(sent: dict[str, Any]) -> list[str]:
    """Return what is sent, each kind once."""
    return list(dict.fromkeys(sent["leaves"].values()))


def load(path: str | Path) -> Result:
    """Return the result in a file of `Result.save`."""
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


def _best(arm_loss: xr.DataArray, against: str) -> xr.DataArray:
    """Return the cumulative mean loss, over time, of the arm that regret is against."""
    if against == "current":
        return arm_loss.min("arm")
    return arm_loss.isel(arm=arm_loss.isel(time=-1, drop=True).argmin("arm"))


def _over_runs(values: xr.DataArray) -> xr.DataArray:
    """Return the mean over runs, if each has its own."""
    return values.mean("run") if "run" in values.dims else values


def _over_draws(values: xr.DataArray) -> xr.DataArray:
    """Return the mean over draws of the losses, if there are any."""
    return values.mean("draw") if "draw" in values.dims else values

"""Experiments as TOML files: names and parameters in, problem, network, gossip, algorithm out.

The parameters of a section are those of the constructor it names, so a new problem or algorithm
needs a line in its registry and nothing here.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from . import algorithms, checks, networks
from .algorithms import AnyAlgorithm
from .catalogue import REGISTRIES, SECTIONS, THEOREM, names_file, nested_registry
from .engine.record import check_runs
from .gossip import Gossip
from .networks import Network
from .problems import Problem

if TYPE_CHECKING:
    from .results import Result

T = TypeVar("T")

SETTINGS = ("runs", "seed", "draws", "dtype", "against")
CHOICES = {"dtype": ("float32", "float64"), "against": ("current", "final")}


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the value, the place and the fix."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What a configuration file describes: the arguments of `fb.simulate`.

    Attributes:
        problem: the losses.
        algorithm: what each agent does.
        network: who talks to whom; None where nothing is sent.
        gossip: the matrix on it; None where nothing is sent.
        runs: R.
        seed: of the agents' randomness.
        dtype: `float32` or `float64`.
        against: `current` or `final`.
        draws: of the losses; None for those of the problem as it is.
    """

    problem: Problem
    algorithm: AnyAlgorithm
    network: Network | None = None
    gossip: Gossip | None = None
    runs: int = 10
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"
    against: Literal["current", "final"] = "current"
    draws: int | None = None

    def simulate(
        self, *, checkpoint: str | Path | None = None, progress: bool | None = None
    ) -> Result:
        """Play it; see `fb.simulate` for the arguments and the result."""
        from .engine.simulate import simulate

        return simulate(
            self.problem,
            self.algorithm,
            self.gossip,
            self.runs,
            self.seed,
            against=self.against,
            dtype=self.dtype,
            checkpoint=checkpoint,
            progress=progress,
            draws=self.draws,
        )

    def configuration(self) -> dict[str, Any]:
        """What `Result.config` will be, before anything is played."""
        from .engine.over_draws import over_draws
        from .engine.simulate import configuration, setting_of
        from .problems.redrawn import loss_seeds

        ready = self.algorithm.set_up(setting_of(self.problem, self.gossip))
        found = configuration(self.problem, ready, self.gossip, self.runs, self.seed, self.dtype)
        if self.draws is None:
            return found
        return found | over_draws(loss_seeds(self.problem, self.draws))


class Place(NamedTuple):
    """Where in a configuration something stands, for errors and for relative file names.

    Attributes:
        name: what errors call it.
        folder: relative file names start here.
        changes: the `--set` options that touched it.
    """

    name: str
    folder: Path = Path()
    changes: tuple[str, ...] = ()

    def error(self, message: object) -> ConfigError:
        """The message with the place before it."""
        changed = "".join(f" --set {change}" for change in self.changes)
        return ConfigError(f"{self.name}{' with' + changed if changed else ''}: {message}")


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment that a TOML file describes.

    Args:
        path: the file. Names of other files in it are relative to its folder.
        overrides: changes such as `"runs=20"`, `"algorithm.exploration.c=0.02"` or
            `'network={name = "ring", agents = 36}'`.

    Returns:
        the experiment, ready to `simulate()`.
    """
    from .sweeps.grammar import expand

    source = Path(path)
    sweep = expand(read_config(source, overrides), str(source))
    if sweep.axes:
        swept = [path for axis in sweep.axes for path in axis.paths]
        raise ConfigError(
            f"{source} is a sweep over {', '.join(swept)}; play all of it with fedbandits run, or "
            f"choose one value of each, as in --set {swept[0]}=..."
        )
    return build(sweep.cells[0].config, source, overrides)


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The tables of a TOML file after the changes in `overrides`, not yet looked at."""
    config = _read_toml(Path(path))
    for override in overrides:
        _apply_override(config, override)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    if not path.is_file():
        raise FileNotFoundError(f"no configuration file at {path}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file in UTF-8: {error}") from error


def _apply_override(config: dict[str, Any], override: str) -> None:
    """Change `config` in place by one `section.key=value`.

    Example:
        >>> config = {"algorithm": {"exploration": {"c": 0.01}}}
        >>> _apply_override(config, "algorithm.exploration.c=0.02")
        >>> _apply_override(config, "algorithm.name=Exp3")
        >>> config
        {'algorithm': {'exploration': {'c': 0.02}, 'name': 'Exp3'}}
    """
    target, equals, value = override.partition("=")
    keys = [key.strip() for key in target.split(".")]
    if not equals or not all(keys):
        raise ConfigError(
            f"--set {override}: expected section.key=value, for example "
            "--set problem.horizon=1000 or --set runs=20"
        )
    table = config
    for depth, key in enumerate(keys[:-1]):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            parent = ".".join(keys[: depth + 1])
            raise ConfigError(
                f"--set {override}: {parent} is {table!r}, which has no keys of its own; replace "
                f"it whole, as in --set '{parent}={{name = ..., {keys[depth + 1]} = {value}}}'"
            )
    table[keys[-1]] = _toml_value(value, f"--set {override}")


def _toml_value(text: str, place: str) -> Any:
    """A TOML value; text that is none stands for itself, so that names need no quotes.

    Example:
        >>> [_toml_value(text, "") for text in ("20", "false", "[1, 2]", "FedExp3")]
        [20, False, [1, 2], 'FedExp3']
    """
    text = text.strip()
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in tuple("[{\"'"):  # meant as TOML
            raise ConfigError(f"{place}: {text} is not a TOML value: {error}") from error
        return text
    return parsed["value"] if len(parsed) == 1 else text


Made = Callable[[str, Mapping[str, Any], Callable[[], Any]], Any]
"""Gives a section's object: `made(section, tables it depends on, how to make it)`."""


def _anew(section: str, tables: Mapping[str, Any], make: Callable[[], Any]) -> Any:  # noqa: ARG001
    return make()


def build(
    config: Mapping[str, Any],
    source: Path,
    overrides: Sequence[str] = (),
    made: Made = _anew,
) -> Experiment:
    """The experiment that the tables of a configuration describe.

    Args:
        config: the tables.
        source: the file they are from, for errors and relative file names.
        overrides: the `--set` options in them, for errors.
        made: may give an object made before from the same tables instead of making it anew.
    """

    def place(section: str) -> Place:
        changes = [o for o in overrides if re.split(r"[.=]", o)[0].strip() == section]
        name = f"{source} [{section}]" if section in SECTIONS else str(source)
        return Place(name, source.parent, tuple(changes))

    def section(name: str, *needs: str, **given: Any) -> Any:
        if name not in config:
            return None
        tables = {key: config.get(key) for key in (name, *needs)}
        return made(
            name, tables, lambda: construct(REGISTRIES[name], config[name], place(name), given)
        )

    # [sweep] has been taken out by now; a typo may have meant it.
    known = (*SETTINGS, *SECTIONS, "sweep")
    _refuse_unknown(config, known, "section or key", Place(str(source)))
    settings = {key: _setting(key, config[key], place(key)) for key in SETTINGS if key in config}
    _refuse_missing_sections(config, source, place("algorithm"))
    theorem, table = _split_theorem(config["algorithm"], place("algorithm"))
    # What is cheap comes first, so that a typo is found before a solver has run.
    algorithm = None if theorem else construct(algorithms.REGISTRY, table, place("algorithm"))
    problem, network = section("problem"), section("network")
    _call(check_runs, place("runs"), settings.get("runs", Experiment.runs), problem)
    if network is not None and network.agents != problem.agents:
        raise ConfigError(
            f"{source}: [problem] has {problem.agents} agents but [network] has {network.agents}; "
            "make them equal"
        )
    if "draws" in settings:
        from .engine.over_draws import draw_seeds

        _call(draw_seeds, place("draws"), problem, settings.get("seed", 0), settings["draws"])
    matrix = section("gossip", "network", network=network)
    if theorem:
        rates = algorithms.REGISTRY[table["name"]].from_theorem  # type: ignore[attr-defined]
        sizes = {"arms": problem.arms, "horizon": problem.horizon}
        algorithm = made(
            "algorithm",
            {key: config.get(key) for key in SECTIONS},
            lambda: _call(rates, place("algorithm"), matrix, **sizes),
        )
    return Experiment(problem, cast(AnyAlgorithm, algorithm), network, matrix, **settings)


def construct(
    registry: Mapping[str, Callable[..., Any]],
    table: Any,
    place: Place,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """Call the constructor that a table names with the table's other keys.

    Args:
        registry: constructors by name.
        table: `name` and parameters.
        place: for errors and relative file names.
        given: arguments that do not come from the table.

    Example:
        >>> from fedbandits import schedules
        >>> construct(schedules.REGISTRY, {"name": "power", "c": 0.01, "a": 0.5}, Place("here"))
        power(c=0.01, a=0.5)
        >>> construct(schedules.REGISTRY, {"name": "powr"}, Place("here"))
        Traceback (most recent call last):
            ...
        fedbandits.config.ConfigError: here: unknown name 'powr'; did you mean 'power'? ...
    """
    given = given or {}
    make = _named(registry, table, place)
    parameters = {k: p for k, p in inspect.signature(make).parameters.items() if k not in given}
    arguments = {key: value for key, value in table.items() if key != "name"}
    valid = [*parameters, *([THEOREM] if hasattr(make, THEOREM) else [])]
    _refuse_unknown(arguments, valid, "key", place, owner=table["name"])
    required = [k for k, p in parameters.items() if p.default is p.empty and k not in arguments]
    if required:
        raise place.error(f"{table['name']} needs {', '.join(required)}")
    for key, value in arguments.items():
        accepts = str(parameters[key].annotation)
        if isinstance(value, str) and names_file(accepts):
            arguments[key] = place.folder / value
        nested = nested_registry(accepts)
        if isinstance(value, dict) and nested is not None:
            inside = place._replace(name=f"{place.name} {key}")
            arguments[key] = construct(nested, value, inside)
    return _call(make, place, **given, **arguments)


def parse_network(spec: str) -> Network:
    """A network from a short text: `name:value,value,key=value`, or a GraphML file.

    Example:
        >>> parse_network("grid:2,3").agents
        6
    """
    if spec.lower().endswith(".graphml"):
        return cast(Network, _call(networks.read_graphml, Place(spec), spec))
    name, _, rest = spec.partition(":")
    place = Place(f"network {spec}")
    make = _named(networks.REGISTRY, {"name": name.strip()}, place)
    parameters = list(inspect.signature(make).parameters)
    table: dict[str, Any] = {"name": name.strip()}
    for position, text in enumerate(part for part in rest.split(",") if part.strip()):
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            if position >= len(parameters):
                raise place.error(f"too many values; {name} takes {', '.join(parameters)}")
            key, value = parameters[position], key
        table[key] = _toml_value(value, place.name)
    return cast(Network, construct(networks.REGISTRY, table, place))


def choose(registry: Mapping[str, T], name: str | None) -> dict[str, T]:
    """The entry of that name, or all of them."""
    if name is None:
        return dict(registry)
    if name not in registry:
        raise ConfigError(unknown("name", name, registry))
    return {name: registry[name]}


def _refuse_missing_sections(config: Mapping[str, Any], source: Path, place: Place) -> None:
    for name in ("problem", "algorithm"):
        if name not in config:
            known = ", ".join(REGISTRIES[name])
            raise ConfigError(f"{source} has no [{name}]; add one with a name, one of: {known}")
    make = _named(algorithms.REGISTRY, config["algorithm"], place)
    missing = [f"[{name}]" for name in ("network", "gossip") if name not in config]
    if missing and make.leaves:  # type: ignore[attr-defined]
        raise ConfigError(
            f"{source}: {config['algorithm']['name']} sends messages, so the file needs "
            f"{' and '.join(missing)}; see fedbandits list"
        )
    if missing == ["[network]"]:
        raise ConfigError(f"{source}: [gossip] needs a [network]; add one")


def _split_theorem(table: Mapping[str, Any], place: Place) -> tuple[bool, dict[str, Any]]:
    """Whether the theorem's rates are asked for, and the other keys of [algorithm]."""
    rest = dict(table)
    if not hasattr(algorithms.REGISTRY[table["name"]], THEOREM):
        return False, rest
    wanted = rest.pop(THEOREM, False)
    if not isinstance(wanted, bool):
        raise place.error(f"{THEOREM} must be true or false, not {wanted!r}")
    rates = [key for key in rest if key != "name"]
    if wanted and rates:
        raise place.error(f"{THEOREM} chooses the rates itself; remove {', '.join(rates)}")
    return wanted, rest


def _setting(name: str, value: Any, place: Place) -> Any:
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise place.error(unknown(name, value, CHOICES[name]))
        return value
    return (
        _call(checks.seed32, place, value)
        if name == "seed"
        else _call(checks.whole, place, value, name, least=2 if name == "draws" else 1)
    )


def _named(
    registry: Mapping[str, Callable[..., Any]], table: Any, place: Place
) -> Callable[..., Any]:
    """The constructor that a table names."""
    if not isinstance(table, dict):
        raise place.error(f"expected a table with a name, not {table!r}")
    if "name" not in table:
        raise place.error(f"no name; add one of: {', '.join(registry)}")
    if not isinstance(table["name"], str) or table["name"] not in registry:
        raise place.error(unknown("name", table["name"], registry))
    return registry[table["name"]]


def _call(function: Callable[..., Any], place: Place, /, *args: Any, **kwargs: Any) -> Any:
    """Call a constructor; its own error gets the place before it."""
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError, OSError, OverflowError) as error:
        raise place.error(error) from error


def _refuse_unknown(
    keys: Iterable[str], valid: Iterable[str], what: str, place: Place, owner: str = ""
) -> None:
    for key in keys:
        if key not in valid:
            message = unknown(what, key, valid, owner)
            if owner and key in SETTINGS:
                message += f"; {key} for the whole file stands before the first [section]"
            renamed = [c.partition(".name=")[0] for c in place.changes if ".name=" in c]
            if renamed:  # the file's other keys belong to the old name
                message += f"; to replace the section: --set '{renamed[0]}={{name = \"{owner}\"}}'"
            raise place.error(message)


def unknown(what: str, value: Any, valid: Iterable[str], owner: str = "") -> str:
    """Says what is unknown, what was probably meant, and what there is."""
    names = list(valid)
    there_is = f"Valid: {', '.join(names)}" if names else f"{owner} takes none"
    return f"unknown {what} {value!r}{checks.did_you_mean(value, names)} {there_is}"

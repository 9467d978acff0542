"""Tables in, an experiment out: names and parameters make problem, network, gossip, algorithm.

The parameters of a section are those of the constructor it names, so a new problem or algorithm
needs a line in its registry and nothing here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from fedbandits import networks
from fedbandits.attacks import Attack
from fedbandits.common import checks
from fedbandits.common.describe import canonical
from fedbandits.common.own_modules import line_of
from fedbandits.networks import Network
from fedbandits.privacy.response import RandomisedResponse
from fedbandits.results.record import check_runs
from fedbandits.simulation.liars import Liars
from fedbandits.simulation.simulation import Simulation

from .accepting import parameters_of
from .catalogue import LIARS, NAMELESS, REGISTRIES, SECTIONS, THEOREM, Registry
from .experiment import ConfigError, Experiment, Place, unknown
from .identity import Contents
from .own import MODULES, Open, is_own, looking_beside
from .reading import toml_value

T = TypeVar("T")

SETTINGS = ("runs", "seed", "draws", "dtype", "against", "record")
CHOICES = {
    "dtype": ("float32", "float64"),
    "against": ("current", "final"),
    "record": ("agents",),
}


Made = Callable[[str, Mapping[str, Any], Callable[[], Any]], Any]
"""Gives a section's object: `made(section, tables it depends on, how to make it)`."""


def _anew(section: str, tables: Mapping[str, Any], make: Callable[[], Any]) -> Any:  # noqa: ARG001
    return make()


MOST_BYTES_SHARED = 2**30
"""Of arrays that sections hold: beyond it the oldest are let go, and made again where needed."""

MOST_SHARED = 256
"""Sections: what the engine keeps with a gossip lives as long as that does."""


class Shared:
    """Sections that several experiments describe alike: each is made once, and kept for a while.

    Args:
        contents: of the files that the experiments name.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._made: dict[str, Any] = {}
        self._bytes: dict[str, int] = {}
        self._total = 0

    def __call__(self, section: str, tables: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """A section's object, for `build`."""
        key = canonical([section, self._contents.identity(tables)])
        if key not in self._made:
            made = self._made[key] = make()
            self._bytes[key] = _bytes_held(made)
            self._total += self._bytes[key]
            self._let_go()
            return made
        return self._made[key]

    def _let_go(self) -> None:
        """Forget the oldest while there are too many, or too large ones, but for the newest."""
        while len(self._made) > 1 and (
            self._total > MOST_BYTES_SHARED or len(self._made) > MOST_SHARED
        ):
            oldest = next(iter(self._made))
            del self._made[oldest]
            self._total -= self._bytes.pop(oldest)


def _bytes_held(value: Any) -> int:
    """Bytes of the arrays in an object and what it is made of; those of a memory map are none."""
    if isinstance(value, np.memmap):
        return 0
    if isinstance(value, np.ndarray):
        return value.nbytes
    inside = vars(value).values() if is_dataclass(value) else ()
    return sum(_bytes_held(item) for item in inside)


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
        made: gives the objects; `Shared` those made before from the same tables.
    """
    with looking_beside(config, source):
        return _build(config, source, overrides, made)


def _build(
    config: Mapping[str, Any], source: Path, overrides: Sequence[str], made: Made
) -> Experiment:
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
    known = (*SETTINGS, *SECTIONS, LIARS, MODULES, "sweep")
    _refuse_unknown(config, known, "section or key", Place(str(source)))
    settings = {key: _setting(key, config[key], place(key)) for key in SETTINGS if key in config}
    _refuse_missing_sections(config, source, place("algorithm"))
    theorem, table = _split_theorem(config["algorithm"], place("algorithm"))
    # What is cheap comes first, so that a typo is found before a solver has run.
    kinds = REGISTRIES["algorithm"]
    algorithm = None if theorem else construct(kinds, table, place("algorithm"))
    problem, network = section("problem"), section("network")
    _call(check_runs, place("runs"), settings.get("runs", Simulation.runs), problem)
    if network is not None and network.agents != problem.agents:
        raise ConfigError(
            f"{source}: [problem] has {problem.agents} agents but [network] has {network.agents}; "
            "make them equal"
        )
    matrix = section("gossip", "network", network=network)
    if theorem:
        rates = kinds[table["name"]].from_theorem  # type: ignore[attr-defined]
        sizes = {"arms": problem.arms, "horizon": problem.horizon}
        algorithm = made(
            "algorithm",
            {key: config.get(key) for key in SECTIONS},
            lambda: _call(rates, place("algorithm"), matrix, **sizes),
        )
    asked = {key: settings[key] for key in ("runs", "seed", "dtype") if key in settings}
    simulation = _call(Simulation, Place(str(source)), problem, algorithm, matrix, **asked)
    if "draws" in settings:
        simulation = _call(replace, place("draws"), simulation, draws=settings["draws"])
    if "privacy" in config:
        at = place("privacy")
        simulation = _call(simulation.under, at, _privacy(config["privacy"], at))
    if config.get(LIARS):
        at = Place(f"{source} [{LIARS}]")
        simulation = _call(simulation.under, at, Liars.of(_liars(config[LIARS], at)))
    viewed = {key: settings[key] for key in ("against", "record") if key in settings}
    return Experiment(simulation, network, **viewed)


def _liars(tables: Any, place: Place) -> dict[int | str, Attack]:
    """Attacks by agent: numbers are texts in a configuration file, so names may not be numbers."""
    if not isinstance(tables, dict):
        raise place.error(
            f'write [{LIARS}.14] with name = "promote" and arm = 3 for agent 14, not {tables!r}'
        )
    return {
        int(who) if who.isdecimal() else who: construct(
            REGISTRIES["attack"], table, place._replace(name=f"{place.name[:-1]}.{who}]")
        )
        for who, table in tables.items()
    }


def construct(
    registry: Registry,
    table: Any,
    place: Place,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """Call the constructor that a table names with the table's other keys.

    Args:
        registry: constructors by name.
        table: `name` and parameters.
        place: for errors and relative file names.
        given: arguments that do not come from the table, for it and what is nested in it; those
            that a constructor does not take are left out.

    Example:
        >>> from fedbandits import schedules
        >>> construct(schedules.REGISTRY, {"name": "power", "c": 0.01, "a": 0.5}, Place("here"))
        power(c=0.01, a=0.5)
        >>> construct(schedules.REGISTRY, {"name": "powr"}, Place("here"))
        Traceback (most recent call last):
            ...
        fedbandits.config.experiment.ConfigError: here: unknown name 'powr'; did you mean 'power'...
    """
    make = _named(registry, table, place)
    signature = inspect.signature(make).parameters
    mine = {key: value for key, value in (given or {}).items() if key in signature}
    parameters = {k: p for k, p in signature.items() if k not in mine}
    arguments = {key: value for key, value in table.items() if key != "name"}
    valid = [*parameters, *([THEOREM] if hasattr(make, THEOREM) else [])]
    _refuse_unknown(arguments, valid, "key", place, owner=table["name"])
    required = [k for k, p in parameters.items() if p.default is p.empty and k not in arguments]
    if required:
        raise place.error(f"{table['name']} needs {', '.join(required)}")
    takes = _call(parameters_of, place, make)
    for key, value in arguments.items():
        if isinstance(value, str) and takes[key].file:
            arguments[key] = place.file(value)
        nested = takes[key].table
        if nested is REGISTRIES["schedule"] and isinstance(value, str):
            raise place.error(
                f'{key} must be a number, or a table such as {{name = "power", c = 0.01, a = 0.5}}'
                f", not {value!r}; a name is one of: {', '.join(nested)}"
            )
        if isinstance(value, dict) and nested is not None:
            inside = place._replace(name=f"{place.name} {key}")
            arguments[key] = construct(nested, value, inside, given)
    if not (isinstance(registry, Open) and is_own(table["name"])):
        return _call(make, place, **mine, **arguments)
    made = _call_own(table["name"], make, place, **mine, **arguments)
    _call(registry.check_made, place, table["name"], made, mine)
    return made


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
        table[key] = toml_value(value, place.name)
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
    make = _named(REGISTRIES["algorithm"], config["algorithm"], place)
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
    if not hasattr(REGISTRIES["algorithm"][table["name"]], THEOREM):
        return False, rest
    wanted = rest.pop(THEOREM, False)
    if not isinstance(wanted, bool):
        raise place.error(f"{THEOREM} must be true or false, not {wanted!r}")
    rates = [key for key in rest if key != "name"]
    if wanted and rates:
        raise place.error(f"{THEOREM} chooses the rates itself; remove {', '.join(rates)}")
    return wanted, rest


def _privacy(table: Any, place: Place) -> RandomisedResponse:
    """Return what [privacy] describes: `epsilon` alone, since there is one mechanism."""
    name = NAMELESS["privacy"]
    if not isinstance(table, dict):
        raise place.error(f"expected a table such as epsilon = 1.0, not {table!r}")
    _refuse_unknown(table, parameters_of(REGISTRIES["privacy"][name]), "key", place)
    made: RandomisedResponse = construct(REGISTRIES["privacy"], {"name": name, **table}, place)
    return made


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


def _named(registry: Registry, table: Any, place: Place) -> Callable[..., Any]:
    """The constructor that a table names."""
    if not isinstance(table, dict):
        raise place.error(f"expected a table with a name, not {table!r}")
    if "name" not in table:
        raise place.error(f"no name; add one of: {', '.join(registry)}")
    if not isinstance(table["name"], str) or table["name"] not in registry:
        raise place.error(unknown("name", table["name"], registry))
    made: Callable[..., Any] = _call(registry.__getitem__, place, table["name"])
    return made


def _call(function: Callable[..., Any], place: Place, /, *args: Any, **kwargs: Any) -> Any:
    """Call a constructor; its own error gets the place before it."""
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError, OSError, OverflowError) as error:
        raise place.error(error) from error


def _call_own(name: str, make: Callable[..., Any], place: Place, /, **arguments: Any) -> Any:
    """Call an own constructor, whose errors may be of any kind."""
    try:
        return make(**arguments)
    except Exception as error:
        kind = "" if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: "
        raise place.error(f"{name}: {kind}{error}{line_of(error)}") from error


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

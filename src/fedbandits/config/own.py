"""Own things by name: `name = "my_package.algorithms:MyLeader"` where the catalogue has a name.

Naming one imports its module, which runs the code in it. What is named is held to what its section
needs: something of the right kind, whose parameters are written out with type hints.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple, get_origin

from fedbandits import gossip as rules
from fedbandits import networks as families
from fedbandits.algorithms.base import Algorithm, check_class
from fedbandits.common import checks, own_modules
from fedbandits.common.checks import did_you_mean
from fedbandits.common.own_modules import OwnError
from fedbandits.gossip.base import Gossip
from fedbandits.networks import Network
from fedbandits.problems import Problem

from .experiment import ConfigError
from .hints import Unloaded, alternatives, hints_of

Make = Callable[..., Any]

MODULES = "modules"
"""The key that says in which folder own modules are, where that is not the file's."""

_WORDS = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
PATTERN = f"^{_WORDS}:{_WORDS}$"
"""Of a name: the module, and what in it."""


class Kind(NamedTuple):
    """What the own things of a section are.

    Attributes:
        made: what the constructor gives.
        expected: the same in words.
        subclass: whether the constructor is a class of this kind, since its class is looked at.
        given: a parameter that it must have, whose value is not from the configuration.
        made_by: what to do about one that none of our functions made, by whose names results
            describe it; None where all is well.
        static: fields that must not be traced, where it has them.
    """

    made: type | None
    expected: str
    subclass: bool = False
    given: str | None = None
    made_by: Callable[[Any], str | None] = lambda _: None
    static: tuple[str, ...] = ()


def _family(network: Network) -> str | None:
    if hasattr(families, network.family):
        return None
    return "make it with fb.networks.from_edges, from_adjacency or from_networkx"


def _rule(gossip: Gossip) -> str | None:
    if hasattr(rules, gossip.rule):
        return None
    return "make it with fb.gossip.from_matrix(W, network) or another function of fb.gossip"


ALGORITHM = Kind(Algorithm, "a subclass of fb.Algorithm, a frozen dataclass", subclass=True)
PROBLEM = Kind(
    Problem,
    "a subclass of fb.problems.Problem, or a function annotated with -> fb.problems.Problem",
    static=("agents", "arms", "horizon"),
)
NETWORK = Kind(Network, "a function annotated with -> fb.networks.Network", made_by=_family)
GOSSIP = Kind(
    Gossip,
    "a function of a network annotated with -> fb.gossip.Gossip",
    given="network",
    made_by=_rule,
)
SCHEDULE = Kind(None, "a frozen dataclass that is called as rate(t, state)")


class Open(Mapping[str, Make]):
    """The names that a section of a configuration knows, and own ones as `module:attribute`.

    Only the known ones are gone through, and counted.

    Args:
        known: constructors by name.
        kind: what own ones are.
    """

    def __init__(self, known: Mapping[str, Make], kind: Kind) -> None:
        self._known = known
        self._kind = kind

    def __getitem__(self, name: str) -> Make:
        return _loaded(name, self._kind, self._known) if is_own(name) else self._known[name]

    def __contains__(self, name: object) -> bool:
        return is_own(name) or name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def check_made(self, name: str, made: Any, given: Mapping[str, Any]) -> None:
        """Refuse what an own constructor gave, if it is not what the section needs."""
        kind = self._kind
        if kind.made is not None and not isinstance(made, kind.made):
            raise OwnError(
                f"{name} gave {_shown(made)}, not a {kind.made.__name__}; it must be "
                f"{kind.expected}"
            )
        advice = kind.made_by(made)
        if advice is not None:
            raise OwnError(
                f"{name} gave {made!r}, of which results could not say what it is; {advice}"
            )
        for key in given.keys() & {kind.given}:
            if getattr(made, key) is not given[key]:
                raise OwnError(
                    f"{name} gave {made!r}, which is not on the {key} that it was given, "
                    f"{given[key]!r}; make it on that"
                )


def is_own(name: object) -> bool:
    """Whether a name means something of the user's: it has a colon.

    Example:
        >>> is_own("my_package.algorithms:MyLeader"), is_own("FedExp3")
        (True, False)
    """
    return isinstance(name, str) and ":" in name


def looking_beside(config: Mapping[str, Any], source: Path) -> AbstractContextManager[None]:
    """Within it, own modules are found beside the configuration, or where its `modules` says."""
    folder = config.get(MODULES, "")
    if not isinstance(folder, str):
        raise ConfigError(
            f"{source}: {MODULES} is the folder of own modules, a text such as "
            f'{MODULES} = "../src", not {folder!r}'
        )
    return own_modules.looking_in(source.parent / folder)


def sources(name: str) -> dict[str, str | None]:
    """The modules that make an own thing what it is, with the SHA-256 of their files.

    That is the module named and the one that defines what it names. Other modules that these
    import are not looked at.

    Raises:
        OwnError: if it cannot be imported.
    """
    return {module: own_modules.remember(module) for module in _modules(name)}


def source_files(name: str) -> list[str]:
    """The files of these modules.

    Raises:
        OwnError: if it cannot be imported.
    """
    files = [getattr(sys.modules[module], "__file__", None) for module in _modules(name)]
    return [file for file in files if file is not None]


def _modules(name: str) -> list[str]:
    """Those that name and define it, but for this package's, whose version results have."""
    named = name.partition(":")[0]
    both = {named, getattr(_attribute(name), "__module__", named)} & sys.modules.keys()
    ours = __name__.partition(".")[0]
    return sorted(module for module in both if module.partition(".")[0] != ours)


def _loaded(name: str, kind: Kind, known: Mapping[str, Make]) -> Make:
    make: Make = _attribute(name, kind)
    _check_kind(name, make, kind)
    sources(name)  # so that they are remembered
    if kind.subclass and make.__name__ in known:
        same = known[make.__name__] is make
        fix = f'write name = "{make.__name__}"' if same else "give the class another name"
        raise OwnError(f"{name}: fedbandits has a {make.__name__} already; {fix}")
    _check_parameters(name, make, kind)
    return make


def _attribute(name: str, kind: Kind | None = None) -> Any:
    if not re.fullmatch(PATTERN, name):
        raise OwnError(
            f"{name!r} is no name of an own thing; write it as module:attribute, such as "
            "my_package.algorithms:MyLeader"
        )
    path, _, attribute = name.partition(":")
    found: Any = own_modules.load(path)
    file = getattr(found, "__file__", None) or "without a file"
    for part in attribute.split("."):
        if not hasattr(found, part):
            there = [each for each in vars(found) if not each.startswith("_")]
            right = [each for each in there if kind and _looks_right(vars(found)[each], kind)]
            meant = did_you_mean(part, right or there)
            has = f"It has {', '.join(right)}" if right else f"Nothing in it is {_a(kind)}"
            raise OwnError(f"{path} ({file}) has no {part}{meant} {has}")
        found = getattr(found, part)
    return found


def _a(kind: Kind | None) -> str:
    return kind.expected if kind is not None else "of that name"


def _looks_right(value: Any, kind: Kind) -> bool:
    if inspect.isclass(value):
        wanted = kind.made
        is_one = wanted is None or (issubclass(value, wanted) and value is not wanted)
        return is_one and not inspect.isabstract(value)
    return inspect.isfunction(value) and not kind.subclass


def _check_kind(name: str, make: Any, kind: Kind) -> None:
    """Reject an object that does not declare to make what a section needs, without calling it.

    A class must be of the kind, and a function must be annotated with it, because a file chooses
    both the callable and its arguments. Types are compared by `type`, which runs no code of the
    object.
    """
    must = f"it must be {kind.expected}"
    if issubclass(type(make), type):
        _check_class(name, make, kind)
    elif kind.made is not None and issubclass(type(make), kind.made):
        maker = f"{name.partition(':')[0]}:{type(make).__name__}"
        raise OwnError(
            f"{name} is {_shown(make)}; {must}. Name what makes it, such as {maker}, and write its "
            "parameters beside the name"
        )
    elif type(make) not in FUNCTIONS:
        raise OwnError(f"{name} is {_shown(make)}; {must}")
    elif kind.made is None or kind.subclass:
        raise OwnError(f"{name} is a function; {must}")
    else:
        _check_returned(name, make, kind.made, must)


FUNCTIONS = (FunctionType, MethodType, type(cache(len)))
"""The types of functions: plain, bound to a class, or cached."""


def _check_returned(name: str, make: Make, made: type, must: str) -> None:
    """Reject a function whose return annotation is not this type."""
    try:
        hints = hints_of(make)
    except Exception as error:  # hints are code
        raise OwnError(f"the type hints of {name} cannot be read: {error}") from error
    if "return" not in hints:
        raise OwnError(f"{name} is a function without a return annotation; {must}")
    promised = [get_origin(each) or each for each in alternatives(hints["return"])]
    if all(isinstance(each, type) and issubclass(each, made) for each in promised):
        return
    written = inspect.formatannotation(inspect.unwrap(make).__annotations__["return"])
    hidden = ", imported outside of `if TYPE_CHECKING`" if Unloaded in promised else ""
    raise OwnError(f"{name} is a function annotated with -> {written}; {must}{hidden}")


def _check_class(name: str, make: type, kind: Kind) -> None:
    must = f"it must be {kind.expected}"
    if kind.made is None:
        if not _called_as_rate(make):
            raise OwnError(
                f"{name} is a class whose objects cannot be called as rate(t, state); {must}"
            )
    elif not issubclass(make, kind.made):
        raise OwnError(f"{name} is a class that is no {kind.made.__name__}; {must}")
    if inspect.isabstract(make):
        missing = ", ".join(sorted(getattr(make, "__abstractmethods__", ())))
        raise OwnError(f"{name} lacks {missing}; write {'them' if ',' in missing else 'it'}")
    try:
        (check_class if kind.subclass else checks.frozen_dataclass)(make)
    except (TypeError, ValueError) as error:
        raise OwnError(f"{name}: {error}") from error
    for field in dataclasses.fields(make):
        if field.name in kind.static and not field.metadata.get("static"):
            raise OwnError(
                f"{name}: its {field.name} decides the shapes of arrays, which JAX must know; "
                f'write {field.name}: int = field(metadata={{"static": True}})'
            )


def _called_as_rate(make: type) -> bool:
    """Return whether objects of a class take a round and a state."""
    called: Any = next(
        (vars(base)["__call__"] for base in make.__mro__ if "__call__" in vars(base)), None
    )
    if type(called) not in FUNCTIONS:
        return False
    try:
        inspect.signature(called).bind(None, None, None)
    except TypeError:
        return False
    return True


def _check_parameters(name: str, make: Make, kind: Kind) -> None:
    """Refuse parameters that a configuration cannot give by name, or of which it knows nothing."""
    try:
        signature = inspect.signature(make).parameters
    except (TypeError, ValueError) as error:
        raise OwnError(f"{name} does not say which parameters it takes ({error})") from error
    for key, parameter in signature.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise OwnError(
                f"{name} takes {parameter}, and a configuration gives parameters by their names; "
                "write them out"
            )
        if parameter.annotation is parameter.empty:
            raise OwnError(
                f"{name}: its parameter {key} has no type hint, and from that a configuration "
                f"knows whether a list is swept and a text is a file; write {key}: float, or "
                "whatever it is"
            )
    if kind.given is not None and kind.given not in signature:
        raise OwnError(f"{name} does not take a {kind.given}; it must be {kind.expected}")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"

"""A JSON Schema of configurations, for editors: names, parameters, defaults and what they mean.

It is made from the catalogue: from signatures, type hints and docstrings. An editor that knows it
completes and explains keys and marks what is wrong while one types; `fedbandits run` alone decides.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from fedbandits import schedules
from fedbandits.common import checks
from fedbandits.common.describe import describe
from fedbandits.privacy.response import LEAST as LEAST_EPSILON
from fedbandits.simulation.simulation import Simulation

from .accepting import TABLES, parameters_of
from .building import CHOICES, SETTINGS
from .catalogue import LIARS, NAMELESS, REGISTRIES, SECTIONS, THEOREM, Registry
from .expansion import SWEEP
from .experiment import CONDITIONS, Experiment
from .hints import alternatives, hints_of
from .own import MODULES, PATTERN, Open
from .structs import keys_of

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

SMALLEST = {
    "agents": 1,
    "arms": 2,
    "arm": 0,
    "horizon": 1,
    "seed": 0,
    "runs": 1,
    "draws": 2,
    "delay": 0,
    "epsilon": LEAST_EPSILON,
} | dict.fromkeys(("rows", "cols", "cluster", "links", "parts", "block", "hops", "up", "down"), 1)
"""Of numbers that go by these names, wherever they stand."""

LARGEST = {"horizon": checks.ROUNDS, "seed": 2**32 - 1}

OWN = "module:attribute of your own; the module is imported, which runs the code in it"


class Sections:
    """The schemas of sections, which refer to each other.

    Args:
        sweeps: whether lists of values are taken, as `fedbandits run` does.
        among: instead of the catalogue's names of a section, these.
    """

    def __init__(self, *, sweeps: bool, among: Mapping[str, Registry] | None = None) -> None:
        self._sweeps = sweeps
        self._registries = REGISTRIES | dict(among or {})

    def definitions(self, sections: Iterable[str]) -> dict[str, Schema]:
        """A schema for each section and each of its names, and for those that these refer to."""
        found: dict[str, Schema] = {}
        wanted = list(sections)
        while wanted:
            section = wanted.pop()
            if section not in found:
                made = self._section(section)
                found |= made
                wanted += [name for name in _referred(made) if name in self._registries]
        return dict(sorted(found.items()))

    def anywhere(self, schema: Schema, *, lists: bool = False) -> Schema:
        """A value, or several of them to be swept; where lists are values only `{ sweep = [] }`."""
        if not self._sweeps or "$ref" in schema:  # a section takes several by itself
            return schema
        told = {key: text for key, text in schema.items() if key in ("description", "default")}
        one = {key: item for key, item in schema.items() if key not in told}
        several = {"type": "array", "items": one, "minItems": 1}
        explicit = table({SWEEP: several}, required=[SWEEP])
        return {**told, "anyOf": [one, explicit] if lists else [one, several, explicit]}

    def _section(self, section: str) -> dict[str, Schema]:
        """Of a section, and of each table that it can be.

        By `if` and `else`, so that a mistake is marked where it is; what editors complete are the
        keys of all names together.
        """
        registry = self._registries[section]
        given = ("network",) if section == "gossip" else ()
        nameless = NAMELESS.get(section)
        entries = {
            f"{section}.{name}": self._entry(None if name == nameless else name, make, given)
            for name, make in registry.items()
        }
        keys: dict[str, Schema] = {}
        for entry in entries.values():
            for key, schema in entry["properties"].items():
                keys.setdefault(key, {k: v for k, v in schema.items() if k == "description"})
        chosen: Schema = {"required": ["name"]}
        if nameless is not None:
            chosen = {"$ref": f"#/$defs/{section}.{nameless}"}
        else:
            keys["name"] = self._names(registry)
            for name in reversed(list(registry)):
                named = {"required": ["name"], "properties": {"name": {"const": name}}}
                chosen = {
                    "if": named,
                    "then": {"$ref": f"#/$defs/{section}.{name}"},
                    "else": chosen,
                }
        if not self._sweeps:
            return {section: {"type": "object", "properties": keys, **chosen}, **entries}
        one = {"$ref": f"#/$defs/{section}", "type": "object"}
        several = {"type": "array", "items": one, "minItems": 1}
        explicit = table({SWEEP: several}, required=[SWEEP])
        whole = {
            **several,
            "type": ["object", "array"],
            "properties": keys,
            "if": {"required": [SWEEP]},
            "then": {"if": {"type": "object"}, "then": explicit},
            "else": chosen,
        }
        return {section: whole, **entries}

    def _names(self, registry: Registry) -> Schema:
        names: list[Schema] = [{"enum": list(registry)}]
        if isinstance(registry, Open):
            names.append({"type": "string", "pattern": PATTERN, "description": OWN})
        return self.anywhere({"anyOf": names})

    def _entry(self, name: str | None, make: Callable[..., Any], given: tuple[str, ...]) -> Schema:
        """The table that names a constructor; without a name where there is one alone."""
        doc = inspect.getdoc(make) or ""
        texts, hints, takes = arguments_of(doc), hints_of(make), parameters_of(make)
        parameters = {
            key: parameter
            for key, parameter in inspect.signature(make).parameters.items()
            if key not in given
        }
        properties: dict[str, Schema] = {}
        if name is not None:
            properties["name"] = {"const": name, "description": _first(doc)}
        for key, parameter in parameters.items():
            schema = _value(hints[key], key)
            if "additionalProperties" in schema:  # what stands in a table is swept too
                schema["additionalProperties"] = self.anywhere(schema["additionalProperties"])
            if key in texts:
                schema["description"] = texts[key]
            default = _default(parameter)
            if default is not None:
                schema["default"] = default
            properties[key] = self.anywhere(schema, lists=takes[key].lists)
        if hasattr(make, THEOREM):
            properties[THEOREM] = self.anywhere(
                {"type": "boolean", "description": "The theorem's rates instead of given ones."}
            )
        required = [key for key, p in parameters.items() if p.default is p.empty]
        named = ["name"] if name is not None else []
        title = {} if name is None else {"title": name}
        return {**title, "description": _first(doc), **table(properties, [*named, *required])}


def configuration_schema() -> Schema:
    """Of the files that `fedbandits run`, `tune` and `bounds` take.

    Example:
        >>> [name for name in configuration_schema()["$defs"] if name.startswith("gossip.m")]
        ['gossip.max_degree', 'gossip.metropolis']
    """
    sections = Sections(sweeps=True)
    parts = (Simulation, Experiment)
    docs = [arguments_of(inspect.getdoc(part) or "") for part in parts]
    texts = docs[0] | docs[1] | {each.name: _first(each.__doc__ or "") for each in CONDITIONS}
    defaults = {field.name: field.default for part in parts for field in dataclasses.fields(part)}
    properties: dict[str, Schema] = {}
    for key in SETTINGS:
        setting: Schema = {"enum": list(CHOICES[key])} if key in CHOICES else number("integer", key)
        setting["description"] = texts[key]
        if defaults[key] is not None:
            setting["default"] = defaults[key]
        properties[key] = sections.anywhere(setting)
    for section in SECTIONS:
        described = {"description": texts[section], "$ref": f"#/$defs/{section}"}
        properties[section] = sections.anywhere(described)
    liars = {"type": "object", "additionalProperties": {"$ref": "#/$defs/attack"}}
    properties[LIARS] = sections.anywhere({**liars, "description": texts[LIARS]})
    group = {"type": "array", "items": {"type": "string"}, "minItems": 2}
    properties[SWEEP] = table(
        {"zip": {"type": "array", "items": group, "description": "Keys that vary together."}}
    )
    properties[MODULES] = modules_schema()
    return whole(
        "fedbandits configuration",
        table(properties, ["problem", "algorithm"]),
        sections.definitions([*SECTIONS, "attack"]),
    )


def whole(title: str, top: Schema, definitions: Schema) -> Schema:
    """Return the schema of a file from that of its top level."""
    return {"$schema": DIALECT, "title": title, **top, "$defs": definitions}


def struct_schema(struct: type[msgspec.Struct]) -> Schema:
    """Return the schema of a section that a struct describes, with the words of its docstring."""
    texts = arguments_of(inspect.getdoc(struct) or "")
    keys = list(keys_of(struct))
    return table(
        {
            key.name: {
                "description": texts[key.name],
                **(
                    struct_schema(key.kind)
                    if issubclass(key.kind, msgspec.Struct)
                    else msgspec.json.schema(key.hint, schema_hook=_path_schema)
                ),
            }
            for key in keys
        },
        [key.name for key in keys if key.required],
    )


def _path_schema(_: type) -> Schema:
    return {"type": "string", "minLength": 1}


def modules_schema() -> Schema:
    """Of the folder of own modules."""
    return {
        "type": "string",
        "description": "Folder of own modules, relative to this file; this file's by default.",
    }


def number(kind: Literal["integer", "number"], name: str) -> Schema:
    """A number, within what is known of those of that name."""
    limits = {"minimum": SMALLEST.get(name), "maximum": LARGEST.get(name)}
    return {"type": kind, **{key: limit for key, limit in limits.items() if limit is not None}}


def table(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """A table of these keys and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _referred(schema: Any) -> list[str]:
    """The sections that a schema refers to."""
    if isinstance(schema, Mapping):
        own = [str(schema["$ref"]).rpartition("/")[2]] if "$ref" in schema else []
        return own + [name for item in schema.values() for name in _referred(item)]
    if isinstance(schema, list):
        return [name for item in schema for name in _referred(item)]
    return []


def _value(hint: Any, name: str) -> Schema:
    """What a type hint allows of what TOML can hold; anything where that is not known."""
    found: list[Schema] = []
    for kind in alternatives(hint):
        schema = _kind(kind, name, rate=schedules.Schedule in map(_bare, alternatives(hint)))
        if schema == {}:
            return {}
        if schema is not None and schema not in found:
            found.append(schema)
    return dict(found[0]) if len(found) == 1 else {"anyOf": found} if found else {}


def _bare(kind: Any) -> Any:
    return get_origin(kind) or kind


def _kind(kind: Any, name: str, *, rate: bool) -> Schema | None:
    """The schema of one member of a union; None for what no configuration can hold."""
    bare = _bare(kind)
    if kind is Any:
        return {}
    for wanted, registry in TABLES.items():
        if bare is wanted:
            section = next(key for key, known in REGISTRIES.items() if known is registry)
            return {"$ref": f"#/$defs/{section}"}
    if bare is Literal:
        return {"enum": list(get_args(kind))}
    if bare is bool:
        return {"type": "boolean"}
    if bare is int:
        return number("integer", name)
    if bare is float:
        return {"type": "number", "minimum": 0} if rate else number("number", name)
    if bare is str or getattr(bare, "__name__", "") == "Path":
        return {"type": "string"}
    if not isinstance(bare, type):
        return None
    if issubclass(bare, Mapping):
        key, item = get_args(kind)
        return {"type": "object", "additionalProperties": _value(item, "")} if key is str else None
    if issubclass(bare, Iterable) or bare.__name__ == "_NestedSequence":
        inside = get_args(kind)
        plain = bare is list and inside
        return {"type": "array", "items": _value(inside[0], "") if plain else {}}
    return None


def _default(parameter: inspect.Parameter) -> Any:
    """A default that a configuration could write out; None where there is none."""
    value = parameter.default
    if value is parameter.empty or isinstance(value, bool | int | float | str):
        return None if value is parameter.empty else value
    if dataclasses.is_dataclass(value) and schedules.name_of(value) in schedules.REGISTRY:
        return {**describe(value), "name": schedules.name_of(value)}
    return None


def _first(doc: str) -> str:
    return doc.partition("\n")[0]


def arguments_of(doc: str) -> dict[str, str]:
    """What a docstring says of each argument, by its name.

    Args:
        doc: as `inspect.getdoc` gives it.

    Example:
        >>> arguments_of(inspect.getdoc(arguments_of))
        {'doc': 'as `inspect.getdoc` gives it.'}
    """
    found = re.search(r"^(?:Args|Arguments|Attributes):\n((?:(?: +.*)?\n)*)", f"{doc}\n", re.M)
    entries = re.split(r"^    (?=\S)", found[1], flags=re.M) if found else []
    split = (entry.partition(":") for entry in entries if ":" in entry)
    return {name.strip(): " ".join(text.split()) for name, _, text in split}

"""JSON Schemas of a federation's file and of one member's, for editors."""

from __future__ import annotations

import inspect

from fedbandits.config.schema import Schema, Sections, arguments_of, struct_schema, table, whole
from fedbandits.live.operations.agent_file import AgentFile
from fedbandits.live.operations.local_cluster import FASTEST, PACE

from .definition import Federation
from .file import RULES, SHORTEST_PERIOD

_TEXT: Schema = {"type": "string"}
_POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
_PACE: Schema = {
    "type": "number",
    "minimum": FASTEST,
    "default": PACE,
    "description": "Mean seconds between two choices of a member.",
}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}


def federation_schema() -> Schema:
    """Of the file that all members have.

    Example:
        >>> federation_schema()["required"]
        ['arms']
    """
    texts = arguments_of(inspect.getdoc(Federation) or "")
    sections = Sections(sweeps=False, among={"gossip": RULES})
    tickets = {"expire_after": _POSITIVE, "expired_loss": _SHARE}
    means = {"type": "array", "items": _SHARE, "minItems": 2}
    properties: dict[str, Schema] = {
        "version": {"type": "integer", "minimum": 1},
        "arms": {"type": "array", "items": _TEXT, "minItems": 2},
        "members": {"type": "array", "items": _TEXT},
        "links": {
            "type": "array",
            "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2},
            "description": "Who hears whom, as pairs of members; or a [network].",
        },
        "network": {"$ref": "#/$defs/network", "description": "Who hears whom; or links."},
        "gossip": {"$ref": "#/$defs/gossip"},
        "algorithm": {"$ref": "#/$defs/algorithm"},
        "tickets": table({key: _described(tickets[key], texts, key) for key in tickets}),
        "gossip_period": {"type": "number", "minimum": SHORTEST_PERIOD},
        "addresses": {"type": "object", "additionalProperties": _TEXT},
        "demo": {
            "anyOf": [
                table({"means": means, "pace": _PACE}, ["means"]),
                {"$ref": "#/$defs/problem"},
            ],
            "description": "What arms lose in `live up`: means, or a problem.",
        },
    }
    described = {key: _described(schema, texts, key) for key, schema in properties.items()}
    definitions = sections.definitions(["network", "gossip", "algorithm", "problem"])
    for name, entry in definitions.items():
        if name.startswith("problem."):  # in [demo] alone, where they have a pace
            entry["properties"]["pace"] = _PACE
    return whole("fedbandits federation", table(described, ["arms"]), definitions)


def agent_schema() -> Schema:
    """Of one member's file.

    Example:
        >>> agent_schema()["required"]
        ['name', 'federation']
    """
    return whole("fedbandits agent", struct_schema(AgentFile), {})


def _described(schema: Schema, texts: dict[str, str], key: str) -> Schema:
    """Return the schema with the words of the docstring, unless it has a description."""
    return {"description": texts[key], **schema} if key in texts else schema

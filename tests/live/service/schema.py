"""As much of JSON Schema as the service's document uses."""

from __future__ import annotations

from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
KNOWN = {
    *("$ref", "title", "description", "default", "type", "properties", "required", "anyOf"),
    *("oneOf", "allOf", "items", "additionalProperties", "enum", "minLength", "maxLength"),
}


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """What is wrong with a value."""
    if unknown := schema.keys() - KNOWN:
        raise NotImplementedError(f"schema: {unknown}")
    if "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return faults(value, found, document)
    wrong = []
    for branches, fits in (("anyOf", (1, 99)), ("oneOf", (1, 1)), ("allOf", (None, None))):
        if branches in schema:
            good = sum(not faults(value, each, document) for each in schema[branches])
            least, most = fits if fits[0] else (len(schema[branches]),) * 2
            if not (least or 0) <= good <= (most or 0):
                wrong.append(f"{value!r} fits {good} of {branches}")
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{value!r} is none of {schema['enum']}")
    kind = schema.get("type")
    if kind is not None:
        fits_type = isinstance(value, TYPES[kind])
        if not fits_type or (isinstance(value, bool) and kind != "boolean"):
            return [*wrong, f"{value!r} is no {kind}"]
    low, high = schema.get("minLength", 0), schema.get("maxLength", 1 << 30)
    if isinstance(value, str) and not low <= len(value) <= high:
        wrong.append(f"{value!r} has a wrong length")
    if isinstance(value, list) and "items" in schema:
        wrong += [fault for each in value for fault in faults(each, schema["items"], document)]
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        wrong += [f"no {name}" for name in schema.get("required", ()) if name not in value]
        more = schema.get("additionalProperties", True)
        for name, each in value.items():
            if name in properties:
                wrong += faults(each, properties[name], document)
            elif more is False:
                wrong.append(f"{name!r} is unknown")
            elif isinstance(more, dict):
                wrong += faults(each, more, document)
    return wrong

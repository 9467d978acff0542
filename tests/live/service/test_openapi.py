"""The OpenAPI document: complete, plain about optional fields, and the same on every Python."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from fedbandits.live.service import openapi
from fedbandits.live.service.bodies import Choose

from .served import DOCUMENT

SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def test_every_schema_is_valid_and_every_property_has_a_description() -> None:
    assert {"Choose", "Chosen", "Observe", "Observed", "Status", "Neighbour"} < SCHEMAS.keys()
    for name, schema in SCHEMAS.items():
        Draft202012Validator.check_schema(schema)
        assert schema["description"].endswith("."), name
        for field, each in schema["properties"].items():
            assert each.get("description", "").endswith("."), f"{name}.{field}"
            assert "default" not in each, f"{name}.{field}"


def test_required_fields_are_those_that_are_always_present() -> None:
    optional = {
        f"{name}.{field}"
        for name, schema in SCHEMAS.items()
        for field in schema["properties"]
        if field not in schema["required"]
    }
    requests = {f"{name}.{field}" for name in ("Choose", "Observe") for field in fields_of(name)}
    assert optional == requests | {"Chosen.event", "Chosen.would"}


def fields_of(name: str) -> list[str]:
    return list(SCHEMAS[name]["properties"])


def test_a_field_that_may_be_absent_is_never_null() -> None:
    assert SCHEMAS["Chosen"]["properties"]["would"]["type"] == "string"
    assert SCHEMAS["Chosen"]["properties"]["event"]["type"] == "string"


def test_the_document_names_its_server() -> None:
    (server,) = DOCUMENT["servers"]
    assert server["url"] == "/"  # relative to the address that the document was fetched from
    assert server["description"]


@pytest.mark.parametrize("dedent", [False, True], ids=["as written", "dedented by the compiler"])
def test_descriptions_do_not_depend_on_the_indentation_of_docstrings(
    dedent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 removes the indentation of docstrings when it compiles them; 3.11 does not."""
    body = msgspec.defstruct("Choose", [("allowed", list[str]), ("event", str)])
    body.__doc__ = (
        "Arms to choose from.\n\n    More about them.\n\n    Attributes:\n"
        "        allowed: arms that are\n            available: all others are not.\n"
        "        event: an identifier.\n    "
    )
    if dedent:
        body.__doc__ = inspect.cleandoc(body.__doc__) + "\n"
    monkeypatch.setattr(openapi, "BODIES", (body, *openapi.BODIES[1:]))
    assert openapi.BODIES[0].__name__ == Choose.__name__
    found = openapi.document()["components"]["schemas"]["Choose"]
    assert found["description"] == "Arms to choose from."
    assert {name: each["description"] for name, each in found["properties"].items()} == {
        "allowed": "arms that are available: all others are not.",
        "event": "an identifier.",
    }

"""Holds the schemas of files to what is accepted, wherever a test reads a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from fedbandits.common.describe import canonical

Make = Callable[[], dict[str, Any]]


@cache
def _validator(make: Make) -> Any:
    from jsonschema import Draft202012Validator

    schema = make()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(make: Make, config: Mapping[str, Any]) -> list[str]:
    """What the schema says against a file, place by place."""
    return [f"{error.json_path}: {error.message}" for error in _validator(make).iter_errors(config)]


@contextmanager
def held_to_the_schema() -> Iterator[None]:
    """Within it, what is built of a configuration without an error must fit the schema."""
    from fedbandits.config import building, schema
    from fedbandits.live.federation import federation_file
    from fedbandits.live.operations import agent_file, site
    from fedbandits.sweeps import plan

    fits: set[str] = set()

    def check(make: Make, config: Mapping[str, Any]) -> None:
        key = canonical(config)
        if key not in fits:
            assert faults(make, config) == []
            fits.add(key)

    def held(module: Any, name: str, make: Make, config: Callable[[Any], Any]) -> None:
        function = getattr(module, name)

        def checked(given: Any, *rest: Any) -> Any:
            made = function(given, *rest)
            check(make, config(given))
            return made

        patch.setattr(module, name, checked)

    with pytest.MonkeyPatch.context() as patch:
        held(building, "_build", schema.configuration_schema, lambda config: config)
        held(plan, "_planned", schema.configuration_schema, lambda document: document.config)
        held(
            federation_file,
            "federation_of",
            federation_file.federation_schema,
            lambda config: config,
        )
        held(site, "struct_of", agent_file.agent_schema, lambda config: config)
        yield

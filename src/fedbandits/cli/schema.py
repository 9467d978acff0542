"""`fedbandits schema`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class FileKind(StrEnum):
    """Files that have a schema."""

    run = "run"
    federation = "federation"
    agent = "agent"


def schema(
    kind: Annotated[
        FileKind, typer.Option(help="Of experiments and sweeps, of federations, or of one member.")
    ] = FileKind.run,
) -> None:
    """Print a JSON Schema of configuration files, for editors.

    Save it beside the files, and begin each with the line #:schema ./fedbandits.schema.json

    \b
    Examples:
      fedbandits schema > fedbandits.schema.json
      fedbandits schema --kind federation > federation.schema.json
    """  # noqa: D301
    from fedbandits.config.schema import configuration_schema
    from fedbandits.live.federation.federation_file import federation_schema
    from fedbandits.live.operations.agent_file import agent_schema

    make = {
        FileKind.run: configuration_schema,
        FileKind.federation: federation_schema,
        FileKind.agent: agent_schema,
    }[kind]
    typer.echo(json.dumps(make(), indent=1, ensure_ascii=False))

"""`agent.toml`: the keys of each section, their types and defaults, and the JSON Schema.

A new key is one line of a struct and one line of its docstring.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from fedbandits.privacy.response import LEAST as LEAST_EPSILON

if TYPE_CHECKING:
    from fedbandits.config.schema import Schema

Text = Annotated[str, msgspec.Meta(min_length=1)]


class ServiceSection(msgspec.Struct, frozen=True):
    """The section [service] of `agent.toml`.

    Attributes:
        address: host and port that the service listens on.
        token: file with the token of the service; by default the member's name and .token.
        token_env: environment variable with the token, instead of a file.
        read_token: file with a token that only reads: the status, events and metrics.
        read_token_env: environment variable with the token that only reads, instead of a file.
        hosts: names and IP addresses of the service besides those in its certificate and address.
        tls: whether the service shows the certificate of the keys.
        baseline: arm that an apprentice plays while it learns; without it, the drawn arm.
    """

    address: Annotated[str, msgspec.Meta(examples=["127.0.0.1:8080"])] = "127.0.0.1:0"
    token: Path | None = None
    token_env: Annotated[str, msgspec.Meta(min_length=1, examples=["NORTH_TOKEN"])] | None = None
    read_token: Path | None = None
    read_token_env: Annotated[str, msgspec.Meta(min_length=1, examples=["READ_TOKEN"])] | None = (
        None
    )
    hosts: Annotated[list[str], msgspec.Meta(examples=[["agent.example.org"]])] = []
    tls: bool = False
    baseline: Text | None = None


class PrivacySection(msgspec.Struct, frozen=True):
    """The section [privacy] of `agent.toml`.

    Attributes:
        epsilon: ε per round for this agent's losses (event level), even if all others collude; arms
            are public.
    """

    epsilon: Annotated[float, msgspec.Meta(ge=LEAST_EPSILON, examples=[1.0])]


class AgentFile(msgspec.Struct, frozen=True):
    """`agent.toml`: the settings of one member at its site.

    Attributes:
        name: the member's name in the federation.
        federation: file of all members.
        journal: file that the agent writes; by default the member's name and .db.
        keys: folder with ca.pem, cert.pem and key.pem; an agent without neighbours needs none.
        low: the smallest loss or reward.
        high: the largest loss or reward.
        allow_modules: your Python modules that the federation's file may name.
        addresses: `host:port` of members; they replace the federation's addresses.
        service: the HTTP service for applications; absent by default.
        privacy: noisy bits instead of losses; absent by default.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, examples=["north"])]
    federation: Annotated[Path, msgspec.Meta(examples=["federation.toml"])]
    journal: Path | None = None
    keys: Path | None = None
    low: float = 0.0
    high: float = 1.0
    allow_modules: list[str] = []
    addresses: dict[str, str] = {}
    service: ServiceSection | None = None
    privacy: PrivacySection | None = None


def agent_schema() -> Schema:
    """Return the JSON Schema of the file, for editors.

    Example:
        >>> agent_schema()["required"]
        ['name', 'federation']
    """
    from fedbandits.config.schema import struct_schema, whole

    return whole("fedbandits agent", struct_schema(AgentFile), {})

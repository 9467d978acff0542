"""An agent with its service on the loopback address, and a client that validates all responses."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

import fedbandits as fb
from fedbandits.live import Agent, Federation
from fedbandits.live.agent.group_commit import Store
from fedbandits.live.rehearsal.memory import MemoryStore
from fedbandits.live.service import Service, serve
from fedbandits.live.service.openapi import document
from tests.live.links import WAIT

ARMS = ("tea", "coffee", "cocoa")
ALONE = Federation(ARMS, fb.networks.path(1))
DOCUMENT = document()
READ_TOKEN = "read-0123456789abcdef"
_CLOSED = {
    name: {"additionalProperties": False, **schema}
    for name, schema in DOCUMENT["components"]["schemas"].items()
}
"""The schemas of bodies. Here, unlike in the document, they reject undocumented fields."""


def faults(body: Any, schema: dict[str, Any]) -> list[str]:
    """Validate a body against a schema of the document."""
    whole = {**schema, "components": {"schemas": _CLOSED}}
    return [error.message for error in Draft202012Validator(whole).iter_errors(body)]


class Served:
    """An agent, its service and a client of the service."""

    def __init__(self, agent: Agent, service: Service, client: httpx.AsyncClient) -> None:
        self.agent = agent
        self.service = service
        self.client = client
        self.host, port = service.url.partition("://")[2].rsplit(":", 1)
        self.port = int(port)

    async def choose(self, **body: Any) -> httpx.Response:
        return await self.client.post("/v1/choose", json=body)

    async def observe(self, **body: Any) -> httpx.Response:
        return await self.client.post("/v1/observe", json=body)

    async def raw(self, sent: bytes, *, to_the_end: bool = True) -> bytes:
        """Send bytes on a new connection; return all bytes until it closes, or the first piece."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(sent)
        got = b""
        with suppress(ConnectionError):
            async with asyncio.timeout(WAIT):
                while piece := await reader.read(65536):
                    got += piece
                    if not to_the_end:
                        break
        writer.close()
        return got

    def request(self, path: str, body: bytes = b"{}", *lines: str, method: str = "POST") -> bytes:
        """Return a request as bytes, with the token."""
        head = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            f"Authorization: Bearer {self.service.token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *lines,
        ]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def as_documented(response: httpx.Response) -> None:
    """Check that the document describes the response, and the request if it was accepted."""
    request = response.request
    operation = DOCUMENT["paths"].get(request.url.path, {}).get(request.method.lower())
    if operation is None:
        return
    content = operation["responses"][str(response.status_code)]["content"]
    kind = response.headers["content-type"].partition(";")[0]
    assert kind in content
    if kind == "application/json":
        await response.aread()
        assert faults(response.json(), content[kind]["schema"]) == []
    if "requestBody" in operation and response.status_code == 200:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert faults(json.loads(request.content), schema) == []


@asynccontextmanager
async def serving(
    folder: Path,
    federation: Federation = ALONE,
    store: Store | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """Run an agent with its service and a client with its token."""
    async with Agent(federation.members[0], federation, store or MemoryStore()) as agent:
        service = await serve(agent, token_file=folder / "token", **options)
        async with (
            service,
            httpx.AsyncClient(
                base_url=service.url,
                headers={"Authorization": f"Bearer {service.token}"},
                event_hooks={"response": [as_documented]},
                trust_env=False,
            ) as client,
        ):
            yield Served(agent, service, client)


def served(
    folder: Path, play: Callable[[Served], Awaitable[None]], *given: Any, **options: Any
) -> None:
    """Run a test against a service."""

    async def run() -> None:
        async with serving(folder, *given, **options) as found:
            await play(found)

    asyncio.run(run())


def with_service(
    *given: Any, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Run a test with a service as its argument `it`; further arguments are fixtures."""

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        def run(tmp_path: Path, **fixtures: Any) -> None:
            if "tmp_path" in wanted:
                fixtures["tmp_path"] = tmp_path
            served(tmp_path, functools.partial(test, **fixtures), *given, **options)

        wanted = {k: each for k, each in inspect.signature(test).parameters.items() if k != "it"}
        functools.update_wrapper(run, test)
        path = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
        arguments = [each.replace(kind=path.kind) for each in wanted.values()]
        if "tmp_path" not in wanted:
            arguments.append(path)
        run.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
        return run

    return decorate


def kind_of(response: httpx.Response) -> tuple[int, str]:
    """Return the status and kind of a refusal."""
    return response.status_code, response.json()["kind"]

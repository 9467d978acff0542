"""The OpenAPI 3.1 document of the service, from which clients in other languages are generated."""

from __future__ import annotations

import inspect
from itertools import groupby
from typing import Any

import msgspec

from fedbandits.common.version import __version__
from fedbandits.config.schema import arguments_of
from fedbandits.live.agent.status import Neighbour, Status
from fedbandits.live.protocol.loss_sums import LossWindow, MeanLosses

from .bodies import Choose, Chosen, Health, Observe, Observed
from .refusals import KINDS, Failure

BODIES = (
    *(Choose, Chosen, Observe, Observed, Health, Failure),
    *(Status, Neighbour, MeanLosses, LossWindow),
)

_BEFORE = ("cross_site", "misdirected", "too_many", "internal")
"""Kinds of refusals that every path may respond with."""

_OF_POSTS = (
    "conflict",
    "refused",
    "stopped",
    "malformed",
    "too_large",
    "content_type",
    "read_only",
)


def document() -> dict[str, Any]:
    """Return the whole document as plain data."""
    event_stream = {"text/event-stream": {"schema": {"type": "string"}}}
    plain_text = {"text/plain": {"schema": {"type": "string"}}}
    any_object = {"application/json": {"schema": {"type": "object"}}}
    open_paths = ("/healthz", "/openapi.json")
    text = "Stream the status once a second, as server-sent events named `status`."
    gets = {
        "/v1/status": ("status", "Return the status of the agent.", _json(Status), ("stopped",)),
        "/v1/events": ("events", text, event_stream, ("stopped",)),
        "/metrics": (
            "metrics",
            "Return the metrics of the agent and its service, for Prometheus.",
            plain_text,
            (),
        ),
        "/healthz": (
            "health",
            "Report whether the agent runs and its store works.",
            _json(Health),
            ("stopped",),
        ),
        "/openapi.json": ("openapi", "Return this document.", any_object, ()),
    }
    text = "Draw an arm. The choice is on disk before the response."
    choose = _operation("choose", text, _json(Chosen), _OF_POSTS, takes=Choose)
    text = "Report the loss or reward of a choice. Repeated reports count once."
    kinds = ("unknown_ticket", "expired", *_OF_POSTS)
    observe = _operation("observe", text, _json(Observed), kinds, takes=Observe)
    paths = {"/v1/choose": {"post": choose}, "/v1/observe": {"post": observe}}
    for path, given in gets.items():
        paths[path] = {"get": _operation(*given, token=path not in open_paths)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "A live agent of fedbandits",
            "version": __version__,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
            "description": "An application requests an arm, plays it and reports its loss or "
            "reward. Requests with an event identifier may be repeated: each counts once.",
        },
        "servers": [{"url": "/", "description": "The agent that serves this document."}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the service. For GET requests, the read token is "
                    "enough.",
                }
            },
        },
    }


def _operation(
    name: str,
    summary: str,
    content: dict[str, Any],
    refused_for: tuple[str, ...],
    *,
    takes: type | None = None,
    token: bool = True,
) -> dict[str, Any]:
    kinds = (*refused_for, *_BEFORE, *(("unauthorised",) if token else ()))
    answers: dict[str, Any] = {"200": {"description": "Success.", "content": content}}
    for status, same in groupby(sorted(KINDS[kind] for kind in kinds), lambda kind: kind.status):
        meaning = " ".join(kind.meaning for kind in same)
        answers[str(status)] = {"description": meaning, "content": _json(Failure)}
    found: dict[str, Any] = {"operationId": name, "summary": summary, "responses": answers}
    found["security"] = [{"token": []}] if token else []
    if takes is not None:
        found["requestBody"] = {"required": True, "content": _json(takes)}
    return found


def _json(body: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}


def _schemas() -> dict[str, Any]:
    """Return the schemas of the bodies, with the descriptions from their docstrings."""
    _, found = msgspec.json.schema_components(BODIES, ref_template="#/components/schemas/{name}")
    for body in BODIES:
        text = inspect.getdoc(body) or ""
        schema, meanings = found[body.__name__], arguments_of(text)
        schema["description"] = " ".join(text.partition("\n\n")[0].split())
        for name, each in schema["properties"].items():
            each["description"] = meanings[name]
            # Client generators read a default as "always present".
            each.pop("default", None)
    found["Observe"]["allOf"] = [_one_of("ticket", "event"), _one_of("loss", "reward")]
    found["Failure"]["properties"]["kind"]["enum"] = list(KINDS)
    return found


def _one_of(*names: str) -> dict[str, Any]:
    return {"oneOf": [{"required": [name]} for name in names]}

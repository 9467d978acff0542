"""The service as an OpenAPI 3.1 document: all that a client in another language needs."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fedbandits.common.version import __version__
from fedbandits.live.status import LossWindow, MeanLosses, Status

from .bodies import Choose, Chosen, Health, Observe, Observed
from .refusals import KINDS, Failure

BODIES = (Choose, Chosen, Observe, Observed, Status, MeanLosses, LossWindow, Health, Failure)

_BEFORE = ("cross_site", "misdirected", "too_many", "internal")
"""What every request may be refused for, a look at health left out that is never too many."""

_OF_BODY = ("malformed", "too_large", "content_type")


def document() -> dict[str, Any]:
    """The whole document, as plain data."""
    paths = {
        "/v1/choose": {
            "post": _operation(
                "choose",
                "Draw an arm; it is on disk when this answers.",
                _json(Chosen),
                ("conflict", "refused", "stopped", *_OF_BODY),
                takes=Choose,
            )
        },
        "/v1/observe": {
            "post": _operation(
                "observe",
                "Tell the loss or reward of a choice; it is counted once, however often it is "
                "repeated.",
                _json(Observed),
                ("unknown_ticket", "conflict", "expired", "refused", "stopped", *_OF_BODY),
                takes=Observe,
            )
        },
        "/v1/status": {
            "get": _operation("status", "The agent at this moment.", _json(Status), ("stopped",))
        },
        "/v1/events": {
            "get": _operation(
                "events",
                "The status once a second, as server-sent events named `status`.",
                {"text/event-stream": {"schema": {"type": "string"}}},
                ("stopped",),
            )
        },
        "/metrics": {
            "get": _operation(
                "metrics",
                "The agent and its service in numbers, for Prometheus.",
                {"text/plain": {"schema": {"type": "string"}}},
                (),
            )
        },
        "/healthz": {
            "get": _operation(
                "health",
                "Whether the agent runs and its store works.",
                _json(Health),
                ("stopped",),
                token=False,
            )
        },
        "/openapi.json": {
            "get": _operation(
                "openapi",
                "This document.",
                {"application/json": {"schema": {"type": "object"}}},
                (),
                token=False,
            )
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "A live agent of fedbandits",
            "version": __version__,
            "description": "Ask for an arm, play it, and tell what came of it. Give your own event "
            "id with a choice, and it may be repeated without harm, as an observation may.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
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
    answers: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    for kind in sorted(kinds, key=lambda each: KINDS[each].status):
        status, meaning = KINDS[kind]
        answers[str(status)] = {"description": meaning, "content": _json(Failure)}
    found: dict[str, Any] = {"operationId": name, "summary": summary, "responses": answers}
    found["security"] = [{"token": []}] if token else []
    if takes is not None:
        found["requestBody"] = {"required": True, "content": _json(takes)}
    return found


def _json(body: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}


def _schemas() -> dict[str, Any]:
    """The bodies, with the words of their docstrings."""
    _, found = msgspec.json.schema_components(BODIES, ref_template="#/components/schemas/{name}")
    for schema in found.values():
        text = schema.get("description", "")
        schema["description"] = " ".join(text.partition("\n\n")[0].split())
        for name, meaning in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.MULTILINE):
            if name in schema.get("properties", {}):
                schema["properties"][name]["description"] = " ".join(meaning.split())
    found["Observe"]["allOf"] = [_one_of("ticket", "event"), _one_of("loss", "reward")]
    found["Failure"]["properties"]["kind"]["enum"] = list(KINDS)
    return found


def _one_of(*names: str) -> dict[str, Any]:
    return {"oneOf": [{"required": [name]} for name in names]}

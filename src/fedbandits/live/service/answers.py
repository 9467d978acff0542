"""Bodies read and answers sent, each with the headers that keep browsers from harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .refusals import RefusalError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

BODY_BYTES = 65_536
"""The longest body that is read."""

Headers = list[tuple[bytes, bytes]]

ALWAYS: Headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
JSON: Headers = [(b"content-type", b"application/json"), *ALWAYS]


class GoneError(Exception):
    """The client went away before it had said all; nobody is left to answer."""


def header(scope: Scope, name: bytes) -> bytes:
    """The first header of that name; empty if there is none."""
    return next((value for each, value in scope["headers"] if each == name), b"")


async def read(scope: Scope, receive: Receive) -> bytes:
    """The whole body, which must be declared as JSON, so that no page's form can send one."""
    declared = header(scope, b"content-type").partition(b";")[0].strip().lower()
    if declared != b"application/json":
        raise RefusalError("content_type", "send the header Content-Type: application/json")
    length = header(scope, b"content-length")
    body = b""
    more = True
    while more:
        # What is declared too long is not waited for.
        if len(body) > BODY_BYTES or (length.isdigit() and int(length) > BODY_BYTES):
            raise RefusalError("too_large", f"a body has at most {BODY_BYTES:,} bytes")
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if len(body) > BODY_BYTES:
        raise RefusalError("too_large", f"a body has at most {BODY_BYTES:,} bytes")
    return body


async def answer(send: Send, body: bytes, headers: Headers = JSON, status: int = 200) -> None:
    """Send an answer whole."""
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers + length})
    await send({"type": "http.response.body", "body": body})

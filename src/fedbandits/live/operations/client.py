"""The service of an agent, asked from Python: what `live status` and `live up` use."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit


class ServiceError(OSError):
    """The service answered with an error, or not at all; says which and what to do."""


class Client:
    """One connection to the service of one agent.

    Args:
        url: `http://127.0.0.1:8080` or `https://site3:8443`.
        token: that the service wants to see.
        authority: the file of the authority that signed its certificate; those that the machine
            trusts by default.
        timeout: seconds to wait for an answer.
    """

    def __init__(
        self, url: str, token: str, authority: str | Path | None = None, timeout: float = 10.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a service; one is https://site3:8443")
        self.url = url
        self._token = token
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=authority)
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, parts.port, timeout=timeout
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """GET a path, or POST to it.

        Raises:
            ServiceError: if there is no answer, or an error.
        """
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            self._connection.request(
                "GET" if body is None else "POST",
                path,
                None if body is None else json.dumps(body),
                headers,
            )
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ServiceError(f"no answer from {self.url}: {_why(error)}") from error
        if answer.status != http.client.OK:
            said = f"{self.url}{path} answered {answer.status}: {_told(content)}"
            if answer.status == http.client.UNAUTHORIZED:
                said += " (the one shown is not this agent's)"
            raise ServiceError(said)
        try:
            return json.loads(content)
        except ValueError as error:
            raise ServiceError(f"{self.url}{path} is no service of an agent") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _why(error: Exception) -> str:
    """What went wrong, and what to do where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or str(error)
        return f"its certificate is not believed ({why}); give its authority with --ca ca.pem"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; is the agent running, and is the port right?"
    if isinstance(error, http.client.HTTPException | ssl.SSLError | ConnectionResetError):
        return f"it speaks otherwise ({error}); is it http or https?"
    return str(error)


def _told(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")

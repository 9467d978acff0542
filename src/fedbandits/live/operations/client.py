"""A client of an agent's service, for `live status` and `live up`."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit


class ServiceError(OSError):
    """The service returned an error or no response."""


class Client:
    """One connection to the service of one agent.

    Args:
        url: `http://127.0.0.1:8080` or `https://site3:8443`.
        token: of the service.
        authority: file of the authority that signed its certificate; by default the authorities
            that the machine trusts.
        timeout: seconds to wait for a response.
    """

    def __init__(
        self, url: str, token: str, authority: str | Path | None = None, timeout: float = 10.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{url!r} is not a URL of a service; write one such as https://site3:8443"
            )
        self.url = url
        self._token = token
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=authority)
            self._connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=timeout, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, parts.port, timeout=timeout
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the response to a GET request, or with a body to a POST request.

        Raises:
            ServiceError: if there is no response, or an error.
        """
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            received = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ServiceError(f"no answer from {self.url}: {_reason(error)}") from error
        if response.status != http.client.OK:
            what = f"{self.url}{path} answered {response.status}: {_error_in(received)}"
            if response.status == http.client.UNAUTHORIZED:
                what += " (the token given is of another service)"
            raise ServiceError(what)
        try:
            return json.loads(received)
        except ValueError as error:
            raise ServiceError(f"{self.url}{path} is not the service of an agent") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _reason(error: Exception) -> str:
    """Return what failed, and a remedy for the usual causes."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or str(error)
        return f"its certificate is not trusted ({why}); give its authority with --ca ca.pem"
    if isinstance(error, ConnectionRefusedError):
        return "no program listens there; is the agent running, and is the port right?"
    if isinstance(error, http.client.HTTPException | ssl.SSLError | ConnectionResetError):
        return f"it uses another protocol ({error}); is it http or https?"
    return str(error)


def _error_in(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")

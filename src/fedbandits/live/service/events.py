"""The status of an agent as server-sent events, once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fedbandits.live.agent.group_commit import StoppedError

from .bodies import ALWAYS, encode, respond
from .refusals import RefusalError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LISTENERS = 32
"""The largest number of listeners."""

PERIOD = 1.0
"""Seconds between two events."""

PATIENCE = 5.0
"""Seconds until a listener that does not read is dropped."""


class EventStream:
    """The path of the events, and its listeners.

    Args:
        status: returns the status to send.
    """

    def __init__(self, status: Callable[[], Any]) -> None:
        self._status = status
        self._most = LISTENERS
        self._period = PERIOD
        self._patience = PATIENCE
        self._ended = asyncio.Event()
        self.listening = 0
        self.dropped = 0

    def end(self) -> None:
        """End the streams of all listeners."""
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the listener leaves or falls behind, or the agent stops."""
        if self.listening >= self._most:
            raise RefusalError(
                "too_many", f"{self._most} clients listen already, which is the limit"
            )
        event = self._event()  # raises if the agent does not run
        headers = [(b"content-type", b"text/event-stream"), *ALWAYS]
        if scope["method"] == "HEAD":
            await respond(send, b"", headers)
            return
        self.listening += 1
        scope["state"]["streams"] = True
        leaves = asyncio.ensure_future(_disconnected(receive))
        ends = asyncio.ensure_future(self._ended.wait())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while True:
                async with asyncio.timeout(self._patience):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                await asyncio.wait(
                    [leaves, ends], timeout=self._period, return_when=asyncio.FIRST_COMPLETED
                )
                if leaves.done():
                    return
                if ends.done():
                    break
                event = self._event()
        except StoppedError:
            pass
        except TimeoutError:
            self.dropped += 1
            scope["state"]["cut"]()
            return
        finally:
            self.listening -= 1
            for task in (leaves, ends):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await send({"type": "http.response.body", "body": b""})

    def _event(self) -> bytes:
        return b"event: status\ndata: %b\n\n" % encode(self._status())


async def _disconnected(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass

"""The agent's status as server-sent events, once a second, for those who keep up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from fedbandits.live.agent.group_commit import StoppedError

from .answers import ALWAYS, answer
from .bodies import encode
from .refusals import RefusalError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LISTENERS = 32
"""At most; the next one is refused."""

PERIOD = 1.0
"""Seconds between two events."""

PATIENCE = 5.0
"""Seconds that a listener may take to make room for an event; then it is dropped."""


class Tells(Protocol):
    """An agent, or whatever else has a status."""

    def status(self) -> Any:
        """What is told."""


class Events:
    """Everyone who listens.

    Args:
        source: whose status is told.
        listeners: at most.
        period: seconds between two events.
        patience: seconds until one who does not read is dropped.
    """

    def __init__(
        self,
        source: Tells,
        listeners: int = LISTENERS,
        period: float = PERIOD,
        patience: float = PATIENCE,
    ) -> None:
        self._source = source
        self._most = listeners
        self._period = period
        self._patience = patience
        self._ended = asyncio.Event()
        self.listening = 0
        self.dropped = 0

    def end(self) -> None:
        """Let all go."""
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One listener, until it goes, falls behind, or the agent stops."""
        if self.listening >= self._most:
            raise RefusalError("too_many", f"{self._most} listen already, and no more may")
        event = self._event()  # of an agent that runs
        headers = [(b"content-type", b"text/event-stream"), *ALWAYS]
        if scope["method"] == "HEAD":
            await answer(send, b"", headers)
            return
        self.listening += 1
        scope["state"]["streams"] = True
        leaves = asyncio.ensure_future(_gone(receive))
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
        return b"event: status\ndata: %b\n\n" % encode(self._source.status())


async def _gone(receive: Receive) -> None:
    """Returns when the client is away."""
    while (await receive())["type"] != "http.disconnect":
        pass

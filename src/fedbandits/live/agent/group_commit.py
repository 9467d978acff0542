"""Group commit: pending changes are written together, before callers return and messages go out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.protocol.records import Changes, Identity, SavedAgent

_log = limited_logger("fedbandits.live")


class Store(Protocol):
    """The durable memory of an agent; `Journal` is one."""

    async def open(self, identity: Identity, seed: bytes | None = None) -> SavedAgent:
        """Return the saved agent, or a new one."""

    async def write(self, changes: Changes) -> None:
        """Write all changes or none; they are durable when this returns."""

    async def close(self) -> None:
        """Release the store."""


class StoppedError(RuntimeError):
    """A call to an agent that does not run, or that stopped because its store failed."""


class GroupCommit:
    """A task that writes one batch of changes after another, until `end`.

    Args:
        name: the name of the agent.
        changes: returns the changes since its last call.
        store: where to write them.
        send: passes a message to the transport.
    """

    def __init__(
        self,
        name: str,
        changes: Callable[[], Changes],
        store: Store,
        send: Callable[[str, bytes], None],
    ) -> None:
        self.failure: BaseException | None = None
        self._name = name
        self._changes = changes
        self._store = store
        self._send = send
        self._pending = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        # The newest message to each neighbour is enough, because messages hold states.
        self._outbox: dict[str, bytes] = {}
        self._task = asyncio.get_running_loop().create_task(self._run())

    def post(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Send messages after the next commit."""
        self._outbox.update(messages)
        self._pending.set()

    async def saved(self) -> None:
        """Wait until all changes so far are on disk. Concurrent callers share a commit."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._pending.set()
        await future

    async def end(self) -> None:
        """Stop at once. A pending write may or may not succeed; its callers get an error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._reject(self._waiting, f"{self._name} stopped before this was saved; repeat it")
        self._waiting, self._outbox = [], {}

    def fail(self, error: BaseException, waiting: Iterable[asyncio.Future[None]] = ()) -> None:
        """Stop after an error: memory is ahead of the disk, so nothing may be returned or sent."""
        _log.error("%s stops: %s", self._name, error)
        self.failure = error
        why = f"{self._name} could not save this: {error}; it is not counted"
        self._reject([*waiting, *self._waiting], why)
        self._waiting, self._outbox = [], {}

    async def _run(self) -> None:
        while True:
            await self._pending.wait()
            self._pending.clear()
            waiting, self._waiting = self._waiting, []
            outbox, self._outbox = self._outbox, {}
            try:
                if changes := self._changes():
                    await self._store.write(changes)
            except asyncio.CancelledError:
                self._waiting += waiting
                raise
            except Exception as error:
                self.fail(error, waiting)
                return
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            for to, message in outbox.items():
                self._send(to, message)

    def _reject(self, waiting: Iterable[asyncio.Future[None]], why: str) -> None:
        for future in waiting:
            if not future.done():
                future.set_exception(StoppedError(why))

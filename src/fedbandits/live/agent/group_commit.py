"""Group commit: what has gathered is written at once; then callers are told and messages go out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from fedbandits.common.log_limit import limited_logger
from fedbandits.live.protocol.records import Changes, Identity, Saved

_log = limited_logger("fedbandits.live")


class Store(Protocol):
    """Where an agent keeps what it must not lose; `Journal` is one."""

    async def open(self, identity: Identity, seed: bytes | None = None) -> Saved:
        """What is there, or a beginning."""

    async def write(self, changes: Changes) -> None:
        """All of it or nothing; it is safe when this returns."""

    async def close(self) -> None:
        """Let others have it."""


class StoppedError(RuntimeError):
    """The agent is not running, or stopped because its store failed."""


class GroupCommit:
    """Writes in a task of its own, one batch after another, until `end`.

    Args:
        name: of the agent.
        changes: gives what is to be written, and begins anew.
        store: where to.
        send: hands a message to the transport.
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
        # The newest for each neighbour: messages hold states, so that older ones are of no use.
        self._outbox: dict[str, bytes] = {}
        self._task = asyncio.get_running_loop().create_task(self._run())

    def post(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Send these after the next commit."""
        self._outbox.update(messages)
        self._pending.set()

    async def saved(self) -> None:
        """Wait until everything so far is on disk; concurrent callers share a commit."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._pending.set()
        await future

    async def end(self) -> None:
        """Stop at once: what is under way is done or not, and nobody is told."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._refuse(self._waiting, f"{self._name} stopped before this was saved; repeat it")
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

    def fail(self, error: BaseException, waiting: Iterable[asyncio.Future[None]] = ()) -> None:
        """What is in memory is ahead of the disk: nothing may be told or sent any more."""
        _log.error("%s stops: %s", self._name, error)
        self.failure = error
        words = f"{self._name} could not save this: {error}; it is not counted"
        self._refuse([*waiting, *self._waiting], words)
        self._waiting, self._outbox = [], {}

    def _refuse(self, waiting: Iterable[asyncio.Future[None]], words: str) -> None:
        for future in waiting:
            if not future.done():
                future.set_exception(StoppedError(words))

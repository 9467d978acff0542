"""Ctrl-C and SIGTERM: noted, and acted on where work can stop, so that none is lost.

If a signal handler raises inside a destructor or the callback of a weak reference, Python prints
and drops the error; JAX has many of both while it traces and compiles. So a handler here notes the
signal, and work checks the note between its steps.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TypeAlias

TOGETHER = 0.5
"""Seconds within which signals count as one: `timeout` sends each of them twice."""

_Handler: TypeAlias = Callable[[int, FrameType | None], None]


class _Note:
    """The signal that was received.

    Attributes:
        signal: the first signal that came.
        when: its time.
        calm: number of nested blocks of `calm`.
    """

    signal: int | None = None
    when = 0.0
    calm = 0


_note: _Note | None = None  # of the main thread, which alone handles signals


def requested() -> bool:
    """Return whether the work in this thread shall stop."""
    return _is_main() and _note is not None and _note.signal is not None


def stop_if_requested(message: str = "stopped") -> None:
    """Raise KeyboardInterrupt if a signal has requested it."""
    if requested():
        raise KeyboardInterrupt(message)


def exit_status() -> int:
    """Return the exit status of a stopped command: that of a shell for a killed one."""
    return 128 + ((_note and _note.signal) or signal.SIGINT)


@contextmanager
def calm() -> Iterator[None]:
    """Defer the first signal to `stop_if_requested`, at the latest to the end of the block.

    In a `command` a second signal ends the process at once. Elsewhere only Ctrl-C is waited for,
    and the second does what it always does. In other threads than the main one nothing changes.
    """
    if not _is_main():
        yield
        return
    with _once() if _note is None else nullcontext(_note) as note:
        stop_if_requested()
        note.calm += 1
        try:
            yield
        finally:
            note.calm -= 1
    if note.signal is not None and not note.calm:
        raise KeyboardInterrupt("stopped")


@contextmanager
def command() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C and SIGTERM, in `calm` deferred, within a command.

    A second signal ends the process there and then, so that no code can swallow it.
    """
    if not _is_main():
        yield
        return
    note = _Note()

    def handle(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
        now = time.monotonic()
        if note.signal is None:
            note.signal, note.when = signum, now
            if not note.calm:
                raise KeyboardInterrupt
        elif now - note.when >= TOGETHER:
            _end(signum)

    with _listening({signal.SIGINT: handle, signal.SIGTERM: handle}, note):
        yield


@contextmanager
def _once() -> Iterator[_Note]:
    """Note the first Ctrl-C; pass the second to the previous handler."""
    note, previous = _Note(), signal.getsignal(signal.SIGINT)

    def handle(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
        note.signal = signum
        signal.signal(signum, previous)

    with _listening({signal.SIGINT: handle}, note):
        yield note


@contextmanager
def _listening(handlers: Mapping[signal.Signals, _Handler], note: _Note) -> Iterator[None]:
    """Handle these signals, except ignored ones, as in background jobs of a script."""
    global _note
    before, previous = _note, {each: signal.getsignal(each) for each in handlers}
    taken = [each for each in handlers if previous[each] not in (signal.SIG_IGN, None)]
    try:
        _note = note
        for each in taken:
            signal.signal(each, handlers[each])
        yield
    finally:
        _note = before
        for each in taken:
            signal.signal(each, previous[each])


def _end(signum: int) -> None:
    """End the process now, with a cursor on the terminal if a progress bar had hidden it."""
    shown = b"\x1b[?25h\n" if os.isatty(2) else b""
    os.write(2, shown + b"stopped at once\n")
    os._exit(128 + signum)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()

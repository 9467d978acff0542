"""The command `fedbandits`, and `python -m fedbandits`."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line.

    Loading it takes a moment, in which Ctrl-C would print a traceback. From the first command on,
    `common.interrupts` handles signals.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    from fedbandits.cli.commands import app

    app(prog_name="fedbandits")


def _stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os.write(2, b"stopped\n")
    os._exit(128 + signum)


if __name__ == "__main__":
    main()

"""Ports of this machine that others are to listen on, and that nobody takes before they do."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def held_ports(number: int) -> Iterator[list[int]]:
    """Ports of the loopback address that nobody has, all different.

    On Linux they stay bound as long as the block lasts, and nobody listens: the system gives them
    to nobody who asks for any port, and whoever asks for one of them by its number, and lets it be
    reused as servers do, gets it. Elsewhere a bound port is nobody else's, and is let go at once.

    Args:
        number: how many.

    Returns:
        The ports, for the block.

    Example:
        >>> with held_ports(1) as [port], socket.create_server(("127.0.0.1", port)) as server:
        ...     server.getsockname()[1] == port
        True
    """
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
        if sys.platform != "linux":
            held.close()
        yield ports

"""Ports that are kept for whoever is to listen on them."""

from __future__ import annotations

import errno
import socket
import sys

import pytest

from fedbandits.live.operations.local_cluster import reserved_ports


def test_whoever_is_meant_gets_it_again_and_again() -> None:
    with reserved_ports(3) as ports:
        assert len(set(ports)) == 3
        for port in [*ports, *ports]:  # also one who was killed, and comes back
            with (
                socket.create_server(("127.0.0.1", port)) as server,
                socket.create_connection(("127.0.0.1", port)) as client,
            ):
                met, who = server.accept()
                met.close()
                assert who == client.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]))


@pytest.mark.skipif(sys.platform != "linux", reason="a bound port is nobody else's there")
def test_nobody_else_gets_it_until_the_end() -> None:
    with reserved_ports(1) as [port], socket.socket() as other:
        with pytest.raises(OSError, match="in use") as refused:
            other.bind(("127.0.0.1", port))
        assert refused.value.errno == errno.EADDRINUSE
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))

"""What a link does that a test has cut, filled with silence or slowed down."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.live.links import WAIT

from .forwarder import Forwarder, Forwarders


@contextmanager
def echo() -> Iterator[str]:
    """A server that answers with what it hears; its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)

    def run() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def connected(link: Forwarder) -> socket.socket:
    host, _, port = link.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=WAIT)


def said(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return connection.recv(100)


def is_broken(connection: socket.socket) -> bool:
    try:
        return said(connection, b"?") == b""
    except ConnectionError:
        return True


@pytest.fixture
def links() -> Iterator[tuple[Forwarders, Forwarder]]:
    with echo() as server, Forwarders() as made:
        yield made, made.make(server)


Made = tuple[Forwarders, Forwarder]


def test_a_cut_breaks_old_and_new_connections(links: Made) -> None:
    made, link = links
    with connected(link) as client:
        assert said(client, b"hello") == b"hello"
        made.tell(Forwarder.cut, [link])
        assert is_broken(client)
    with connected(link) as client:
        assert is_broken(client)
    made.tell(Forwarder.heal, [link])
    with connected(link) as client:
        assert said(client, b"again") == b"again"


def test_a_black_hole_is_silent_and_keeps_unread_bytes(links: Made) -> None:
    made, link = links
    with connected(link) as before, connected(link) as closed:
        assert said(before, b"hello") == b"hello"
        made.tell(Forwarder.black_hole, [link])
        closed.close()
        with connected(link) as during:
            for client in (before, during):
                client.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    said(client, b"late")
            made.tell(Forwarder.heal, [link])
            for client in (before, during):
                client.settimeout(WAIT)
                assert client.recv(100) == b"late"


def test_a_forgotten_connection_stays_silent_and_a_new_one_works(links: Made) -> None:
    made, link = links
    with connected(link) as before:
        assert said(before, b"hello") == b"hello"
        made.tell(Forwarder.forget, [link])
        with connected(link) as after:
            assert said(after, b"hello") == b"hello"
        made.tell(Forwarder.heal, [link])
        before.settimeout(0.2)
        with pytest.raises(TimeoutError):
            said(before, b"lost")


def test_a_slow_link_delays(links: Made) -> None:
    made, link = links
    with connected(link) as client:
        made.tell(lambda each: each.slow(0.1), [link])
        began = time.monotonic()
        assert said(client, b"hello") == b"hello"
        assert time.monotonic() - began >= 0.2  # there and back

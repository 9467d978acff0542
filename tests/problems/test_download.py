"""Downloads from a server on this machine: whole, broken off, gone on with, damaged, refused."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedbandits.data import download as module
from fedbandits.data.download import download


def archive(seed: int = 0, size: int = 300_000) -> bytes:
    """A zip whose one member does not shrink."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("ml-1m/ratings.dat", np.random.default_rng(seed).bytes(size))
    return stream.getvalue()


class Server(ThreadingHTTPServer):
    """One release, and what to do wrong with it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server_address[1]}"
        self.data = archive()
        self.md5: str | None = f"{hashlib.md5(self.data).hexdigest()}  ml-1m.zip\n"
        self.marks = {"ETag": '"one"'}
        self.ranges = True
        self.drop_after: int | None = None
        self.hang = False
        self.over = threading.Event()
        self.status = 200
        self.asked: list[tuple[str, str | None]] = []  # path and range of every request

    @property
    def zips(self) -> list[str | None]:
        """The range asked for in every request for the zip."""
        return [asked for path, asked in self.asked if path.endswith(".zip")]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range")
        server.asked.append((self.path, asked))
        if self.path == "/ml-1m.zip.md5" and server.md5 is not None:
            self.answer(200, server.md5.encode(), {})
        elif self.path != "/ml-1m.zip":
            self.answer(404, b"<html>no</html>", {})
        elif server.status != 200:
            self.answer(server.status, b"<html>no</html>", {})
        elif asked and server.ranges and self.headers["If-Range"] in server.marks.values():
            first, total = int(asked.removeprefix("bytes=").rstrip("-")), len(server.data)
            if first >= total:
                self.answer(416, b"", {"Content-Range": f"bytes */{total}"})
            else:
                span = {"Content-Range": f"bytes {first}-{total - 1}/{total}"}
                self.answer(206, server.data[first:], server.marks | span)
        else:
            self.answer(200, server.data, server.marks)

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if status in (200, 206) and self.path.endswith(".zip"):
            body = body[: self.server.drop_after]
        self.wfile.write(body)
        self.wfile.flush()
        if self.server.hang and self.path.endswith(".zip"):
            self.server.over.wait()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fedbandits")


def whole(server: Server, folder: Path) -> None:
    """A download that ends well, and leaves the zip alone in the folder."""
    target = download("ml-1m", folder, base=server.base)
    assert target == folder / "ml-1m.zip"
    assert target.read_bytes() == server.data
    assert [entry.name for entry in folder.iterdir()] == ["ml-1m.zip"]


def broken_off(server: Server, folder: Path, after: int = 100_000) -> None:
    server.drop_after = after
    with pytest.raises(ConnectionError, match=r"0\.1 MB are kept; the same command goes on"):
        download("ml-1m", folder, base=server.base)
    server.drop_after = None
    assert (folder / "ml-1m.zip.part").read_bytes() == server.data[:after]
    assert not (folder / "ml-1m.zip").exists()


@pytest.mark.parametrize("form", ["{}  ml-1m.zip\n", "MD5 (ml-1m.zip) = {}\n"])
def test_a_release_arrives_whole(form: str, server: Server, tmp_path: Path) -> None:
    server.md5 = form.format(hashlib.md5(server.data).hexdigest().upper())
    whole(server, tmp_path / "new" / "folder")
    assert server.asked == [("/ml-1m.zip", None), ("/ml-1m.zip.md5", None)]


def test_what_is_there_is_not_asked_for(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ml-1m.zip").write_bytes(server.data)
    whole(server, tmp_path)
    assert server.asked == []
    assert "ml-1m.zip is already there" in caplog.text


def test_a_broken_zip_of_that_name_is_left_to_its_owner(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip").write_bytes(server.data[:1000])
    with pytest.raises(ValueError, match=r"ml-1m\.zip is not a whole zip file; remove it"):
        download("ml-1m", tmp_path, base=server.base)
    assert (tmp_path / "ml-1m.zip").stat().st_size == 1000


@pytest.mark.parametrize(
    "marks",
    [
        {"ETag": '"one"'},
        {"Last-Modified": "Mon, 17 Oct 2016 10:00:00 GMT"},
        {"ETag": 'W/"one"', "Last-Modified": "Mon, 17 Oct 2016 10:00:00 GMT"},
    ],
)
def test_a_download_goes_on_where_it_broke_off(
    marks: dict[str, str], server: Server, tmp_path: Path
) -> None:
    server.marks = marks
    broken_off(server, tmp_path)
    whole(server, tmp_path)
    assert server.zips == [None, "bytes=100000-"]


def test_it_may_break_off_more_than_once(server: Server, tmp_path: Path) -> None:
    broken_off(server, tmp_path)
    server.drop_after = 50_000
    with pytest.raises(ConnectionError, match="ended after 150000 of 300"):
        download("ml-1m", tmp_path, base=server.base)
    server.drop_after = None
    whole(server, tmp_path)
    assert server.zips == [None, "bytes=100000-", "bytes=150000-"]


def test_a_server_without_ranges_starts_anew(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    broken_off(server, tmp_path)
    whole(server, tmp_path)
    assert server.zips == [None, "bytes=100000-"]


def test_a_changed_file_starts_anew(server: Server, tmp_path: Path) -> None:
    broken_off(server, tmp_path)
    server.data, server.marks = archive(seed=1), {"ETag": '"two"'}
    server.md5 = hashlib.md5(server.data).hexdigest()
    whole(server, tmp_path)
    assert server.zips == [None, "bytes=100000-"]


def test_without_a_mark_of_the_version_nothing_is_kept(server: Server, tmp_path: Path) -> None:
    server.marks, server.drop_after = {}, 100_000
    with pytest.raises(ConnectionError, match="nothing is kept"):
        download("ml-1m", tmp_path, base=server.base)
    server.drop_after = None
    whole(server, tmp_path)
    assert server.zips == [None, None]


def test_a_part_that_is_whole_is_only_checked(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip.part").write_bytes(server.data)
    (tmp_path / "ml-1m.zip.part.version").write_text('"one"')
    whole(server, tmp_path)
    assert server.zips == [f"bytes={len(server.data)}-"]


def test_a_part_longer_than_the_file_starts_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip.part").write_bytes(server.data + b"more")
    (tmp_path / "ml-1m.zip.part.version").write_text('"one"')
    whole(server, tmp_path)
    assert server.zips == [f"bytes={len(server.data) + 4}-", None]


def test_a_wrong_checksum_removes_what_arrived(server: Server, tmp_path: Path) -> None:
    server.md5 = f"{'0' * 32}  ml-1m.zip"
    with pytest.raises(
        ConnectionError, match=r"ml-1m\.zip has the MD5 \w+, not 0{32} .*removed.*--data FILE"
    ):
        download("ml-1m", tmp_path, base=server.base)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("md5", [None, "<html>none here</html>"])
def test_without_a_checksum_every_member_is_tested(
    md5: str | None, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.md5 = md5
    whole(server, tmp_path)
    assert "No checksum is published" in caplog.text
    assert hashlib.sha256(server.data).hexdigest() in caplog.text


@pytest.mark.parametrize(
    ("fault", "message"),
    [("member", r"damaged member, ml-1m/ratings\.dat"), ("page", "is not a whole zip file")],
)
def test_without_a_checksum_damage_is_found(
    fault: str, message: str, server: Server, tmp_path: Path
) -> None:
    server.md5 = None
    bad = server.data[:1000] + b"damage" + server.data[1006:]
    server.data = bad if fault == "member" else b"<html>please log in</html>"
    with pytest.raises(ConnectionError, match=message + ".*removed"):
        download("ml-1m", tmp_path, base=server.base)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [404, 503])
def test_a_server_that_refuses_is_named(status: int, server: Server, tmp_path: Path) -> None:
    server.status = status
    with pytest.raises(
        ConnectionError, match=rf"{server.base}/ml-1m\.zip: answered {status} .*--data FILE"
    ):
        download("ml-1m", tmp_path, base=server.base)


def test_a_refused_connection_keeps_what_there_is(server: Server, tmp_path: Path) -> None:
    broken_off(server, tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but nobody listens
        base = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=r"\(Connection refused\); the first 0\.1 MB"):
            download("ml-1m", tmp_path, base=base)
    whole(server, tmp_path)
    assert server.zips[-1] == "bytes=100000-"


def test_a_name_that_is_not_found(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", offline)
    with pytest.raises(
        ConnectionError, match=r"ml-1m\.zip: no connection \(Name or service not known\); nothing"
    ):
        download("ml-1m", tmp_path)


def test_a_silent_server_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patience ends as soon as the first piece is there, however slow this machine is."""
    original = module._Transfer._pieces

    def impatient(self: Any, response: Any) -> Iterator[bytes]:
        for piece in original(self, response):
            response.fp.raw._sock.settimeout(0.01)
            yield piece

    monkeypatch.setattr(module._Transfer, "_pieces", impatient)
    server.drop_after, server.hang = module.BYTES_AT_ONCE, True
    with pytest.raises(ConnectionError, match=r"no answer for 30 seconds; the first 0\.3 MB"):
        download("ml-1m", tmp_path, base=server.base)


def test_a_full_disk_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module._Transfer, "_receive", full)
    with pytest.raises(OSError, match=r"\(No space left on device\); make room there") as caught:
        download("ml-1m", tmp_path, base=server.base)
    assert not isinstance(caught.value, ConnectionError)


def test_a_folder_that_is_a_file_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"file cannot be written to \(File exists\)"):
        download("ml-1m", tmp_path / "file", base=server.base)


@pytest.mark.parametrize(
    ("name", "message"),
    [("ML-1M", "did you mean 'ml-1m'"), ("netflix", r"'netflix'\. Valid: ml-latest, .*ml-1m")],
)
def test_an_unknown_release_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        download(name, tmp_path)


def test_the_bar_goes_to_stderr(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download("ml-1m", tmp_path, base=server.base, progress=True)
    shown = capsys.readouterr()
    assert "ml-1m" in shown.err
    assert shown.out == ""

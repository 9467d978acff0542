"""`fedbandits live show`: what stands in a journal, for people and for machines."""

import json
import re
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import fedbandits as fb
from fedbandits.cli.commands import app
from fedbandits.live import Federation, write_keys
from fedbandits.live.journal import read_journal
from fedbandits.live.journal.summary import leaf_values, summary
from fedbandits.live.service.certificate import hosts_of_certificate
from tests.live.journals import SEED, member, opened, play, played_journal
from tests.without import OPTIONAL, run_without


def call(*args: str | Path) -> Result:
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner(env=plain).invoke(app, [str(arg) for arg in args])


def test_show(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    player = played_journal(path)
    done = call("live", "show", path)
    assert done.exit_code == 0, done.stderr
    life = read_journal(path).saved.life
    assert done.stdout.startswith(f"shop3 (life {life}, not open): FedExp3(")
    assert "40 choices: 32 observed, 0 expired, 8 open\n" in done.stdout
    for arm, z in zip(player.arms, player.ledger.values["z"], strict=True):
        assert re.search(rf"{arm} +{z:.6g}\s", done.stdout)
    p = np.frombuffer(read_journal(path).saved.tickets[4].p)
    ticket = read_journal(path).saved.tickets[4]
    assert re.search(rf"{life}-5 +{player.arms[ticket.arm]} +{p[ticket.arm]:.4g} ", done.stdout)
    edge = player.ledger.edges["shop4"]
    incarnations = f"{edge.incarnation} +{edge.neighbour_incarnation}"
    row = f"shop4 +{incarnations} +1 +{np.abs(edge.flow['z']).max():.6g}"
    assert re.search(row, done.stdout)
    assert SEED.hex() not in done.stdout


def test_names_of_arms_are_text_and_no_markup(tmp_path: Path) -> None:
    """The federation's file names the arms, and brackets in it are brackets."""
    path = tmp_path / "shop.db"
    shop = Federation(["[/b] tea", "[red]coffee[/red]"], fb.networks.path(1))
    with fb.live.Agent("agent1", shop, path) as agent:
        agent.choose()
    done = call("live", "show", path)
    assert done.exit_code == 0, done.exception
    assert "[/b] tea " in done.stdout
    assert "[red]coffee[/red] " in done.stdout


def test_show_for_machines(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    player = played_journal(path, rounds=150)
    before = path.read_bytes()
    said = json.loads(call("live", "show", path, "--json").stdout)
    assert said["agent"] == "shop3"
    assert said["algorithm"]["name"] == "FedExp3"
    assert said["arms"] == ["tea", "coffee", "cocoa"]
    assert (said["rounds"], said["observed"], said["expired"]) == (150, 120, 0)
    assert [ticket["id"][9:] for ticket in said["open"]] == [str(5 * i) for i in range(1, 31)]
    assert said["open"][0]["age"] == pytest.approx(time.time() - 104, abs=60)
    assert said["values"]["z"] == player.ledger.values["z"].tolist()
    assert said["edges"]["shop4"]["sequence"] == 1
    assert said["process"] is None
    assert "seed" not in said
    # People see the first 20 tickets and how many there are.
    assert "the first 20 of 30 open tickets; --json has all" in call("live", "show", path).stdout
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["shop3.db", "shop3.db.lock"]


def test_show_while_the_agent_runs(tmp_path: Path) -> None:
    path = tmp_path / "shop3.db"
    with opened(path) as kept:
        assert "0 choices: 0 observed, 0 expired, 0 open" in call("live", "show", path).stdout
        player = member(kept.saved)
        for rounds in (10, 20):
            play(player, 10)
            kept.write(player.changes())
            done = call("live", "show", path)
            assert f"{rounds} choices: " in done.stdout
            assert "opened by process" in done.stdout


def test_leaves_are_what_the_ledger_has(tmp_path: Path) -> None:
    player = played_journal(tmp_path / "shop3.db")
    content = read_journal(tmp_path / "shop3.db")
    assert (leaf_values(content.saved)["z"] == player.ledger.values["z"]).all()
    assert [ticket.age for ticket in summary(content, now=204.0).open][:2] == [100.0, 95.0]


def test_what_cannot_be_shown(tmp_path: Path) -> None:
    done = call("live", "show", tmp_path / "no.db")
    assert done.exit_code == 2
    assert f"{tmp_path / 'no.db'} cannot be opened (No such file" in done.stderr
    (tmp_path / "text").write_text("tea")
    assert "not the journal of an agent" in call("live", "show", tmp_path / "text").stderr


@pytest.mark.slow
def test_show_with_the_base_install(tmp_path: Path) -> None:
    played_journal(tmp_path / "shop3.db")
    (tmp_path / "links").mkdir()
    words: list[str | Path] = ["-m", "fedbandits", "live", "show", tmp_path / "shop3.db"]
    done = run_without(OPTIONAL, tmp_path / "links", words)
    assert done.returncode == 0, done.stderr
    assert "40 choices" in done.stdout


def test_status_without_an_answer_is_one_line(tmp_path: Path) -> None:
    """Nobody there, a wrong token, a wrong host, another protocol: said, without a traceback."""
    (tmp_path / "token").write_text("not it")
    with answering(401, {"error": "show the token: Authorization: Bearer <token>"}) as port:
        said = {
            f"http://127.0.0.1:{port}": "(the token given is of another service)",
            f"https://127.0.0.1:{port}": "is it http or https?",
            f"http://127.0.0.1:{free_port()}": "no program listens there; is the agent running",
            "http://nowhere.invalid:8080": "no answer from http://nowhere.invalid:8080: ",
            "127.0.0.1:8080": "is not a URL of a service",
        }
        for url, words in said.items():
            done = call("live", "status", url, "--token", tmp_path / "token")
            assert done.exit_code == 2, url
            assert isinstance(done.exception, SystemExit), url
            assert done.stderr.startswith("error: "), url
            assert done.stderr.count("\n") == 1, url
            assert words in done.stderr
    with answering(200, None) as port:
        done = call("live", "status", f"http://127.0.0.1:{port}", "--token", tmp_path / "token")
        assert "is not the service of an agent" in done.stderr
    write_keys(Federation(["tea", "coffee"], fb.networks.path(1)), tmp_path / "keys")
    with answering(200, {}, tmp_path / "keys" / "agent1") as port:
        done = call("live", "status", f"https://127.0.0.1:{port}", "--token", tmp_path / "token")
        assert "its certificate is not trusted" in done.stderr
        assert "give its authority with --ca ca.pem" in done.stderr


class TestHostsInCertificates:
    """Names and addresses of a member besides that in the federation's file."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "federation.toml"
        path.write_text(
            'arms = ["tea", "coffee"]\nmembers = ["north", "south"]\nlinks = [["north", "south"]]\n'
            '[addresses]\nnorth = "north.example.org:7447"\n'
        )
        return path

    def keys(self, file: Path, *options: str) -> Result:
        return call("live", "keys", file, "--out", file.parent / "keys", *options)

    def hosts(self, file: Path, name: str) -> set[str]:
        return hosts_of_certificate((file.parent / "keys" / name / "cert.pem").read_bytes())

    def test_they_are_given_by_a_repeated_option_and_renewal_keeps_them(self, file: Path) -> None:
        made = self.keys(
            file, "--host", "north=bandits.example.org", "--host", "north=192.0.2.7",
            "--host", "south=10.0.0.8",
        )  # fmt: skip
        assert made.exit_code == 0, made.stderr
        north = {"north", "north.example.org", "bandits.example.org", "192.0.2.7"}
        assert self.hosts(file, "north") == north
        assert self.hosts(file, "south") == {"south", "10.0.0.8"}
        assert self.keys(file, "--renew", "north").exit_code == 0
        assert self.hosts(file, "north") == north
        more = self.keys(file, "--renew", "north", "--host", "north=2001:db8::7")
        assert more.exit_code == 0, more.stderr
        assert self.hosts(file, "north") == north | {"2001:db8::7"}
        assert self.keys(file, "--renew", "south").exit_code == 0
        assert self.hosts(file, "south") == {"south", "10.0.0.8"}

    def test_a_renewal_adds_a_new_address_of_the_file(self, file: Path) -> None:
        self.keys(file, "--host", "north=192.0.2.7")
        file.write_text(file.read_text().replace("north.example.org", "north.example.net"))
        self.keys(file, "--renew", "north")
        old_and_new = {"north.example.org", "north.example.net"}
        assert self.hosts(file, "north") == {"north", "192.0.2.7"} | old_and_new

    def test_a_new_member_has_them_too(self, file: Path) -> None:
        self.keys(file)
        shutil.rmtree(file.parent / "keys" / "south")
        added = self.keys(file, "--add", "south", "--host", "south=probe.example.org")
        assert added.exit_code == 0, added.stderr
        assert self.hosts(file, "south") == {"south", "probe.example.org"}

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ("nroth=192.0.2.7", "no member 'nroth'; did you mean 'north'?"),
            ("192.0.2.7", "--host 192.0.2.7: write MEMBER=HOST, for example north=192.0.2.7"),
            ("north=192.0.2.7:80", "without port"),
            ("north=", "not a host"),
        ],
    )
    def test_mistakes(self, file: Path, given: str, words: str) -> None:
        made = self.keys(file, "--host", given)
        assert made.exit_code != 0
        assert words in " ".join(made.stderr.split())
        assert not (file.parent / "keys").exists()

    def test_a_host_of_another_member_than_the_renewed_one(self, file: Path) -> None:
        self.keys(file)
        made = self.keys(file, "--renew", "north", "--host", "south=192.0.2.7")
        assert made.exit_code != 0
        assert "--host south=192.0.2.7: only north gets a certificate" in made.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def answering(status: int, body: object, keys: Path | None = None) -> Iterator[int]:
    """A server that gives this answer; None is a page of its own. Gives its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>" if body is None else json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if keys is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""The files in deploy/ and the operations page name commands, metrics and limits that exist."""

from __future__ import annotations

import asyncio
import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import fedbandits as fb
from fedbandits.cli import app
from fedbandits.live import Agent, Federation
from fedbandits.live.federation import federation_file
from fedbandits.live.operations.site import read_site
from fedbandits.live.protocol import tickets
from fedbandits.live.rehearsal.memory import MemoryNetwork, MemoryStore
from fedbandits.live.service import bodies, connection, guard
from fedbandits.live.service.events import EventStream
from fedbandits.live.service.metrics import Metrics
from fedbandits.live.transport import inbox, link, listener, tls_transport
from fedbandits.live.transport.certificate_expiry import Expiries

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SITES = ("north", "east", "south", "west")

METRIC = r"\bfedbandits_\w+"


def reported() -> set[str]:
    """Return the names of all metrics, without the suffixes of histograms and summaries."""

    async def text(epsilon: float | None) -> str:
        shops = Federation(["tea", "coffee"], fb.networks.path(2))
        transport = MemoryNetwork().transport("agent1")
        async with Agent("agent1", shops, MemoryStore(), transport, epsilon=epsilon) as agent:
            transport.counts = {"sent": 1}  # type: ignore[attr-defined]  # a stand-in
            agent.expiries = Expiries(1.0, 2.0)
            metrics = Metrics(agent, "tea")
            metrics.events = EventStream(agent.status)
            metrics.request("/v1/choose", 200, 0.01)
            metrics.cut("slow")
            return metrics.text().decode()

    lines = [line for each in (None, 1.0) for line in asyncio.run(text(each)).splitlines()]
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    samples = {re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")}
    return kinds({name for name in families | samples if not name.endswith("_created")})


def kinds(names: set[str]) -> set[str]:
    return {re.sub("_(bucket|count|sum)$", "", name) for name in names}


def parsed(line: str) -> None:
    """Read a command line as the command does, and run nothing."""
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)
    assert words.pop(0) == "fedbandits"
    context = command.make_context("fedbandits", words, resilient_parsing=False)
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, rest, parent=context)


def test_grafana_and_the_page_name_every_metric_and_no_other() -> None:
    text = (DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8")
    dashboard = json.loads(text)
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [str(each["query"]) for each in dashboard["templating"]["list"]]
    metrics = reported()
    assert kinds({name for each in asked for name in re.findall(METRIC, each)}) == metrics
    assert kinds(set(re.findall(METRIC, PAGE))) == metrics
    (row,) = re.findall(r"^\| `fedbandits_transport_total` \|(.*)\|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == ["what", *tls_transport.COUNTS]
    shown = re.findall(r'transport_total.*?what=~?\\"([\w|]+)', text)
    assert {each for group in shown for each in group.split("|")} == set(tls_transport.COUNTS)


def commands(text: str) -> list[str]:
    """Command lines in a page or in comments, those that go on in a second line too."""
    joined = re.sub(r"\\\n[#\s]*", "", text)
    return re.findall(r"(fedbandits live [a-z][^\n`|&>#]*)", joined)


@pytest.mark.parametrize(
    "line",
    [
        *commands(PAGE),
        *commands((DEPLOY / "docker-compose.yml").read_text(encoding="utf-8")),
        *commands((DEPLOY / "fedbandits.service").read_text(encoding="utf-8")),
    ],
)
def test_commands_can_be_given(line: str) -> None:
    parsed(line)


def test_mistakes_in_commands_are_found() -> None:
    assert len(commands(PAGE)) > 8
    for wrong in ("fedbandits live rise x.toml", "fedbandits live keys x.toml --into keys"):
        with pytest.raises(Exception, match=r"(?i)no such"):
            parsed(wrong)


def test_containers_run_sites_of_one_federation() -> None:
    """Each has a valid file, its own keys, and volumes at the paths in the file."""
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text(encoding="utf-8"))[
        "services"
    ]
    found = re.search(r"^ENTRYPOINT (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    assert tuple(services) == SITES
    for name, service in services.items():
        targets = {each.split(":")[1]: each.split(":")[0] for each in service["volumes"]}
        parsed(shlex.join([*json.loads(found[1]), *service["command"]]))
        (file,) = service["command"]
        folder = DEPLOY / targets[str(Path(file).parent)]
        site = read_site(folder / Path(file).name)
        assert site.part.name == name == service["environment"]["SITE"]
        assert len(site.part.neighbours) == 2
        assert targets[str(site.keys)] == f"./keys/{name}"
        assert targets[str(site.journal.parent)] == targets[str(site.token.parent)] == name
        assert site.service is not None
        assert site.service.tls
        (program,) = [each for each in service["healthcheck"]["test"] if "healthz" in each]
        compile(program, "healthcheck", "exec")
        # The certificate contains the name of the member.
        port = site.service.address.rpartition(":")[2]
        assert f"https://{{os.environ['SITE']}}:{port}/healthz" in program


def test_the_unit_runs_an_agent_with_few_permissions() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # ConfigParser's documented way
    unit.read(DEPLOY / "fedbandits.service", encoding="utf-8")
    service = unit["Service"]
    assert re.search(r"bin/fedbandits live agent \S+/agent\.toml$", service["ExecStart"])
    assert service["User"] == "fedbandits"
    assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")
    assert service["Restart"] == "on-failure"
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"
    assert f"`{service['WorkingDirectory']}/north.db`" in PAGE


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """systemd-analyze only warns of unknown keys and values, and succeeds."""
    text = (DEPLOY / "fedbandits.service").read_text(encoding="utf-8")
    command = "/opt/fedbandits/bin/fedbandits"
    assert command in text
    text = text.replace(command, sys.executable)

    def complaints(unit: str) -> list[str]:
        file = tmp_path / "fedbandits.service"
        file.write_text(unit, encoding="utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60
        )
        lines = (done.stdout + done.stderr).splitlines()
        # It also verifies other units.
        return [line for line in lines if "fedbandits" in line]

    assert complaints(text) == []
    assert complaints(text.replace("ProtectClock", "ProtectClok")) != []


@pytest.mark.parametrize(
    ("what", "limits"),
    [
        ("a message between neighbours", [link.MOST_BYTES]),
        ("messages of one neighbour", [inbox.MOST_PER_SECOND]),
        ("messages that are taken off one link", [link.MOST_TAKEN, link.MOST_TAKEN_BYTES]),
        ("handshakes at once", [listener.MOST_HANDSHAKES]),
        ("seconds for a handshake", [int(tls_transport.HANDSHAKE)]),
        ("seconds for a link", [int(tls_transport.CONNECT)]),
        ("the body of a request", [bodies.BODY_BYTES]),
        ("requests a second with the token", list(guard.WITH_TOKEN)),
        ("requests a second without it", list(guard.WITHOUT)),
        ("connections at once", [connection.CONNECTIONS]),
        ("seconds for a request", [int(connection.REQUEST_SECONDS)]),
        ("closed tickets and events", [tickets.REMEMBERED]),
        ("agents of a `[network]`", [federation_file.MOST_AGENTS]),
        ("smallest `gossip_period`", [int(1000 * federation_file.SHORTEST_PERIOD)]),
    ],
)
def test_limits_on_the_page_are_those_of_the_code(what: str, limits: list[int]) -> None:
    (row,) = re.findall(rf"^\| {re.escape(what)}[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
    assert re.findall(r"`([\d,]+)`", row) == [f"{limit:,}" for limit in limits]


def yaml_on_the_page(first: str) -> Any:
    """Return the YAML block of the page that begins with a key."""
    yaml = pytest.importorskip("yaml")
    (block,) = re.findall(rf"^```yaml\n({first}:.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return yaml.safe_load(block)


def test_kubernetes_on_the_page_fits_the_service_on_the_page(tmp_path: Path) -> None:
    """The probe names a host of the service, and tokens are at the paths in agent.toml."""
    federation, *others = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (service,) = [each for each in others if "hosts =" in each]
    (tmp_path / "federation.toml").write_text(federation, encoding="utf-8")
    head = 'name = "north"\nfederation = "federation.toml"\nkeys = "keys"\n'
    (tmp_path / "agent.toml").write_text(f"{head}{service}", encoding="utf-8")
    asked = read_site(tmp_path / "agent.toml").service
    assert asked is not None
    spec = yaml_on_the_page("spec")["spec"]
    (container,) = spec["containers"]
    probe = container["livenessProbe"]["httpGet"]
    assert (probe["path"], probe["scheme"]) == ("/healthz", "HTTPS")
    assert f"{probe['port']}" == asked.address.rpartition(":")[2]
    (header,) = probe["httpHeaders"]
    assert header["name"] == "Host"
    assert header["value"] in asked.hosts
    assert [each["name"] for each in container["env"]] == [asked.token_env]
    (mount,), (volume,) = container["volumeMounts"], spec["volumes"]
    (item,) = volume["secret"]["items"]
    assert mount["name"] == volume["name"]
    assert asked.read_token == Path(mount["mountPath"]) / item["path"]
    assert volume["secret"]["defaultMode"] == 0o440  # which the service accepts


def test_files_on_the_page_are_read(tmp_path: Path) -> None:
    """As a reader would write them: one federation, and the file of one site."""
    blocks = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "federation.toml").write_text(blocks[0], encoding="utf-8")
    (tmp_path / "agent.toml").write_text(blocks[1], encoding="utf-8")
    site = read_site(tmp_path / "agent.toml")
    assert site.part.addresses == {
        "north": "0.0.0.0:7447",
        "centre": "centre.example.org:7447",
    }

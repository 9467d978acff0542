"""The expiry of certificates: read while an agent runs, reported, and warned of a month ahead."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fedbandits.cli.live_tables import status_lines
from fedbandits.live import Agent, Federation, MemoryStore
from fedbandits.live.federation.certificates import make_authority, make_member, read_certificate
from fedbandits.live.operations.agent_file import ServiceSection
from fedbandits.live.operations.client import Client
from fedbandits.live.operations.site import Site, run_site
from fedbandits.live.protocol.observations import LossRange
from fedbandits.live.service.metrics import Metrics
from fedbandits.live.transport.certificate_expiry import DAY, Expiries, ExpiryWatch
from fedbandits.networks import path

SECONDS = itertools.count(1)


def keys(folder: Path, *, member: float = 365, authority: float = 3650, name: str = "a") -> Path:
    """Write keys whose certificates are valid for so many days."""
    signer = make_authority(authority)
    pair = make_member(signer, name, days=member)
    folder.mkdir(exist_ok=True)
    files = {"ca.pem": signer.certificate, "key.pem": pair.key, "cert.pem": pair.certificate}
    for file, content in files.items():
        (folder / file).write_bytes(content)
        (folder / file).chmod(0o600)
        later = time.time_ns() + next(SECONDS) * 10**9  # never the time of an earlier file
        os.utime(folder / file, ns=(later, later))
    return folder


def end_of(file: Path) -> float:
    return read_certificate(file).not_valid_after_utc.timestamp()


def taken(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.message for each in caplog.records]
    caplog.clear()
    return found


def test_one_warning_a_day_in_the_last_month(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = keys(tmp_path / "a", member=100)
    watch = ExpiryWatch(folder, "a")
    found = watch.check(0.0)
    assert found is not None
    assert found == Expiries(end_of(folder / "cert.pem"), end_of(folder / "ca.pem"))
    watch.check(found.member - 30 * DAY - 1)
    assert taken(caplog) == []
    for second in range(5):
        watch.check(found.member - 30 * DAY + 1 + second)
    [line] = taken(caplog)
    assert re.search(r"a: its certificate expires on \d{4}-\d\d-\d\d, in 30 days; renew it", line)
    for hour in range(1, 72):
        watch.check(found.member - 30 * DAY + 1 + 3600 * hour)
    assert len(taken(caplog)) == 2
    watch.check(found.member + 1)
    [line] = taken(caplog)
    assert "its certificate expired on" in line
    ExpiryWatch(keys(folder, authority=20.4), "a").check(time.time())
    [line] = taken(caplog)
    assert re.search("the certificate of the authority expires on .* in 20 days; make a new", line)


def test_new_certificates_are_read_unless_they_do_not_fit(tmp_path: Path) -> None:
    assert ExpiryWatch(tmp_path, "a").check(0.0) is None
    folder = keys(tmp_path / "a", member=10)
    watch = ExpiryWatch(folder, "a")
    before = watch.check(0.0)
    keys(folder, member=300, name="b")  # of another member
    assert watch.check(1.0) == before
    (folder / "cert.pem").write_text("nonsense")
    assert watch.check(2.0) == before
    keys(folder, member=200)
    now = watch.check(3.0)
    assert before is not None
    assert now is not None
    assert now.member - before.member == pytest.approx(190 * DAY, abs=100)
    (folder / "key.pem").unlink()
    assert watch.check(4.0) == now


def test_a_site_reports_the_expiry_of_its_certificates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, the status and on the command line, before and after a renewal."""
    folder = keys(tmp_path / "keys", member=9.5, name="agent1")
    part = Federation(["a", "b"], path(1)).part("agent1")
    token = tmp_path / "token"
    site = Site(part, tmp_path / "a.db", folder, LossRange(), ServiceSection(), token)
    found: list[Any] = []

    async def ask(url: str) -> None:
        def status() -> Any:
            with Client(url, token.read_text().strip()) as client:
                return client.ask("/v1/status")

        found.append(await asyncio.to_thread(status))

    async def renew(url: str) -> None:
        await ask(url)
        keys(folder, member=400, name="agent1")
        end = time.monotonic() + 20
        while found[-1]["certificate_expires"] < time.time() + 390 * DAY:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
            await ask(url)
        os.kill(os.getpid(), signal.SIGTERM)

    async def run() -> None:
        tasks: list[asyncio.Task[None]] = []
        await run_site(site, lambda url: tasks.append(asyncio.ensure_future(renew(str(url)))))
        await tasks[0]

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(run(), 60))
    first, last = found[0], found[-1]
    assert first["certificate_expires"] == pytest.approx(time.time() + 9.5 * DAY, abs=300)
    assert last["authority_expires"] == end_of(folder / "ca.pem")
    assert sum("its certificate expires" in each for each in taken(caplog)) == 1
    gone = {"certificate_expires": None, "authority_expires": None}
    for status, pattern in (
        (first, r"(?m)^warning: the certificate expires on .*, in (9|10) days$"),
        (last, r"(?m)^the certificate expires on .*, in 400 days$"),
        (last, r"(?m)^the authority's certificate expires on"),
        (last | {"authority_expires": 0.0}, "authority's certificate expired on"),
        (last | gone, r"(?s)\A(?!.*certificate)"),
    ):
        assert re.search(pattern, "\n".join(status_lines(status)))


def test_the_metrics_report_the_expiry() -> None:
    async def text() -> str:
        async with Agent("agent1", Federation(["a", "b"], path(1)), MemoryStore()) as agent:
            assert "certificate" not in Metrics(agent, None).text().decode()
            agent.expiries = Expiries(1.8e9, 2.1e9)
            return Metrics(agent, None).text().decode()

    found = asyncio.run(text())
    assert 'fedbandits_certificate_expires_seconds{certificate="member"} 1.8e+09' in found
    assert 'fedbandits_certificate_expires_seconds{certificate="authority"} 2.1e+09' in found

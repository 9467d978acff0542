"""Certificates are looked at while an agent runs, and their end is warned of a month ahead."""

from __future__ import annotations

import asyncio
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
from fedbandits.live.protocol.observations import Range
from fedbandits.live.service.metrics import Metrics
from fedbandits.live.transport.certificate_expiry import DAY, Expiries, ExpiryWatch
from fedbandits.networks import path


def keys(folder: Path, *, member: float = 365, authority: float = 3650, name: str = "a") -> Path:
    """Keys whose certificates are valid for so many days."""
    signer = make_authority(authority)
    pair = make_member(signer, name, days=member)
    folder.mkdir(exist_ok=True)
    for file, content in (
        ("ca.pem", signer.certificate),
        ("key.pem", pair.key),
        ("cert.pem", pair.certificate),
    ):
        (folder / file).write_bytes(content)
        (folder / file).chmod(0o600)
        later = time.time_ns() + keys_made.pop() * 10**9  # never the time of those before
        os.utime(folder / file, ns=(later, later))
    return folder


keys_made = list(range(1000, 0, -1))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.message for each in caplog.records]
    caplog.clear()
    return found


def test_a_warning_a_day_in_the_last_month(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = ExpiryWatch(keys(tmp_path / "a", member=100), "a")
    found = watch.check(0.0)
    assert found is not None
    assert (
        found.member
        == read_certificate(tmp_path / "a" / "cert.pem").not_valid_after_utc.timestamp()
    )
    assert (
        found.authority
        == read_certificate(tmp_path / "a" / "ca.pem").not_valid_after_utc.timestamp()
    )
    watch.check(found.member - 30 * DAY - 1)
    assert said(caplog) == []
    for second in range(5):
        watch.check(found.member - 30 * DAY + 1 + second)
    [line] = said(caplog)
    assert re.search(r"a: its certificate expires on \d{4}-\d\d-\d\d, in 30 days; renew it", line)
    for hour in range(1, 72):
        watch.check(found.member - 30 * DAY + 1 + 3600 * hour)
    assert len(said(caplog)) == 2
    watch.check(found.member + 1)
    [line] = said(caplog)
    assert "its certificate expired on" in line


def test_the_authority_is_warned_of_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = ExpiryWatch(keys(tmp_path / "a", member=365, authority=20.4), "a")
    watch.check(time.time())
    [line] = said(caplog)
    assert re.search("the certificate of the authority expires on .* in 20 days; make a new", line)


def test_a_renewed_certificate_is_seen_and_one_that_does_not_fit_is_not(tmp_path: Path) -> None:
    folder = keys(tmp_path / "a", member=10)
    watch = ExpiryWatch(folder, "a")
    before = watch.check(0.0)
    keys(folder, member=300, name="b")  # another's: the agent goes on with its own
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


def test_without_certificates_nothing_is_known(tmp_path: Path) -> None:
    assert ExpiryWatch(tmp_path, "a").check(0.0) is None


def test_a_site_tells_when_its_certificates_expire(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, the status, the metrics and on the command line; also of a renewed one."""
    folder = keys(tmp_path / "keys", member=9.5, name="agent1")
    part = Federation(["a", "b"], path(1)).part("agent1")
    token = tmp_path / "token"
    site = Site(part, tmp_path / "a.db", folder, Range(), ServiceSection(), token)
    found: list[Any] = []

    def ask(url: str, route: str) -> Any:
        with Client(url, token.read_text().strip()) as client:
            return client.ask(route)

    async def look(url: str) -> None:
        found.append(await asyncio.to_thread(ask, url, "/v1/status"))
        keys(folder, member=400, name="agent1")
        end = time.monotonic() + 20
        while found[-1]["certificate_expires"] < time.time() + 390 * DAY:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
            found.append(await asyncio.to_thread(ask, url, "/v1/status"))
        os.kill(os.getpid(), signal.SIGTERM)

    async def run() -> None:
        tasks: list[asyncio.Task[None]] = []
        await run_site(site, lambda url: tasks.append(asyncio.ensure_future(look(str(url)))))
        await tasks[0]

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(run(), 60))
    first, last = found[0], found[-1]
    assert first["certificate_expires"] == pytest.approx(time.time() + 9.5 * DAY, abs=300)
    assert (
        last["authority_expires"]
        == read_certificate(folder / "ca.pem").not_valid_after_utc.timestamp()
    )
    assert sum("its certificate expires" in each for each in said(caplog)) == 1
    assert any(
        re.fullmatch(r"warning: the certificate expires on .*, in (9|10) days", line)
        for line in status_lines(first)
    )
    lines = status_lines(last)
    assert any(re.fullmatch("the certificate expires on .*, in 400 days", each) for each in lines)
    assert any(each.startswith("the authority's certificate expires on") for each in lines)
    assert any("expired on" in each for each in status_lines(last | {"authority_expires": 0.0}))
    gone = {"certificate_expires": None, "authority_expires": None}
    assert not any("certificate" in each for each in status_lines(last | gone))


def test_the_metrics_say_when() -> None:
    async def text() -> str:
        async with Agent("agent1", Federation(["a", "b"], path(1)), MemoryStore()) as agent:
            assert "certificate" not in Metrics(agent, None).text().decode()
            agent.expiries = Expiries(1.8e9, 2.1e9)
            return Metrics(agent, None).text().decode()

    found = asyncio.run(text())
    assert 'fedbandits_certificate_expires_seconds{certificate="member"} 1.8e+09' in found
    assert 'fedbandits_certificate_expires_seconds{certificate="authority"} 2.1e+09' in found

"""Repeated warnings are counted and not logged, so that strangers cannot fill the disk."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedbandits.common import log_limit
from fedbandits.common.log_limit import FIRST_SECONDS, LONGEST_SECONDS, MOST_CAUSES, WarningLimit
from fedbandits.live.agent.neighbour_monitor import NeighbourMonitor
from fedbandits.live.protocol.messages import RejectedMessageError
from fedbandits.live.transport.tls_transport import TlsTransport


class Clock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def logger(clock: Clock) -> Iterator[logging.Logger]:
    """A logger with a separate limit."""
    found, limit = logging.getLogger("fedbandits.limited"), WarningLimit(clock)
    found.addFilter(limit)
    yield found
    found.removeFilter(limit)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records]
    caplog.clear()
    return found


def test_one_cause_gives_one_line_and_one_summary_per_interval(
    logger: logging.Logger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1235):
        logger.warning("bad message %d", number, extra={"cause": "bad"})
    assert lines(caplog) == ["bad message 0"]
    clock.now = FIRST_SECONDS
    logger.warning("something else")
    assert lines(caplog) == [
        "bad message 1234 (and 1,233 more like it in the last 60 s)",
        "something else",
    ]


def test_intervals_double_while_the_cause_lasts_and_begin_again_after_a_pause(
    logger: logging.Logger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for clock.now in range(86_400):
        logger.warning("again")
    assert len(lines(caplog)) <= 6 + 86_400 / LONGEST_SECONDS + 1
    clock.now += 2 * LONGEST_SECONDS
    logger.warning("something else")  # ends the interval of the last summary
    clock.now += 2 * LONGEST_SECONDS
    lines(caplog)
    logger.warning("again")
    assert lines(caplog) == ["again"]


def test_causes_are_bounded_and_room_comes_back(
    logger: logging.Logger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10 * MOST_CAUSES):
        logger.warning("cause %d", number)
    assert len(lines(caplog)) == MOST_CAUSES + 1
    clock.now = 2 * FIRST_SECONDS
    logger.warning("a link to south is down")
    [summary, line] = lines(caplog)
    assert f"(and {9 * MOST_CAUSES - 2:,} more like it in the last 60 s)" in summary
    assert line == "a link to south is down"


def test_information_is_not_limited_and_a_summary_has_no_traceback(
    logger: logging.Logger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        logger.info("renewed")
    assert lines(caplog) == ["renewed"] * 3
    for number in range(3):
        try:
            raise OSError(number)
        except OSError:
            logger.exception("cannot send")
    clock.now = FIRST_SECONDS
    logger.warning("something else")
    assert [each.exc_info is None for each in caplog.records] == [False, True, True]


def test_a_running_event_loop_reports_without_a_further_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "FIRST_SECONDS", 0.01)
    logger = log_limit.limited_logger("fedbandits.live")

    async def work() -> None:
        for _ in range(3):
            logger.warning("again")
        async with asyncio.timeout(30):
            while len(caplog.records) < 2:
                await asyncio.sleep(0.01)

    asyncio.run(work())
    assert lines(caplog) == ["again", "again (and 1 more like it in the last 0.01 s)"]


def test_a_neighbour_that_alternates_good_messages_with_another_weight(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitor = NeighbourMonitor("north")
    for number in range(1000):
        monitor.accepted("south", float(number))
        why = f"south has another file of the federation: weight {number}"
        other = RejectedMessageError(why, "file")
        monitor.rejected("south", other, ["south"])
    assert lines(caplog) == ["north: south has another file of the federation: weight 0"]
    assert monitor.rejections["south"]["file"] == 1000


def test_strangers_from_many_addresses_do_not_silence_warnings_of_links(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transport = TlsTransport("a", None, {"b": "127.0.0.1:1"}, tmp_path)
    for number in range(1000):
        transport.refuse(ssl.SSLError("bad"), None, f"192.0.2.{number}")
    assert lines(caplog) == ["a: the handshake from 192.0.2.0 was refused: ('bad',)"]
    transport.refuse(ssl.SSLError("expired"), "b")
    assert lines(caplog) == ["a: the handshake with b at 127.0.0.1:1 was refused: ('expired',)"]

"""Headless Chromium for the tests, driven with the standard library alone."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no chromium or google-chrome installed")
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-quic", "--disable-sync", "--disable-component-update"),
    *("--disable-background-networking", "--remote-debugging-pipe", "about:blank"),
]
PATIENCE = 120.0
"""Seconds for an answer."""

CONSOLE = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")


class Browser:
    """Headless Chromium over its DevTools pipe: JSON ended by NUL, on descriptors 3 and 4."""

    def __init__(self, folder: Path) -> None:
        arguments = [CHROMIUM, *QUIET, f"--user-data-dir={folder / 'profile'}"]
        with (folder / "chromium.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 </dev/null >&2', *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.calls = 0

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.send({"method": "Browser.close"})
        with self.watched():
            self.process.communicate()

    def send(self, command: dict[str, Any]) -> int:
        """The number under which the answer will come."""
        assert self.process.stdin
        self.calls += 1
        self.process.stdin.write(json.dumps({"id": self.calls} | command).encode() + b"\0")
        self.process.stdin.flush()
        return self.calls

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        message = bytearray()
        while (byte := self.process.stdout.read(1)) != b"\0":
            assert byte, "Chromium ended"
            message += byte
        received: dict[str, Any] = json.loads(message)
        return received

    def call(self, method: str, tab: "Tab | None" = None, **params: object) -> dict[str, Any]:
        """The answer to a command; events on the way go to the tab."""
        session = {"sessionId": tab.session} if tab else {}
        with self.watched():
            number = self.send({"method": method, "params": params} | session)
            while (message := self.read()).get("id") != number:
                if tab and message.get("sessionId") == tab.session:
                    tab.events.append((message["method"], message["params"]))
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A browser that hangs ends the test, not the day; one that waits for the test may wait."""
        guard = Timer(PATIENCE, self.process.kill)
        guard.start()
        try:
            yield
        finally:
            guard.cancel()

    def visit(self, page: Path) -> "Tab":
        """A new tab in which the page has loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, [])
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Page.bringToFront")  # a tab behind others may wait for its picture for ever
        tab.call("Page.navigate", url=page.as_uri())
        tab.ask(
            "new Promise(done => document.readyState == 'complete' ? done() : "
            "addEventListener('load', () => done()))"
        )
        return tab


class Tab(NamedTuple):
    browser: Browser
    session: str
    events: list[tuple[str, dict[str, Any]]]

    def call(self, method: str, **params: object) -> dict[str, Any]:
        return self.browser.call(method, self, **params)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    @property
    def console(self) -> str:
        return json.dumps([event for method, event in self.events if method in CONSOLE])

    @property
    def outside(self) -> list[str]:
        """Addresses asked for, but for the page's own and what it has inside."""
        asked = [
            event["request"]["url"]
            for method, event in self.events
            if method == "Network.requestWillBeSent"
        ]
        return [address for address in asked if not address.startswith(("file:", "data:"))]

    def show(self, width: int, media: str = "screen", scheme: str = "light") -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=True,  # scrollbars lie over the page and take no width
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

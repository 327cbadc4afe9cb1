"""A real browser to look at pages with, driven over two pipes: Chromium's own protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 60.0  # seconds for one answer, on a busy machine
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
# the browser reads commands from 3 and writes answers to 4; dup2 in an order that loses neither
_LAUNCH = """
import os, sys
reading, writing = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
reading, writing = (os.dup(reading), os.dup(writing)) if min(reading, writing) < 5 else (
    reading, writing)
os.dup2(reading, 3)
os.dup2(writing, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def found_browser() -> str | None:
    """Where Chromium is, if anywhere."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """One tab of Chromium, and all that it complained about."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        launch = [sys.executable, "-c", _LAUNCH, str(commands), str(answers), program]
        self._process = subprocess.Popen(
            [*launch, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._rest, self._last, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        joined = self.call("Target.attachToTarget", targetId=tab, flatten=True)
        self._session = joined["sessionId"]
        for room in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{room}.enable")

    def call(self, method: str, **words: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": words}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._from, 1 << 20)
            assert read, "the browser has gone"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def look(self, path: Path, width: int = 1000, height: int = 900, scheme: str = "light") -> None:
        """Open a page, and wait until its plots are drawn."""
        self.open(path, width, height, scheme)
        self.ask(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
        )

    def open(self, path: Path, width: int = 1000, height: int = 900, scheme: str = "light") -> None:
        """Open a page, and wait until it is loaded."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.prefer(scheme)
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def prefer(self, scheme: str) -> None:
        """Light or dark."""
        wish = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=wish)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, awaited."""
        told = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """A key down and up again."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **text,
            )

    def picture(self, path: Path) -> Path:
        """What is seen, as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
        return path

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """Errors and warnings of the console, exceptions, and what policies forbid."""
        self.ask("0")  # what was said before this is read by now
        return [
            event["params"]
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
            or (
                event["method"] == "Runtime.consoleAPICalled"
                and event["params"]["type"] in ("error", "warning", "assert")
            )
            or (
                event["method"] == "Log.entryAdded"
                and event["params"]["entry"]["level"] in ("error", "warning")
            )
        ]

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        sent = [e["params"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    def close(self) -> None:
        """End it."""
        self._session = ""
        self.call("Browser.close")
        self._process.wait(timeout=_PATIENCE)
        os.close(self._to)
        os.close(self._from)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = found_browser()
    if program is None:
        pytest.skip(f"needs a browser: none of {', '.join(_NAMES)} is installed")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()

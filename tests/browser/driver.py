"""A browser without further packages: chromedriver's own protocol (W3C WebDriver) over plain HTTP."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
TAB, ENTER = "\ue004", "\ue007"


def programs() -> tuple[str, str] | None:
    """The browser and its driver, where both are installed."""
    browser, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def install() -> str:
    """Install both from Debian's packages, as root and where apt is; why not, if that did not work."""
    if programs() is not None:
        return ""
    if "COVARY_NO_INSTALL" in os.environ or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "chromium-driver"]):
        try:
            environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "-q", *command], capture_output=True, timeout=300, check=True, env=environment)
        except (subprocess.SubprocessError, OSError) as error:
            return f"chromium could not be installed (apt-get {command[0]}: {type(error).__name__})"
    return "" if programs() is not None else "chromium was installed but is not found"


class Browser:
    """One session of a headless browser."""

    def __init__(self, address: str, session: str) -> None:
        self.address, self.session = address, session

    def call(self, method: str, path: str, value: Any = None) -> Any:
        """One command of the protocol."""
        return _call(method, f"{self.address}/session/{self.session}{path}", value)

    def devtools(self, command: str, **parameters: Any) -> Any:
        """One command of the browser's own tools."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, page: Path, *, width: int, dark: bool = False, height: int = 900) -> None:
        """Open a page from the disk in a window of this width, on a light or a dark machine."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.devtools("Emulation.setEmulatedMedia", media="", features=scheme)
        self.call("POST", "/url", {"url": page.resolve().as_uri()})

    def run(self, script: str) -> Any:
        """What a piece of JavaScript returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def console(self) -> list[str]:
        """What the browser complained about since the last time."""
        found = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] in ("SEVERE", "WARNING")]

    def press(self, key: str) -> None:
        """A key."""
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))


def _call(method: str, address: str, value: Any = None) -> Any:
    data = None if method in ("GET", "DELETE") else json.dumps(value or {}).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextmanager
def browser(port: int = 0) -> Iterator[Browser]:
    """A headless browser for the time of a block."""
    found = programs()
    assert found is not None
    port = port or 20000 + os.getpid() % 20000
    options = {
        "binary": found[0],
        "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"],
    }
    wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    with subprocess.Popen([found[1], f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(100):
                try:
                    _call("GET", f"{address}/status")
                    break
                except OSError:
                    time.sleep(0.1)
            session = _call("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            opened = Browser(address, session)
            try:
                yield opened
            finally:
                opened.call("DELETE", "")
        finally:
            process.terminate()

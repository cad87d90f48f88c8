"""A real browser for tests: Chromium without a window, spoken to through two pipes.

with Browser() as browser:
    page = browser.open("file:///tmp/report.html")
    page.run("document.title"), page.complaints
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")


class Browser:
    """The process; it ends with the block."""

    def __enter__(self):
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        options = "--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --mute-audio"
        rules = "--host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'"  # nothing elsewhere can be fetched
        command = (
            f"exec {CHROMIUM} {options} {rules} --user-data-dir={self._profile.name} 3<&{theirs_in} 4>&{theirs_out}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(theirs_in), os.close(theirs_out)
        self._last, self._rest, self.pages = 0, b"", {}
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in), os.close(self._out)
        self._profile.cleanup()

    def open(self, address, width=1280, height=900):
        """A page, when it has loaded."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self.pages[session] = Page(self, session)
        for name in ("Page", "Runtime", "Log"):
            page.call(f"{name}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        page.go(address)
        return page

    def call(self, method, params=None, session=None):
        """Ask, and wait for the answer; what the pages say in between is kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params or {}}
        os.write(self._out, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._last:
                assert "error" not in found, found
                return found["result"]

    def _next(self):
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            assert part, "Chromium has ended"
            self._rest += part
        line, self._rest = self._rest.split(b"\0", 1)
        found = json.loads(line)
        if found.get("sessionId") in self.pages and "method" in found:
            self.pages[found["sessionId"]].heard(found["method"], found["params"])
        return found


class Page:
    """One page; `complaints` are errors on its console and exceptions."""

    def __init__(self, browser, session):
        self._browser, self._session, self.complaints, self.requests = browser, session, [], []

    def heard(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(params["args"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"])

    def call(self, method, params=None):
        return self._browser.call(method, params, self._session)

    def go(self, address):
        self.call("Page.navigate", {"url": address})
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script):
        """The value of an expression, of what it promises if it is a promise."""
        found = self.call(
            "Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True, "userGesture": True}
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition, seconds=20):
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.05)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, **more})

    def click(self, x, y):
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def key(self, name, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": name, "text": text if kind == "keyDown" else ""})

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", {"format": "png"})["data"]))

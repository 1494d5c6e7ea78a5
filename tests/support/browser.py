"""A headless Chromium, checked to over a pipe by its devtools protocol: no network, no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BROWSER = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
)


class Browser:
    """One tab. ``log`` holds what scripts and the page itself complained of."""

    def __init__(self, profile: Path) -> None:
        self.profile = profile
        self.log: list[str] = []
        self._count = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        flags += "--disable-background-networking --disable-component-update --disable-sync "
        flags += "--hide-scrollbars --remote-debugging-pipe"
        # Chromium reads from file descriptor 3 and writes to 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" {flags} --user-data-dir="$1" 3<&{theirs} 4>&{ours}',
             str(BROWSER), str(self.profile)],
            pass_fds=(theirs, ours), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        os.close(ours)
        self._reader = os.fdopen(self._from, "rb")
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._to)
        self._reader.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer; events on the way are kept in the log."""
        self._count += 1
        asked: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._count:
                assert "error" not in told, told
                return told["result"]

    def open(self, file: Path, *, width: int, dark: bool = False, media: str = "screen") -> None:
        """Load a file at a width, in a colour scheme, for a screen or for paper."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=812, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._read()

    def ask(self, script: str) -> Any:
        """What an expression comes to in the page."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def press(self, key: str, *, code: int) -> None:
        """Press a key and let it go."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **text,
            )  # fmt: skip

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Save what is seen."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def paper(self, file: Path) -> None:
        """Print to PDF as the page's own rules for paper have it."""
        found = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        file.write_bytes(base64.b64decode(found["data"]))

    def _read(self) -> dict[str, Any]:
        found = bytearray()
        while (byte := self._reader.read(1)) != b"\0":
            assert byte, "the browser has gone"
            found += byte
        told = json.loads(found)
        method = told.get("method", "")
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.log.append(json.dumps(told["params"]))
        return told

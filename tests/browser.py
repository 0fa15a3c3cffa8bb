"""A real browser for tests and pictures: Debian's headless Chromium, spoken to
in its DevTools protocol.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from pathlib import Path
from typing import Any

import aiohttp

from tests.parts import need
from tests.servers import Server
from tests.wait import PATIENCE_S, until

# Debian's command is a script that waits for the browser: ending it would leave the browser behind.
PROGRAM = Path("/usr/lib/chromium/chromium-headless-shell")
MAX_BYTES = 64 << 20  # a picture comes in one message


class Browser:
    """One browser on a profile of its own. Use as a context: it is ended whatever happens."""

    def __init__(self, folder: Path) -> None:
        need("chromium-headless-shell", "chromium-headless-shell")
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
        options = [
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder / 'profile'}",
        ]
        self._log = folder / "chromium.log"
        self._server = Server([str(PROGRAM), *root, *options, "about:blank"], self._log)
        self._loop = asyncio.new_event_loop()
        self._asked = 0
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        self._server.until(self._address, "Chromium to listen")
        self._loop.run_until_complete(self._connect())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._disconnect())
        self._loop.close()
        self._server.end()

    def _address(self) -> str:
        said = re.search(r"ws://\S+", self._log.read_text(encoding="utf-8", errors="replace"))
        return said[0] if said else ""

    async def _connect(self) -> None:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(self._address(), max_msg_size=MAX_BYTES)

    async def _disconnect(self) -> None:
        await (
            self._socket.close()
        )  # else it is told as unclosed, in whichever test the collector comes by
        await self._session.close()

    def open(self, url: str, width: int = 1280, height: int = 800, *, dark: bool = False) -> Page:
        """A page in a tab of its own, its scripts started."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        page.resize(width, height)
        page.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        page.ask("Page.navigate", url=url)
        return page

    def ask(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """What the browser answers; what it tells unasked goes to the page that it is about.

        RuntimeError for a refusal.
        """
        return self._loop.run_until_complete(
            asyncio.wait_for(self._ask(method, session, params), PATIENCE_S)
        )

    async def _ask(self, method: str, session: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        await self._socket.send_json(
            {"id": self._asked, "method": method, "params": params}
            | ({"sessionId": session} if session else {})
        )
        while True:
            said: dict[str, Any] = await self._socket.receive_json()
            if "method" in said and said.get("sessionId") in self._pages:
                self._pages[said["sessionId"]].hear(said["method"], said["params"])
            if said.get("id") == self._asked:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                answer: dict[str, Any] = said["result"]
                return answer


class Page:
    """One tab. ``complaints``: errors on its console, in its scripts, of its requests."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.complaints: list[str] = []

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol, for this tab."""
        return self._browser.ask(method, self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Something that the browser tells about this tab."""
        if method == "Runtime.exceptionThrown":
            thrown = params["exceptionDetails"]
            self.complaints.append(thrown.get("exception", {}).get("description") or thrown["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in {"error", "assert"}:
            self.complaints.append(
                " ".join(str(each.get("value", each.get("description"))) for each in params["args"])
            )
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def evaluate(self, script: str) -> Any:
        """Value of an expression, awaited where it is a promise.

        RuntimeError with what it threw.
        """
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if thrown := answer.get("exceptionDetails"):
            raise RuntimeError(thrown.get("exception", {}).get("description") or thrown["text"])
        return answer["result"].get("value")

    def until(self, script: str, what: str, seconds: float = PATIENCE_S) -> Any:
        """The expression's value once it is true."""
        return until(lambda: self.evaluate(script), what, seconds)

    def resize(self, width: int, height: int) -> None:
        """As large as a window of so many pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def picture(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """Close the tab."""
        self._browser.ask("Target.closeTarget", targetId=self._target)

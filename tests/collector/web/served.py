"""A scene behind the real server, and what a reader does with its page in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from collector.web import Web
from pipeline.clock import SystemClock
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.browser import Page
from tests.collector.web.scene import Scene
from tests.wait import PATIENCE_S, until

T = TypeVar("T")


class Served:
    """The scene, its address, and how often its page was asked for. The server runs in a thread."""

    def __init__(self) -> None:
        self.scene = Scene().play(30)
        self.asked = 0
        self._status = self.scene.pages.status
        self.scene.pages.status = self._count  # type: ignore[method-assign]  # stands between the server and the scene
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.address = "127.0.0.1:0"
        self.start()

    @property
    def url(self) -> str:
        """Of its page."""
        return f"http://{self.address}/"

    def start(self) -> None:
        """Serve, at the address it had before."""
        self._web = Web(self.scene.pages, Guard(SelfMetrics(), SystemClock()), [self.address])
        (self.address,) = self._run(self._web.start())

    def stop(self) -> None:
        """Serve no more."""
        self._run(self._web.stop())

    def close(self) -> None:
        """End the server and its thread."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE_S)

    def _count(self) -> Mapping[str, Any]:
        self.asked += 1
        return self._status()


def loaded(page: Page, once: str = "true") -> Page:
    """A page once everything of it is there, and this is true of it."""

    def whole() -> bool:
        with contextlib.suppress(RuntimeError):  # between two documents there is nobody to answer
            return bool(
                page.evaluate(
                    "document.readyState === 'complete' && document.URL !== "
                    f"'about:blank' && ({once})"
                )
            )
        return False

    until(whole, f"the page to be loaded, and {once}")
    return page


def pass_time(page: Page, seconds: float) -> None:
    """Let the page's own time go by, as fast as it can: its timers fire, and what
    they ask for is answered.

    Then it stands still.
    """
    begin = page.evaluate("performance.now()")
    page.ask(
        "Emulation.setVirtualTimePolicy",
        policy="pauseIfNetworkFetchesPending",
        budget=seconds * 1000,
    )
    until(
        lambda: page.evaluate("performance.now()") >= begin + seconds * 1000 - 1,
        "the page's time to pass",
    )


def press(page: Page, key: str) -> None:
    """One key, down and up."""
    arrows = {"ArrowLeft": (37, ""), "ArrowRight": (39, ""), "ArrowDown": (40, "")}
    keys = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), **arrows}
    code, text = keys.get(key) or (ord(key.upper()), key)
    for kind in ("keyDown", "keyUp"):
        page.ask(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            text=text,
        )


def point(page: Page, selector: str, share: float, *, touch: bool = False) -> None:
    """Move the mouse over an element, so far from its left to its right; or touch it there."""
    box = page.evaluate(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
    at = {"x": box["left"] + share * box["width"], "y": box["top"] + box["height"] / 2}
    if touch:
        page.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
        page.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    else:
        page.ask("Input.dispatchMouseEvent", type="mouseMoved", **at)


def text(page: Page, selector: str) -> str:
    """What an element says, to those who see and to those who hear."""
    return str(page.evaluate(f"document.querySelector({selector!r}).textContent"))


def unfold(page: Page) -> None:
    """Show everything that can be shown."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def accessible(page: Page) -> list[dict[str, Any]]:
    """The accessibility tree as a list: role, name, and the properties
    that a screen reader tells.
    """
    return [
        {"role": node["role"]["value"], "name": node.get("name", {}).get("value", "")}
        | {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
        for node in page.ask("Accessibility.getFullAXTree")["nodes"]
        if not node["ignored"]
    ]

"""The page that draws a dashboard (tools/pictures/): built, served on loopback beside the
dashboards, opened in a browser.
"""

from __future__ import annotations

import http.server
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.child import run
from tests.browser import Browser
from tests.sources import ROOT
from tests.wait import PATIENCE_S

SOURCE = ROOT / "tools" / "pictures"
MODULES = SOURCE / "node_modules"
WIDTH = 1400  # pixels: a laptop's window

# What the page asks for, and where it lies. Grafana's server has icons and
# letters at the first three.
FILES = {
    "/public/build/img/icons/": MODULES / "@grafana/ui/dist/public/img/icons",
    "/public/fonts/inter/Inter-Regular.woff2": MODULES
    / "@fontsource/inter/files/inter-latin-400-normal.woff2",
    "/public/fonts/inter/Inter-Medium.woff2": MODULES
    / "@fontsource/inter/files/inter-latin-500-normal.woff2",
    "/built/": SOURCE / "built",
    "/": SOURCE / "index.html",
}


@dataclass(frozen=True, slots=True)
class Span:
    """Unix seconds: a picture's ends, the distance of its points, and that of
    the scrapes behind them.
    """

    start: int
    end: int
    step: int
    scrape: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """A dashboard as a browser drew it.

    ``wrong`` and ``empty``: panels (id and title) that could not be drawn or have no data, and what
    stands there instead; ``blank``: those with nothing in them at all.
    """

    png: bytes
    wrong: dict[str, str]
    empty: dict[str, str]
    blank: tuple[str, ...]
    complaints: tuple[str, ...]


def build() -> None:
    """Types checked, one script made. RuntimeError with the compiler's words."""
    bundle = [
        "src/main.tsx",
        "--bundle",
        "--minify",
        "--outfile=built/app.js",
        "--log-level=warning",
    ]
    assets = [
        "--loader:.ttf=empty",
        "--loader:.svg=dataurl",
        '--define:process.env.NODE_ENV="production"',
    ]
    for command in (["tsc"], ["esbuild", *bundle, *assets]):
        made = run(
            [str(MODULES / ".bin" / command[0]), *command[1:]],
            cwd=str(SOURCE),
            timeout_s=PATIENCE_S,
        )
        if made.returncode:
            raise RuntimeError((made.stdout + made.stderr).decode())


@contextmanager
def served(dashboards: Path = ROOT / "dashboards") -> Iterator[str]:
    """Its address while it is served, with the dashboards of a folder."""
    files = {"/dashboards/": dashboards, **FILES}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, files))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


class _Files(http.server.SimpleHTTPRequestHandler):
    def __init__(self, files: Mapping[str, Path], *rest: Any) -> None:
        self._files = files
        super().__init__(*rest)

    def translate_path(self, path: str) -> str:
        asked = urllib.parse.unquote(urllib.parse.urlparse(path).path)
        prefix, place = next(each for each in self._files.items() if asked.startswith(each[0]))
        return str(place / asked.removeprefix(prefix) if place.is_dir() else place)

    def log_message(self, *_: object) -> None:
        """Nothing: the browser tells what it missed."""


def draw(
    browser: Browser, address: str, dashboard: str, prometheus: str, span: Span, **variables: str
) -> Drawn:
    """One dashboard (its file's name) over one Prometheus (its address).

    RuntimeError where the page itself fails.
    """
    asked = {
        "dashboard": dashboard,
        "prometheus": prometheus,
        "from": span.start,
        "to": span.end,
        "step": span.step,
    }
    chosen = {f"var-{name}": value for name, value in variables.items()}
    query = urllib.parse.urlencode(asked | {"scrape": span.scrape} | chosen)
    page = browser.open(f"{address}/?{query}", WIDTH, 900)
    try:
        page.until("window.drawn || window.failed", f"{dashboard} to be drawn")
        if failed := page.evaluate("window.failed"):
            raise RuntimeError(f"{dashboard}: {failed}")
        page.resize(WIDTH, int(page.evaluate("window.drawn.height")))
        page.evaluate(
            "new Promise(frame => requestAnimationFrame(() => requestAnimationFrame(frame)))"
        )
        seen = page.evaluate("window.drawn.seen()")
        return Drawn(
            page.picture(),
            seen["wrong"],
            seen["empty"],
            tuple(seen["blank"]),
            tuple(page.complaints),
        )
    finally:
        page.close()

"""Picture of the cluster's page for the docs, and what the page costs in a browser: a simulated
cluster with something of everything, in a real browser.

``PYTHONPATH=. python tools/cluster_page.py [NODES ...]`` shoots 2,000 nodes into docs/images
(needs pngquant) and prints a row of docs/cluster-page.md for each number of nodes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from page_pictures import shoot

from collector.web.incident_rows import time
from gateway.api.topology import static_of
from tests.browser import Browser, Page
from tests.gateway.cluster import SimulatedCluster
from tests.gateway.page.served import Served
from tests.gateway.page.trouble import trouble
from tests.sources import ROOT

NODES = (16, 2000, 12_500)
UPDATES = 20
SHOWN = "document.getElementById('live-time')?.textContent.endsWith('UTC')"
DRAWN = "performance.getEntriesByName('map').map((one) => [String(one.detail), one.duration])"
READY = "performance.getEntriesByName('map').at(-1).startTime"


def main() -> None:
    """All sizes that are asked for."""
    for nodes in [int(text) for text in sys.argv[1:]] or NODES:
        cluster = SimulatedCluster(nodes)
        trouble(cluster)
        cluster.model.snapshot()  # the gateway's own first look is none of the page's costs
        served = Served(cluster)
        with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
            measure(browser, served, nodes)
            if nodes == 2000:
                picture = ROOT / "docs" / "images" / "cluster-page.png"
                shoot(browser, served.url, picture, 1600, dark=False, once=SHOWN)
        served.close()


def measure(browser: Browser, served: Served, nodes: int) -> None:
    """One row: first draw, all of it again, one update; memory of the script and of the page."""
    page = browser.open(served.url, 1600, 900)
    page.until(SHOWN, "the page")
    page.until(f"{DRAWN}.length > 0", "the map")
    first = page.evaluate(READY)
    for number in range(UPDATES):
        update(page, served, number)
    for _ in range(UPDATES):
        page.evaluate("import('/cluster/main.js').then(({ map }) => map.redraw())")
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
    drawn = page.evaluate(DRAWN)
    whole = statistics.median(ms for kind, ms in drawn if kind == "all")
    part = statistics.median(ms for kind, ms in drawn if kind != "all")
    page.ask("HeapProfiler.collectGarbage")
    heap = page.ask("Runtime.getHeapUsage")
    sys.stdout.write(
        f"| {nodes:,} | {first:.0f} ms | {whole:.1f} ms | {part:.1f} ms | "
        f"{heap['usedSize'] / 2**20:.1f} MiB |\n"
    )
    page.close()


def update(page: Page, served: Served, number: int) -> None:
    """One GPU of ten nodes changes."""
    now = served.cluster.model.snapshot()
    changed = [[80 * node + number % 8, number % 2] for node in range(10)]
    changed = [one for one in changed if one[0] < len(now.layout.gpus)]
    event = {"time": time(now.time_ns), "layout": static_of(now.layout).version}
    served.send("levels", {**event, "nodes": [], "gpus": changed, "ports": [], "silent": None})
    page.until(f"{DRAWN}.filter(([kind]) => kind !== 'all').length > {number}", "the update")


if __name__ == "__main__":
    main()

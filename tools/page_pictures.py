"""Pictures of the status page for README and docs: a simulated node that
breaks, shot in a real browser.

Takes seven minutes, and pngquant.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.agents import PROGRAM, AgentProcess
from tests.browser import Browser
from tests.sources import ROOT

# of calm, for the sparklines; and until the faults are found and the tickets open
BEFORE_S, AFTER_S = 180, 260
FAULTS = ("link_down@mlx5_5", "driver_hang@gpu3")
# The simulated job runs as a user number, and this machine's name for it is nobody's business.
NODE = ("--simulate", "hgx-h100", "--source.jobs.hide", "user")
SHOTS = {"page": (1280, False), "page-dark": (1280, True), "page-small": (390, False)}


def main() -> None:
    """Break a node and shoot its page into docs/images."""
    with (
        tempfile.TemporaryDirectory() as folder,
        AgentProcess(Path(folder) / "state", *NODE).ready() as agent,
    ):
        time.sleep(BEFORE_S)
        for fault in FAULTS:
            subprocess.run(
                [
                    sys.executable,
                    "-c",
                    PROGRAM,
                    "simulate",
                    f"{folder}/state/simulated",
                    "--inject",
                    fault,
                ],
                check=True,
            )
        time.sleep(AFTER_S)
        with Browser(Path(folder)) as browser:
            for name, (width, dark) in SHOTS.items():
                shoot(
                    browser,
                    f"http://{agent.address}/",
                    ROOT / "docs" / "images" / f"{name}.png",
                    width,
                    dark=dark,
                )


def shoot(
    browser: Browser, url: str, path: Path, width: int, *, dark: bool, once: str = "true"
) -> None:
    """One picture, as high as the page, once that is true of it."""
    page = browser.open(url, width, 800, dark=dark)
    page.until(
        "document.readyState === 'complete' && document.querySelector('main') !== null "
        f"&& ({once})",
        "the page to be loaded",
    )
    page.resize(width, page.evaluate("document.documentElement.scrollHeight"))
    path.write_bytes(page.picture())
    page.close()
    subprocess.run(
        ["pngquant", "--force", "--strip", "--speed", "1", "--output", path, "256", path],
        check=True,
    )


if __name__ == "__main__":
    main()

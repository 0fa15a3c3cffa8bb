"""Pictures of all dashboards for docs/: `make pictures`.

Three simulated nodes live through the scripted day, at the speed of life.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.child import run
from tests.browser import Browser
from tests.pictures.cluster import SCRAPE_S, living
from tests.pictures.page import Span, build, draw, served
from tests.sources import ROOT
from tests.wait import PATIENCE_S

PICTURES = ROOT / "docs" / "images" / "dashboards"
POINTS = 420  # of a line: one for three pixels
# Where a dashboard is about one of them: whom the bad day is about.
BAD = {"instance": "gpu-node-01:9400"}
CHOSEN = {"node": BAD, "gpu": BAD | {"gpu": "6"}}


def main() -> int:
    """Draw what a Prometheus has, or what a cluster of our own went through.

    Exit code 1 where a panel could not be drawn.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dashboards", nargs="*", help="names; all of them")
    parser.add_argument(
        "--prometheus", help="address of one that runs, instead of a cluster of our own"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=40,
        help="how far the pictures reach back, and how long the cluster lives",
    )
    parser.add_argument("--end", type=int, help="Unix time at which the pictures end; now")
    parser.add_argument("--to", type=Path, default=PICTURES, help="folder")
    asked = parser.parse_args()
    build()
    with (
        tempfile.TemporaryDirectory() as scratch,
        living(Path(scratch), asked.prometheus, asked.minutes * 60) as prometheus,
    ):
        complaints = list(take(asked, prometheus, Path(scratch)))
    sys.stderr.writelines(f"{complaint}\n" for complaint in complaints)
    return bool(complaints)


def take(asked: argparse.Namespace, prometheus: str, scratch: Path) -> Iterator[str]:
    """One picture for each dashboard; gives what is wrong in them."""
    names = asked.dashboards or sorted(path.stem for path in (ROOT / "dashboards").glob("*.json"))
    step = max(1, round(asked.minutes * 60 / POINTS / SCRAPE_S)) * SCRAPE_S
    end = (asked.end or int(time.time())) // step * step
    span = Span(end - int(asked.minutes * 60) // step * step, end, step, SCRAPE_S)
    asked.to.mkdir(parents=True, exist_ok=True)
    with Browser(scratch) as browser, served() as address:
        for name in names:
            drawn = draw(browser, address, name, prometheus, span, **CHOSEN.get(name, {}))
            save(drawn.png, asked.to / f"{name}.png")
            yield from (f"{name}: {panel}: {said}" for panel, said in drawn.wrong.items())
            yield from (f"{name}: {panel}: blank" for panel in drawn.blank)
            yield from (f"{name}: {complaint}" for complaint in drawn.complaints)


def save(png: bytes, path: Path) -> None:
    """A PNG of at most 256 colours: a third of the size, and no eye sees it.

    FileNotFoundError without the Debian package pngquant.
    """
    path.write_bytes(png)
    program = shutil.which("pngquant")
    if program is None:
        raise FileNotFoundError("pngquant is missing: install the Debian package pngquant")
    made = run(
        [program, "--force", "--strip", "--output", str(path), str(path)], timeout_s=PATIENCE_S
    )
    if made.returncode:
        raise RuntimeError(made.stderr.decode())


if __name__ == "__main__":
    sys.exit(main())

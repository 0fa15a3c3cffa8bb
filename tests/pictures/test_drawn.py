"""Every dashboard drawn by Grafana's own components in a real browser, over a real Prometheus that watches simulated nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.browser import Browser
from tests.pictures.cluster import SCRAPE_S, living
from tests.pictures.page import Drawn, Span, build, draw, served
from tests.sources import ROOT

pytestmark = [pytest.mark.grafana, pytest.mark.integration]

NAMES = sorted(path.stem for path in (ROOT / "dashboards").glob("*.json"))
LIVES_S = 30  # two windows of a rate, and some minutes of Grafana's reach back


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Drawn]]:
    """All of them, of half a minute's data."""
    build()
    folder = tmp_path_factory.mktemp("drawn")
    with living(folder, None, LIVES_S) as prometheus, Browser(folder) as browser, served() as address:
        end = int(time.time()) // SCRAPE_S * SCRAPE_S
        span = Span(end - LIVES_S, end, SCRAPE_S, SCRAPE_S)
        yield {name: draw(browser, address, name, prometheus, span) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_is_drawn(drawings: dict[str, Drawn], name: str) -> None:
    """No panel fails or stays blank, and the browser's console stays silent; a panel without data says so in words of its own."""
    drawn = drawings[name]
    assert (drawn.wrong, drawn.blank, drawn.complaints) == ({}, (), ())
    assert "" not in drawn.empty.values()

"""Every dashboard drawn by Grafana's own components in a real browser, over a real Prometheus
that watches sick nodes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser
from tests.dashboards.day import lived
from tests.pictures.page import Drawn, Span, build, draw, served
from tests.sources import ROOT

pytestmark = [pytest.mark.grafana, pytest.mark.integration]

FOLDER = ROOT / "dashboards"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@dataclass(frozen=True, slots=True)
class Artist:
    """Draws dashboards of a folder over what the nodes went through."""

    browser: Browser
    prometheus: str
    span: Span

    def draw(self, *names: str, folder: Path = FOLDER) -> dict[str, Drawn]:
        """By name."""
        with served(folder) as address:
            return {
                name: draw(self.browser, address, name, self.prometheus, self.span)
                for name in names
            }


@pytest.fixture(scope="module")
def artist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artist]:
    """One, with nodes that were well and then fell sick in every way."""
    build()
    folder = tmp_path_factory.mktemp("drawn")
    with lived(folder) as day, Browser(folder) as browser:
        span = Span(math.floor(day.began), math.floor(day.over), step=1, scrape=1)
        yield Artist(browser, f"http://{day.prometheus.address}", span)


@pytest.fixture(scope="module")
def drawings(artist: Artist) -> dict[str, Drawn]:
    """All of ours."""
    return artist.draw(*NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_is_drawn(drawings: dict[str, Drawn], name: str) -> None:
    """No panel fails or stays blank, and the browser's console stays silent; a panel without data
    says so in words of its own.
    """
    drawn = drawings[name]
    assert (drawn.wrong, drawn.blank, drawn.complaints) == ({}, (), ())
    assert "" not in drawn.empty.values()


def panel(number: int, expr: str, **more: Any) -> dict[str, Any]:
    """A panel of one query."""
    place = {"x": 0, "y": 8 * number, "w": 12, "h": 8}
    lines = {
        "type": "timeseries",
        "options": {},
        "fieldConfig": {"defaults": {"noValue": "nobody looked"}, "overrides": []},
    }
    return {
        "id": number,
        "title": "p",
        "gridPos": place,
        "targets": [{"refId": "A", "expr": expr}],
        **lines,
        **more,
    }


def test_what_is_wrong_is_seen(artist: Artist, tmp_path: Path) -> None:
    """A query that Prometheus refuses, a panel and a setting that cannot be drawn, and no data:
    each is told from a picture.
    """
    unknown = {"defaults": {"custom": {"wobble": 1}}, "overrides": []}
    panels = [
        panel(1, "sum(up"),
        panel(2, "up", type="piechart"),
        panel(3, "up", fieldConfig=unknown),
        panel(4, "no_such_series"),
        panel(5, "up"),
    ]
    (tmp_path / "odd.json").write_text(json.dumps({"panels": panels}), encoding="utf-8")
    drawn = artist.draw("odd", folder=tmp_path)["odd"]
    assert set(drawn.wrong) == {"1 p", "2 p", "3 p"}
    assert "parse error" in drawn.wrong["1 p"]
    assert "no picture for piechart" in drawn.wrong["2 p"]
    assert "custom.wobble" in drawn.wrong["3 p"]
    assert drawn.empty == {"4 p": "nobody looked"}
    assert drawn.blank == ()

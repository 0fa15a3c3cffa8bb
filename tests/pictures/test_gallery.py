"""The pictures in docs/: one for each dashboard, small, and shown."""

from __future__ import annotations

import re

from tests.sources import ROOT

PICTURES = ROOT / "docs" / "images" / "dashboards"
PAGE = ROOT / "docs" / "dashboards.md"
NAMES = {path.stem for path in (ROOT / "dashboards").glob("*.json")}
MAX_BYTES = 200_000


def test_every_dashboard_has_a_picture_on_the_page() -> None:
    """Nothing is missing, and no picture is left of a dashboard that is gone."""
    shown = re.findall(
        r"!\[[^\]]+\]\(images/dashboards/([\w-]+)\.png\)", PAGE.read_text(encoding="utf-8")
    )
    assert set(shown) == {path.stem for path in PICTURES.glob("*.png")} == NAMES
    assert len(shown) == len(set(shown))


def test_the_pictures_are_small() -> None:
    """A page of them loads at once."""
    assert {
        path.name: path.stat().st_size
        for path in PICTURES.iterdir()
        if path.stat().st_size >= MAX_BYTES
    } == {}

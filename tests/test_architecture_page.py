"""docs/architecture.md: the picture is drawn from its source, and what the page names exists."""

from __future__ import annotations

import re
import runpy
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

from pipeline.plugin import load
from tests.sources import PACKAGES, ROOT
from tests.test_architecture import NAMED_UPWARDS

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DRAWING = runpy.run_path(str(ROOT / "docs" / "build_architecture.py"))


def test_the_picture_is_fresh() -> None:
    """The committed SVG is what `make docs` would draw now, and well formed."""
    drawn = DRAWING["picture"]()
    assert drawn == DRAWING["TARGET"].read_text(encoding="utf-8"), "stale: run make docs"
    assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314 - written by the code under test


def test_no_two_boxes_of_the_picture_overlap() -> None:
    """Each box has a place of its own, within the picture."""
    boxes = DRAWING["BOXES"]
    for box in boxes:
        assert 0 <= box.x < box.x + box.width <= DRAWING["WIDTH"]
        assert 0 <= box.y < box.y + box.height <= DRAWING["HEIGHT"]
    for one, other in combinations(boxes, 2):
        apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
        apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert apart_x or apart_y, (one.title, other.title)


def test_every_path_that_the_page_names_exists() -> None:
    """Files and folders of the repository, in code font."""
    paths = re.findall(r"`((?:pipeline|detectors|collector|rules|tests)/[\w/.]+)`", PAGE)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_packages_are_listed_in_the_order_of_their_imports() -> None:
    """As tests/test_architecture.py holds them."""
    places = [PAGE.index(f"\n| `{package}` |") for package in PACKAGES]
    assert all(before < after for before, after in pairwise(places))


def test_the_page_names_every_place_that_reaches_a_later_package() -> None:
    """A named seam that is added is documented, with the reason."""
    assert [file for file, _ in NAMED_UPWARDS if f"`{file}`" not in PAGE] == []
    assert f"{len(NAMED_UPWARDS)} places".replace("10", "Ten") in PAGE
    assert load("pipeline.plugin:load") is load

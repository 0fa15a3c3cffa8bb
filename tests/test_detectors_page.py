"""docs/detectors.md cannot rot: it is made from the detectors, has all of them,
and what it names exists.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET

import pytest

from detectors import DETECTORS, PAGES
from detectors.kit.page import Page
from detectors.paging import PROVED
from evaluation.metrics.curve import BUDGETS
from pipeline import child
from pipeline.frame import schema_of
from tests.sources import ROOT
from tests.wait import PATIENCE_S

DOCS = str(ROOT / "docs")
PAGE = ROOT / "docs" / "detectors.md"


def run(code: str) -> str:
    """What a few lines print that may import what makes the page."""
    made = child.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path[:0] = [{str(ROOT)!r}, {DOCS!r}]; {code}",
        ],
        timeout_s=PATIENCE_S,
        max_bytes=8 << 20,
    )
    assert made.returncode == 0, made.stderr.decode()
    return made.stdout.decode()


@pytest.mark.slow
def test_the_page_is_fresh() -> None:
    """docs/detectors.md is what `make docs` would write now."""
    text = run("import build_detectors; sys.stdout.write(build_detectors.detectors())")
    assert text == PAGE.read_text(encoding="utf-8"), "stale: run make docs"


@pytest.mark.parametrize("name", DETECTORS)
def test_every_page_says_how_its_findings_end(name: str) -> None:
    """In a sentence of its own."""
    (clears,) = [line for line in section(name).splitlines() if line.startswith("- **Clears:**")]
    assert clears.endswith(".")
    assert len(clears.split()) > 5


@pytest.mark.parametrize("name", DETECTORS)
def test_every_page_has_its_defaults_in_plain_numbers(name: str) -> None:
    """Those of its tables too, and no value is a piece of code."""
    values = [line.split(" | ")[1] for line in section(name).splitlines() if line.startswith("| `")]
    assert values
    assert [
        value for value in values if re.search(r"\*|<<|[][{}]|\w\(|\b[A-Z_]{2,}\b|^ *$", value)
    ] == []


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("availability", "| `hung` | 10 s | page: "),
        ("throttle", "| `sw_thermal` | 20 % of the time "),
        ("ib_errors", "| `vl15_dropped` | 50 in 2 of 3 windows | record: "),
        ("ib_adapter", "| `temperature` | ticket | "),
        ("ib_saturation", "| `judged` | symbol_errors, "),
        ("hang", "| `MIN_S` | (180 s, 420 s, 180 s, 660 s, 600 s) | "),
        ("straggler", "| `BETWEEN` | (floor 0.1, sigmas 5, blocks 10) | "),
    ],
)
def test_a_limit_that_stands_in_a_table_or_a_class_is_shown(name: str, row: str) -> None:
    """A constant is not the only place for one."""
    assert row in section(name)


def section(name: str) -> str:
    """What the page says of a detector."""
    return PAGE.read_text(encoding="utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_the_head_says_how_many_page() -> None:
    """As many as are marked so, which are those that do."""
    assert f"{len(PROVED)} of these {len(DETECTORS)} detectors page as shipped" in PAGE.read_text(
        encoding="utf-8"
    )
    assert {name for name in DETECTORS if "**Default:** may page" in section(name)} == PROVED


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if not page.scored_as])
def test_a_detector_without_a_scenario_says_that_it_has_no_curve(name: str) -> None:
    """And why, in a sentence, and shows none."""
    assert f"- **Operating curve:** none: {PAGES[name].unscored}\n" in section(name)
    assert len(PAGES[name].unscored.split()) > 5
    assert "images/curves" not in section(name)


def test_a_curve_that_is_shared_names_the_others() -> None:
    """The class of a rack's cooling is that of a GPU's: each page with that
    curve says who else's it is.
    """
    thermal = {name for name, page in PAGES.items() if "thermal" in page.scored_as}
    assert len(thermal) > 1
    for name in thermal:
        (line,) = [
            line
            for line in section(name).splitlines()
            if line.startswith("- **Operating curve:** class `thermal`")
        ]
        assert {other for other in PAGES if f"(#{other})" in line} == thermal - {name}


def test_faults_of_nvlinks_are_a_class_of_their_own() -> None:
    """Who tells of NVLinks is shown by the curve of `nvlink`, as F23 names them, and
    not by that of InfiniBand.
    """
    assert {name for name, page in PAGES.items() if "nvlink" in page.scored_as} == {
        "nvlink",
        "fec_tail",
    }
    assert "curves/nvlink.svg" in section("nvlink")


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_evidence_is_in_columns_that_exist(page: Page) -> None:
    """What a page says that a fault shows in stands in the catalogue."""
    for kind, column in page.shows:
        schema = schema_of(kind)
        assert column in schema.gauge_row or column in schema.counter_row


@pytest.mark.slow
def test_constants_come_with_their_comments() -> None:
    """A number of the straggler's, with what its author wrote beside it."""
    text = run(
        "import build_detectors, detectors.straggler as m;"
        "print([row.why for row in build_detectors.defaults(m) if row.names == 'BLOCK_S'][0])"
    )
    assert "block means" in text


@pytest.mark.slow
def test_a_curve_is_a_picture_with_every_contestant() -> None:
    """Two contestants, one of whom found nothing at the strictest budget: a
    well-formed SVG that names both.
    """
    recall = {"value": 0.9, "low95": 0.8, "high95": 0.95, "of": 40}
    nothing = {"value": None, "low95": 0.0, "high95": 1.0, "of": 0}
    points = [
        {"recall": nothing, "resolved": False},
        *({"recall": recall, "resolved": True} for _ in BUDGETS[1:]),
    ]
    rows = [{"contestant": name, "scope": "fleet", "points": points} for name in ("gpud", "ours")]
    text = run(f"import curves; sys.stdout.write(curves.curve('ib-ber', {BUDGETS!r}, {rows!r}))")
    drawn = ET.fromstring(text)  # noqa: S314 - written by the code under test
    words = [element.text or "" for element in drawn.iter() if element.tag.endswith("text")]
    assert [word for word in words if "40 cases" in word] == ["ours (40 cases)", "gpud (40 cases)"]

"""The cluster's page for everybody: keyboard, small screens, screen readers, light and dark."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from tests.browser import Browser, Page
from tests.collector.web.served import accessible, loaded, press, unfold
from tests.collector.web.test_in_browser import CONTRASTS
from tests.gateway.page.conftest import SHOWN
from tests.gateway.page.served import Served

pytestmark = pytest.mark.integration

PANELS = ("", "#node/node-0003", "#rack/rack-01", "#leaf/leaf-0-1", "#job/4712")


def axe(page: Page) -> list[Any]:
    """What axe finds wrong, in all of its rules."""
    source = files_of_axe()
    page.evaluate(source + "; true")
    found: list[Any] = page.evaluate(
        "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => "
        "[id, nodes.map(({ html, failureSummary }) => [html, failureSummary])]))"
    )
    return found


def files_of_axe() -> str:
    """axe-core, as its package has it."""
    return files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("panel", PANELS)
def test_axe_has_nothing_to_say(
    browser: Browser, served: Served, panel: str, *, dark: bool
) -> None:
    """All rules of axe, on the page and with each panel; contrast of each text too."""
    page = loaded(browser.open(served.url + panel, dark=dark), SHOWN)
    unfold(page)
    assert axe(page) == []
    assert page.evaluate(CONTRASTS) == []
    page.close()


@pytest.mark.parametrize("width", [320, 390, 768])
@pytest.mark.parametrize("panel", PANELS[:2])
def test_a_small_screen_scrolls_one_way(
    browser: Browser, served: Served, width: int, panel: str
) -> None:
    """Nothing is wider than the window, with a panel too."""
    served.cluster.find(served.cluster.gpu(2, 1), "xid", "x" * 300, reason="y" * 300)
    served.cluster.read()
    page = loaded(browser.open(served.url + panel, width=width, height=740), SHOWN)
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    inner = "document.getElementById('detail')"
    assert page.evaluate(f"{inner}.scrollWidth <= {inner}.clientWidth")
    page.close()


def test_a_finger_hits_what_it_means(browser: Browser, served: Served) -> None:
    """WCAG 2.2 AA (2.5.8): what is to be touched is at least 24 pixels high and wide, or stands
    within a sentence.
    """
    page = loaded(browser.open(served.url, width=390, height=740), SHOWN)
    small = page.evaluate(
        "[...document.querySelectorAll('button, select, input, nav a')].filter((one) => "
        "one.checkVisibility()).map((one) => [one.textContent, one.getBoundingClientRect()])"
        ".filter(([, size]) => size.height < 24 || size.width < 24).map(([text]) => text)"
    )
    assert small == []
    page.close()


def test_the_keyboard_reaches_everything_in_the_order_of_reading(page: Page) -> None:
    """First the way past the header, then search, incidents, map, jobs, what is over, links; each
    with a ring around it.
    """
    reached: list[str] = []
    for _ in range(80):
        press(page, "Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        part = page.evaluate(
            "document.activeElement.closest('search, section[id], footer, header, aside')"
            "?.id || document.activeElement.closest('search, footer, header').localName"
        )
        if part not in reached[-1:]:
            reached.append(part)
    assert reached == [
        *("header", "search", "incidents", "racks", "jobs", "ended", "closed", "footer"),
    ]


def test_a_screen_reader_finds_its_way(page: Page) -> None:
    """Landmarks, headings, tables and the map have names; what can be pressed has a name too."""
    tree = accessible(page)
    named = {(node["role"], node["name"]) for node in tree}
    assert {
        ("main", ""),
        ("region", "Open incidents"),
        ("region", "Racks, nodes and GPUs"),
        ("listbox", "Map of racks, nodes and GPUs"),
        ("combobox", "Search"),
        ("table", "Jobs"),
        ("table", "Ended jobs"),
        ("heading", "Tocsin on c1"),
        ("button", "Larger"),
    } <= named
    roles = ("link", "button", "table", "columnheader", "rowheader", "heading", "combobox")
    assert [node for node in tree if node["role"] in roles and not node["name"].strip()] == []

"""The charts of the page in a real browser: value and time under the pointer, by touch, and by
keyboard; and the page of an incident.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from collector.config.links import Links
from tests.browser import Browser, Page
from tests.collector.web.served import Served, accessible, loaded, pass_time, point, press, text
from tests.fakes import gpu

pytestmark = pytest.mark.integration
POWER = "#cell-GPU-00000000 .figures > div:nth-child(2)"


@pytest.fixture
def node() -> Iterator[Served]:
    """A node whose GPU 0 took 650 W for five minutes, and 320 W for the last minute."""
    served = Served()
    served.scene.play(270)
    served.scene.gpus[0][1].update(power_milliwatts=320_000)
    served.scene.play(60)
    yield served
    served.close()


@pytest.fixture
def page(browser: Browser, node: Served) -> Iterator[Page]:
    """Its page."""
    opened = loaded(browser.open(node.url))
    yield opened
    opened.close()


def shown(page: Page, of: str = POWER) -> str:
    """The value of a chart that a reader sees."""
    return str(page.evaluate(f"document.querySelector({of!r} + ' .value').innerText"))


def test_a_chart_says_value_and_time_under_the_pointer(page: Page) -> None:
    """All charts show that moment, with a line; away from it they show the present again."""
    assert shown(page) == "320 W"
    point(page, f"{POWER} .past", 0.6)
    assert shown(page) == "650 W"
    assert text(page, "#when") == "08:02:00 UTC, 4 min 0 s ago"
    lines = "[...document.querySelectorAll('.cursor')].map((one) => one.getAttribute('d'))"
    assert set(page.evaluate(lines)) == {"M71 0V20"}
    point(page, "h1", 0.5)
    assert shown(page) == "320 W"
    assert (text(page, "#when"), set(page.evaluate(lines))) == ("", {""})
    assert page.complaints == []


def test_where_nothing_was_read_a_chart_says_so(page: Page) -> None:
    """A gap is neither zero nor the present."""
    point(page, f"{POWER} .past", 0.01)
    assert shown(page) == "no data"


def test_a_moment_stays_while_the_page_is_live(page: Page, node: Served) -> None:
    """News arrive, the line moves to the left, and the value is that of the moment."""
    point(page, f"{POWER} .past", 0.6)
    node.scene.play(10)
    pass_time(page, 2.5)
    assert (shown(page), text(page, "#when")) == ("650 W", "08:02:00 UTC, 4 min 10 s ago")


def test_a_finger_does_what_a_pointer_does(page: Page) -> None:
    """And the moment stays until something else is touched."""
    page.ask("Emulation.setTouchEmulationEnabled", enabled=True)
    point(page, f"{POWER} .past", 0.6, touch=True)
    assert shown(page) == "650 W"
    point(page, "h1", 0.5, touch=True)
    assert shown(page) == "320 W"


def test_the_keyboard_moves_the_moment(page: Page) -> None:
    """A slider per cell, back in steps of five seconds, spoken with all values; Escape is now."""
    page.evaluate("document.querySelector('#cell-GPU-00000000 .scrub').focus()")
    for _ in range(20):
        press(page, "ArrowLeft")
    assert (shown(page), text(page, "#when")) == ("650 W", "08:04:20 UTC, 1 min 40 s ago")
    (slider,) = [one for one in accessible(page) if one["name"] == "Time in the charts of GPU 0"]
    assert slider["role"] == "slider"
    spoken = page.evaluate("document.activeElement.getAttribute('aria-valuetext')")
    assert spoken == (
        "08:04:20 UTC, 1 min 40 s ago: Utilisation 98 %, Power 650 W, Temperature 61 °C, "
        "Memory 60.0 GiB"
    )
    press(page, "Escape")
    assert shown(page) == "320 W"


def test_without_script_there_is_no_slider(page: Page) -> None:
    """What does nothing is not shown."""
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.ask("Page.reload")
    loaded(page, once="document.getElementById('manner').textContent === 'Read '")
    style = "getComputedStyle(document.querySelector('.scrub')).display"
    assert page.evaluate(style) == "none"


def test_an_incident_has_a_page_of_its_own(browser: Browser, page: Page, node: Served) -> None:
    """Linked from its card, live, and it says how the incident ended."""
    scene = node.scene
    finding = scene.say(gpu(1), "It left the bus.", evidence=("state lost",))
    incident = scene.blame(finding)
    pass_time(page, 2.5)
    link = page.evaluate("document.querySelector('.links a').href")
    assert link == f"{node.url}incidents/{incident.id}"
    own = loaded(browser.open(link))
    with contextlib.closing(own):
        left = "GPU 1 on n1 (serial 165216901): It left the bus."
        assert text(own, ".verdict") == left
        assert "state lost" in text(own, "#now")
        scene.is_over(finding, "it is read again")
        scene.end(incident)
        pass_time(own, 2.5)
        assert text(own, ".verdict") == f"Closed. It was: {left}"
        assert "How it ended It is read again." in text(own, "#facts")
        assert "it is read again" in text(own, "#over")
        assert own.complaints == []
    pass_time(page, 2.5)
    assert "It is read again." in text(page, "#closed")


def test_links_of_the_site_open_elsewhere(page: Page, node: Served) -> None:
    """In a tab of their own that cannot reach back; each with a name of its own."""
    node.scene.pages.links = Links(
        "https://wiki.example.org/#{alert}", "https://g.example.org/{gpu}"
    )
    node.scene.blame(node.scene.say(gpu(1), "It left the bus.", fault="gpu_lost"))
    pass_time(page, 2.5)
    links = page.evaluate(
        "[...document.querySelectorAll('.links a[target]')].map((one) => "
        "[one.textContent, one.href, one.target, one.rel])"
    )
    kept = ["_blank", "noopener noreferrer"]
    device = "of GPU 1 on n1"
    assert links == [
        [f"Runbook {device}", "https://wiki.example.org/#tocsingpulost", *kept],
        [f"Dashboard {device}", "https://g.example.org/1", *kept],
    ]


def test_an_incident_that_nobody_knows_is_not_found(browser: Browser, node: Served) -> None:
    """The page says where it may be."""
    own = loaded(browser.open(f"{node.url}incidents/00000000"))
    with contextlib.closing(own):
        assert "tocsin explain 00000000" in text(own, "main")

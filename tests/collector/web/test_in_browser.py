"""The status page in a real browser: live, honest when the agent is gone, and usable with eyes,
ears, keyboard and a small screen.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from collector.web.status import Node
from pipeline.catalog import agent
from pipeline.frame import Device
from tests.browser import Browser, Page
from tests.collector.web.served import Served, accessible, loaded, pass_time, press, text, unfold
from tests.fakes import gpu

pytestmark = pytest.mark.integration
GPU_0_LEFT = "Failed: GPU 0 on n1 (serial 165216900): It left the bus."
GPU_1_LEFT = "Failed: GPU 1 on n1 (serial 165216901): It left the bus."


@pytest.fixture
def node() -> Iterator[Served]:
    """A node whose page is served."""
    served = Served()
    yield served
    served.close()


@pytest.fixture
def page(browser: Browser, node: Served) -> Iterator[Page]:
    """Its page."""
    opened = loaded(browser.open(node.url))
    yield opened
    opened.close()


def test_it_loads_without_a_word_in_the_console(page: Page) -> None:
    """Style and script arrive under the policy that the server sends, and nothing is refused."""
    assert text(page, ".verdict").startswith("Healthy. 2 GPUs")
    assert page.evaluate("getComputedStyle(document.querySelector('.cells')).display") == "grid"
    assert page.complaints == []


def test_it_follows_what_happens(page: Page, node: Served) -> None:
    """A GPU that is lost is told within the time of one question, and so is its return,
    without loading the page again.
    """
    page.evaluate("window.same = true")
    finding = node.scene.say(gpu(1), "It left the bus.")
    node.scene.blame(finding)
    pass_time(page, 2.5)
    assert text(page, ".verdict").startswith(GPU_1_LEFT)
    assert page.evaluate("document.title") == "Failed: n1 - Tocsin"
    assert page.evaluate("window.same") is True
    assert page.complaints == []


def test_news_that_a_job_wrote_stays_text(page: Page, node: Served) -> None:
    """Markup in a job's name, a note and a kernel log reaches the live page as characters: nothing
    is made of it, nothing runs.
    """
    hostile = "</p><img src=x onerror='window.owned = 1'><script>window.owned = 1</script>"
    node.scene.jobs = [Device("n1", "job", hostile, {})]
    node.scene.hold(gpu(0), job=hostile)
    node.scene.play().blame(
        node.scene.say(gpu(1), hostile, evidence=(hostile,)), note=hostile, acknowledged_ns=1
    )
    pass_time(page, 2.5)
    assert hostile in text(page, ".verdict")
    assert page.evaluate("document.querySelectorAll('img, main script').length") == 0
    assert page.evaluate("window.owned") is None
    assert page.complaints == []


def test_new_numbers_reach_their_cells(page: Page, node: Served) -> None:
    """The value and its line."""
    line = "document.querySelector('#cell-GPU-00000000 .line:nth-of-type(2)').getAttribute('d')"
    before = page.evaluate(line)
    node.scene.gpus[0][1].update(gpu_utilization_percent=3)
    node.scene.play(10)
    pass_time(page, 2.5)
    assert "3 %" in text(page, "#cell-GPU-00000000")
    assert page.evaluate(line) != before


def test_nobody_is_asked_while_nobody_looks(page: Page, node: Served) -> None:
    """A tab in the background costs the agent nothing; looked at again it asks at once."""
    pass_time(page, 0.1)
    before = node.asked
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    pass_time(page, 60)
    assert node.asked == before
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    pass_time(page, 0.5)
    assert node.asked == before + 1


def test_an_agent_that_is_gone_is_said(page: Page, node: Served) -> None:
    """As an alert, with the age of what is still shown; and taken back once it answers again."""
    node.stop()
    pass_time(page, 70)
    said = text(page, "#silence")
    assert said.startswith(
        "The agent does not answer. "
        "This page shows the state of 2027-01-15 08:00:30 UTC, 1 min ago."
    )
    assert page.evaluate("document.getElementById('silence').getAttribute('role')") == "alert"
    node.start()
    pass_time(page, 2.5)
    assert text(page, "#silence") == ""


def test_an_agent_that_answers_with_something_else_is_said(page: Page, node: Served) -> None:
    """An error of the agent is not taken for its page."""
    node.scene.missing = None  # type: ignore[assignment]  # a fault in the agent's own code
    node.scene.pages.unready = lambda: 1 / 0  # type: ignore[assignment, return-value]
    pass_time(page, 2.5)
    assert text(page, "#silence").startswith("The agent answered 500 instead of the page.")


def test_another_version_of_the_agent_brings_its_own_script(page: Page, node: Served) -> None:
    """A page that is left open over an upgrade loads itself again."""
    page.evaluate("window.same = true")
    node.scene.pages._node = Node("n1", "0.2.0")
    page.evaluate("ask()")  # time that is made to pass would begin again with the page
    assert "Tocsin 0.2.0" in text(loaded(page, once="window.same === undefined"), "footer")


def test_without_script_it_is_whole_and_asks_again(page: Page) -> None:
    """Everything is there, nothing says that it is live, and the browser is told to ask again."""
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    page.ask("Page.reload")
    loaded(page, once="document.getElementById('manner').textContent === 'Read '")
    assert text(page, ".verdict").startswith("Healthy. 2 GPUs")
    assert page.evaluate("document.querySelectorAll('.cell').length") == 4
    assert page.evaluate("document.querySelector('noscript meta').content") == "10"


def test_what_is_unfolded_and_focused_stays_so(page: Page, node: Served) -> None:
    """News does not take the reader's place away, even where an incident comes
    before it and goes again.
    """
    page.evaluate("document.querySelector('#cell-GPU-00000001 summary').focus()")
    press(page, "Enter")
    incident = node.scene.blame(node.scene.say(gpu(0), "It left the bus."))
    pass_time(page, 2.5)
    assert text(page, ".verdict").startswith(GPU_0_LEFT)
    node.scene.end(incident)
    pass_time(page, 2.5)
    assert page.evaluate("document.getElementById('incidents')") is None
    assert page.evaluate("document.querySelector('#cell-GPU-00000001 details').open") is True
    assert page.evaluate("document.activeElement.closest('li').id") == "cell-GPU-00000001"


def test_the_keyboard_reaches_everything_in_the_order_of_reading(page: Page, node: Served) -> None:
    """First the way past the header, then what unfolds from top to bottom, then the links;
    each with a ring around it.
    """
    reached = []
    for _ in range(40):
        press(page, "Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        reached.append(page.evaluate(REACHED))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached == [
        "Skip to the verdict",
        "Time in the charts of GPU 0",
        "Identity of GPU 0",
        "Time in the charts of GPU 1",
        "Identity of GPU 1",
        "Time in the charts of Port mlx5_0/1",
        "Identity of Port mlx5_0/1",
        "Time in the charts of Port mlx5_1/1",
        "Identity of Port mlx5_1/1",
        "Metrics",
        "Status as JSON",
        "Incidents as JSON",
        "Health as JSON",
        "Healthy",
        "Ready",
    ]


def test_a_finger_hits_what_it_means(page: Page) -> None:
    """WCAG 2.2 AA (2.5.8): everything to touch is at least 24 pixels high and wide."""
    sizes = (
        "[...document.querySelectorAll('summary, nav a')].map((one) => one.getBoundingClientRect())"
    )
    assert (
        page.evaluate(f"{sizes}.filter((size) => size.height < 24 || size.width < 24).length") == 0
    )
    assert page.evaluate(f"{sizes}.length") == 10


def test_a_screen_reader_finds_its_way(page: Page, node: Served) -> None:
    """Landmarks, headings and tables have names; the verdict is a polite live region and
    says its level in words.
    """
    node.scene.blame(node.scene.say(gpu(1), "It left the bus."))
    pass_time(page, 2.5)
    tree = accessible(page)
    named = {(node["role"], node["name"]) for node in tree}
    assert {
        ("main", ""),
        ("navigation", "For programs"),
        ("region", "GPUs"),
        ("table", "Sources"),
    } <= named
    assert {
        ("columnheader", "Last read"),
        ("rowheader", "nvml"),
        ("heading", "Tocsin on n1"),
    } <= named
    (status,) = [node for node in tree if node["role"] == "status"]
    assert status["live"] == "polite"
    assert text(page, "[role=status]").startswith(GPU_1_LEFT)


def test_everything_that_can_be_reached_or_pictured_has_a_name(page: Page, node: Served) -> None:
    """No link, picture or thing to unfold is told as nothing."""
    roles = (
        "link",
        "image",
        "img",
        "DisclosureTriangle",
        "button",
        "table",
        "columnheader",
        "rowheader",
        "heading",
    )
    assert [
        node for node in accessible(page) if node["role"] in roles and not node["name"].strip()
    ] == []


def test_two_things_to_unfold_are_never_told_alike(page: Page, node: Served) -> None:
    """Each says whose identity it unfolds."""
    reported = [node["name"] for node in accessible(page) if node["role"] == "DisclosureTriangle"]
    assert len(reported) == len(set(reported)) == 4


@pytest.mark.parametrize("width", [320, 360, 768])
def test_a_small_screen_scrolls_one_way(browser: Browser, node: Served, width: int) -> None:
    """Nothing is wider than the window, with an incident, evidence without a space,
    and everything unfolded.
    """
    scene = node.scene
    finding = scene.say(gpu(1), "It left the bus.", evidence=("NVRM:" + "x" * 300,))
    scene.end(scene.blame(scene.say(gpu(0), "It left.", fault="gpu_lost")), "why-" * 60)
    scene.blame(finding)
    page = loaded(browser.open(node.url, width=width, height=740))
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_can_be_read(browser: Browser, node: Served, *, dark: bool) -> None:
    """WCAG 2.2 AA (1.4.3): a contrast of 4.5 between each text and what is behind it,
    in all levels of health.
    """
    scene = node.scene
    scene.blame(scene.say(gpu(1), "It left the bus.", evidence=("x",)))
    scene.blame(
        scene.say(gpu(0), "Warm.", severity="ticket"),
        acknowledged_ns=1,
        acknowledged_by="ada",
        note="on it",
    )
    scene.say(scene.ports[0][0], "It flaps.", severity="record")
    scene.take_out(scene.ports[1][0])
    scene.source("infiniband", reads=False)
    scene.end(scene.blame(scene.say(scene.ports[1][0], "Down.", severity="ticket")))
    scene.metrics.set(agent.SOURCE_LATE, 1, "nvml")
    page = loaded(browser.open(node.url, dark=dark))
    unfold(page)
    assert page.evaluate(CONTRASTS) == []
    page.close()


REACHED = "document.activeElement.ariaLabel ?? document.activeElement.textContent"

# Texts whose contrast is too small, with what it is. Colours are painted onto a canvas, which
# knows all ways to write them.
CONTRASTS = """
(() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const over = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const found = [];
    for (let at = element; at; at = at.parentElement) found.unshift(getComputedStyle(at).backgroundColor);
    return found;
  };
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || element.closest(".unseen, .skip, noscript")) continue;
    const ground = behind(element);
    const [a, b] = [luminance(over(ground)), luminance(over([...ground, getComputedStyle(element).color]))].sort();
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) poor.push([walk.currentNode.nodeValue.trim(), contrast.toFixed(2)]);
  }
  return poor;
})()
"""  # noqa: E501 - text as it is used

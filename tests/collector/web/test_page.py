"""The status page as the server sends it: complete without JavaScript, and safe
whatever a job calls itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from collector.web.page import ASSETS, incident_page
from pipeline.catalog import agent
from pipeline.frame import Device
from tests.collector.web.scene import Scene
from tests.fakes import gpu

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202egpj\udcff'
VOID = {"meta", "link", "img", "input"}


class Reader(HTMLParser):
    """What a browser would make of the page: its elements with their attributes,
    and its text by element.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]


def text(scene: Scene) -> str:
    """The words of a scene's page."""
    return Reader(scene.page()).text


def test_the_page_is_whole_html() -> None:
    """Every element is closed in order, no id occurs twice."""
    scene = Scene().play(3)
    scene.blame(scene.say(gpu(0), "Gone."))
    read = Reader(scene.page())
    assert read.open == []
    assert len(read.ids()) == len(set(read.ids()))


def test_nothing_on_the_page_comes_from_elsewhere() -> None:
    """One style sheet and one script of our own, by relative addresses: it works below any prefix,
    and where there is no way out.
    """
    read = Reader(Scene().play().page())
    linked = [a.get("src") or a.get("href") for _, a in read.elements if "src" in a or "href" in a]
    assert {"page.css", "page.js", "metrics", "api/v1/status"} <= set(linked)
    assert [link for link in linked if link and link.startswith(("http", "//", "/"))] == []
    assert {f"/{link}" for link in linked if link and link.startswith("page.")} == ASSETS.keys()


def test_no_script_or_style_stands_in_the_page() -> None:
    """The policy that the server sends forbids both, so neither may be needed."""
    read = Reader(Scene().play().page())
    assert [a for tag, a in read.elements if tag in ("script", "style") and "src" not in a] == []
    assert [
        a for _, a in read.elements if "style" in a or any(name.startswith("on") for name in a)
    ] == []


def test_a_browser_without_script_asks_again() -> None:
    """Once in ten seconds."""
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in Scene().play().page()


def test_numbers_are_in_the_units_of_people() -> None:
    """Degrees, watts, gibibytes, gigabits."""
    words = text(Scene().play(3))
    for word in ("98 %", "650 W", "61 °C", "60.0 GiB", "160 Gb/s", "80.0 Gb/s"):
        assert word in words


def test_what_was_not_read_says_so() -> None:
    """A missing value is neither zero nor absent."""
    scene = Scene()
    scene.gpus[1][1].update(state=2, power_milliwatts=float("nan"))
    words = text(scene.play())
    assert "hung" in words
    assert "not read" in words


def test_every_number_has_its_last_minutes_in_words_too() -> None:
    """A sparkline is a picture; its range is told to those who cannot see it."""
    scene = Scene().play(10)
    scene.gpus[0][1].update(power_milliwatts=320_000)
    scene.play(10)
    assert 'aria-label="in the last ten minutes 320 W to 650 W"' in scene.page()


def test_an_incident_says_whom_what_why_and_what_to_do() -> None:
    """The GPU by its number, the evidence in order, the next step, the id to take it on with."""
    scene = Scene().play()
    first = scene.say(gpu(1), "XID 79.", evidence=("the bus lost it", "NVLink went down"))
    second = scene.say(gpu(0), "A peer is gone.")
    incident = scene.blame(first, second)
    words = text(scene)
    for word in (
        "GPU 1 on n1 (serial 165216901): XID 79.",
        "NVLink went down",
        "2 open findings",
        "RESTART_BM",
        "power-cycle",
    ):
        assert word in words
    assert f"tocsin ack {incident.id[:8]}" in words
    assert f'href="incidents/{incident.id}"' in scene.page()


def test_what_no_incident_tells_is_told_beside_the_verdict() -> None:
    """A port that is down while a GPU is to blame for something else."""
    scene = Scene()
    scene.ports[1][1].update(state=1)
    scene.play().blame(scene.say(gpu(0), "Gone."))
    assert "Also: port mlx5_1/1 is down; not part of an incident." in text(scene)


def test_a_port_that_is_down_is_told_though_another_source_is_blind() -> None:
    """What is not seen does not hide what is."""
    scene = Scene()
    scene.ports[1][1].update(state=1)
    scene.play().source("nvml", reads=False)
    words = text(scene)
    assert "Incomplete view of this node: no data from nvml." in words
    assert "Also: port mlx5_1/1 is down; not part of an incident." in words


def test_what_an_incident_explains_is_not_told_twice() -> None:
    """The port whose link the lost GPU took down is among the evidence."""
    scene = Scene()
    scene.ports[1][1].update(state=1)
    gone = scene.play().say(gpu(0), "Gone.")
    scene.blame(gone, scene.say(scene.ports[1][0], "Down.", severity="record"))
    assert "Also:" not in text(scene)


def test_an_incident_says_how_long_it_is_open() -> None:
    """In the two largest units."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(1), "XID 79."))
    scene.clock.advance(3 * 60)
    assert "Open for 3 min" in text(scene)


def test_who_took_an_incident_on_is_said() -> None:
    """By name, with what they wrote, in place of the call for somebody."""
    scene = Scene().play()
    scene.blame(
        scene.say(gpu(1), "XID 79."),
        acknowledged_ns=scene.clock.time_ns(),
        acknowledged_by="ada",
        note="RMA 4711",
    )
    words = text(scene)
    assert "Acknowledged by ada" in words
    assert "RMA 4711" in words
    assert "tocsin ack" not in words


def test_who_took_on_less_than_it_is_now_is_said_beside_the_call_for_somebody() -> None:
    """Another device's page has joined: the acknowledgement is over, and whoever comes
    knows who is there already.
    """
    scene = Scene().play()
    scene.blame(scene.say(gpu(1), "XID 79."), acknowledged_by="ada", note="RMA 4711")
    words = text(scene)
    assert "tocsin ack" in words
    assert "Before it grew, ada acknowledged it: RMA 4711" in words


def test_what_is_out_of_service_is_said_with_until_when_and_why() -> None:
    """Among the remarks, and in the cell."""
    scene = Scene().play()
    scene.take_out(gpu(1), "burning in")
    words = text(scene)
    assert "GPU 1 is out of service until 2027-01-15 09:00:01 UTC: burning in (ada)" in words


def test_a_finding_of_a_detector_on_trial_is_on_record() -> None:
    """Shown with its evidence, apart from the incidents, and nobody is paged for it."""
    scene = Scene().play()
    scene.say(scene.ports[0][0], "The link went down twice.", severity="record", fault="ib_flap")
    words = text(scene)
    assert "Other findings" in words
    assert "The link went down twice." in words
    assert "Open incidents" not in words


def test_an_incident_that_alerts_nobody_is_info() -> None:
    """On its card, on its page, and among those that are closed; the JSON has the stored value."""
    scene = Scene().play()
    incident = scene.blame(scene.say(gpu(1), "Row remaps pending: 1.", severity="record"))
    document = scene.pages.incident(incident.id)
    assert document is not None
    pages = [text(scene), Reader(incident_page(document)).text]
    scene.end(incident)
    assert "was info" in (over := text(scene))
    assert "Info: GPU 1 on n1" in incident_page(document)
    assert "infoRow remaps pending: 1." in pages[0]
    assert "severityinfo" in pages[1]
    assert not any(re.search(r"\brecord\b", page) for page in (*pages, over))
    assert document["severity"] == "record"


def test_a_stalled_job_is_named_with_its_verdict() -> None:
    """Its state, since when it stands still, and what the evidence says, in words."""
    scene = Scene().play()
    rank = Device("n1", "gpu", gpu(1).id, {"index": "1", "job": "4711"})
    scene.say(rank, "Rank 1 never came.", fault="hang/host_hang")
    scene.clock.advance(90)
    scene.play()
    words = text(scene)
    assert "stalled for 1 min" in words
    assert "it is stuck outside NCCL" in words


def test_a_gpu_says_who_holds_it() -> None:
    """Jobs and pods, several where it is shared."""
    scene = Scene()
    scene.hold(gpu(1), scheduler="slurm", job="71", user="ada", job_name="train")
    scene.hold(gpu(1), scheduler="kubernetes", namespace="ml", pod="infer-0")
    words = text(scene.play())
    assert "job 71 (ada, train) · pod ml/infer-0" in words
    assert words.count("no job") == 1


def test_where_nobody_tells_of_holders_nothing_is_said_of_them() -> None:
    """A node without a scheduler has no GPUs that are free."""
    assert "held by" not in text(Scene().play())


def test_a_blind_source_is_said_where_it_counts() -> None:
    """In the table of sources, and beside a verdict that is about something else."""
    scene = Scene().play()
    scene.blame(scene.say(gpu(1), "XID 79."))
    scene.source("infiniband", reads=False)
    words = text(scene)
    assert "No data from infiniband: faults there go undetected." in words


def test_a_refused_configuration_is_said() -> None:
    """The agent's own health is on the page."""
    scene = Scene().play()
    scene.metrics.set(agent.CONFIG_RELOAD_SUCCESS, 0)
    assert "The last reload failed" in text(scene)


def test_a_simulated_node_says_so() -> None:
    """Nobody can take a rehearsal for hardware."""
    assert "This node is simulated (hgx-h100). No reading here comes from hardware." in text(
        Scene(simulated="hgx-h100").play()
    )


def test_a_node_without_devices_has_a_page() -> None:
    """No driver, no adapter and no reading yet are states, not errors."""
    words = text(Scene())
    assert "No GPU found." in words
    assert "No port found." in words


def hostile_name() -> Scene:
    """A GPU and a host of that name."""
    return Scene(name=HOSTILE, host=HOSTILE).play()


def hostile_job() -> Scene:
    """A job of that name."""
    scene = Scene()
    scene.jobs = [Device("n1", "job", HOSTILE, {})]
    scene.hold(gpu(1), job=HOSTILE, user=HOSTILE)
    return scene.play()


def hostile_words() -> Scene:
    """People and kernel logs that say it."""
    scene = Scene().play()
    finding = scene.say(gpu(0), HOSTILE, evidence=(HOSTILE,))
    scene.blame(
        finding,
        note=HOSTILE,
        acknowledged_by=HOSTILE,
        acknowledged_ns=scene.clock.time_ns(),
        reason=HOSTILE,
    )
    scene.take_out(gpu(1), HOSTILE)
    scene.say(gpu(1), HOSTILE, severity="record")
    return scene


def hostile_reason() -> Scene:
    """A source of that name."""
    scene = Scene().play()
    scene.missing = HOSTILE
    scene.source(HOSTILE, reads=False)
    return scene


@pytest.mark.parametrize("scene", [hostile_name, hostile_job, hostile_words, hostile_reason])
def test_what_others_wrote_is_text_and_nothing_else(scene: Callable[[], Scene]) -> None:
    """A name, a note, a job or a log line adds no element and no attribute, and cannot
    turn the text around it.
    """
    page = scene().page()
    read = Reader(page)
    assert read.open == []
    assert [tag for tag, _ in read.elements if tag == "img"] == []
    assert len([tag for tag, _ in read.elements if tag == "script"]) == 1
    assert [a for _, a in read.elements if "onerror" in a] == []
    assert "<script>alert(1)</script>" in read.text
    assert re.search("[\u202e\ud800-\udfff]", page) is None


def test_a_thousand_incidents_make_no_endless_page() -> None:
    """The gravest fifty are shown, and how many more there are."""
    scene = Scene().play()
    for number in range(1000):
        scene.blame(scene.say(Device("n1", "gpu", f"GPU-{number:08x}", {}), "Gone."))
    page = scene.page()
    assert page.count('id="incident-') == 50
    assert "more in the JSON." in page

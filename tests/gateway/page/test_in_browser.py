"""The cluster's page in a real browser: what it shows, and how it stays true."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from collector.config.links import Links
from collector.web.incident_rows import time
from gateway.api import incidents
from gateway.api.operation import View
from gateway.api.topology import static_of
from pipeline.frame import Device
from tests.browser import Browser, Page
from tests.collector.web.served import loaded, pass_time, press, text
from tests.gateway.api.history import history_of
from tests.gateway.cluster import SimulatedCluster
from tests.gateway.page.conftest import SHOWN
from tests.gateway.page.served import Served
from tests.gateway.page.trouble import trouble, trouble_before
from tests.wait import until

pytestmark = pytest.mark.integration

CARDS = "[...document.querySelectorAll('#incidents-list .opener')].map((one) => one.textContent)"
HOSTILE = "</p><img src=x onerror='window.owned = 1'><script>window.owned = 1</script>\u202e"
# The colour at the middle of a GPU of the map, by the row of its node.
PIXEL = """
(async () => {
  const { map } = await import("/cluster/main.js");
  const { corner } = await import("/cluster/layout.js");
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const { form, list, blockOf, painter } = map, block = blockOf[%(row)d], { x, y } = corner(form, block);
  const at = [x + form.pad + form.names + form.mark + %(gpu)d * (form.cell + form.gap) + 2, y + form.label + form.pad + (%(row)d - list[block].first) * form.line + form.cell / 2];
  return [...painter.pen.getImageData(...at.map((one) => Math.round(one * painter.ratio)), 1, 1).data].slice(0, 3);
})()
"""  # noqa: E501 - text as it is used

# The module that keeps the page live, alone: its stream, its answers and its time are the test's.
LIVE = """
(async () => {
  const { Live } = await import("/cluster/live.js");
  const answers = [], taken = [], said = [], streams = [];
  let look = null, now = 0;
  const { setInterval, performance: { now: real }, EventSource } = window;
  window.setInterval = (work) => { look = work; };
  performance.now = () => now;
  window.EventSource = class {
    static CLOSED = 2;
    constructor() { this.on = {}; this.readyState = 1; streams.push(this); }
    addEventListener(kind, work) { this.on[kind] = work; }
    close() {}
  };
  const load = () => new Promise((done, fail) => answers.push({ done, fail }));
  const live = new Live({ load, take: (kind, event) => taken.push(kind), manner: (how) => said.push(how) });
  const settled = () => new Promise((done) => setTimeout(done));
  const at = (second) => `2026-01-01T00:00:0${second}+00:00`;
  const says = (kind, second, layout = "a") => streams.at(-1).on[kind]({ data: JSON.stringify({ time: at(second), ...(kind !== "tick" && { layout }) }) });
  const read = async (second, layout = "a") => {
    answers.at(-1).done({ layout, times: { levels: at(second), incidents: at(second), jobs: at(second) } });
    await settled();
  };
  const passes = async (seconds) => {
    for (let each = 0; each < seconds; each += 1) { now += 1000; look(); }
    await settled();
  };
  live.start();
  const asked = await (async () => { %s })();
  Object.assign(window, { setInterval, EventSource });
  performance.now = real;
  return asked;
})()
"""  # noqa: E501 - text as it is used


def pixel(page: Page, row: int, gpu: int) -> list[int]:
    """Red, green and blue."""
    found: list[int] = page.evaluate(PIXEL % {"row": row, "gpu": gpu})
    return found


def rows(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    """All incidents as the stream sends them."""
    view = View("c1", cluster.model.snapshot(), Links())
    return [dict(row) for row in incidents.rows(view.cluster, view.links)]


def stamp(cluster: SimulatedCluster) -> dict[str, str]:
    """Time and layout, as each event has them."""
    now = cluster.model.snapshot()
    return {"time": time(now.time_ns), "layout": static_of(now.layout).version}


def without(page: Page, served: Served, host: str) -> None:
    """A node is taken out of the cluster, and the page has seen it."""
    cluster = served.cluster
    cluster.gpus = tuple(gpu for gpu in cluster.gpus if gpu.host != host)
    cluster.ports = tuple(port for port in cluster.ports if port.host != host)
    del cluster.sent[host]
    cluster.read()
    served.send("tick", {**stamp(cluster), "leads": True})
    page.until(
        f"document.getElementById('legend').textContent.includes('All {len(cluster.sent)}')",
        "the node to be gone",
    )


def tick(served: Served) -> None:
    """The stream ticks, and what the panel shows is read again."""
    asked = len(served.asked)
    served.cluster.read()
    served.send("tick", {**stamp(served.cluster), "leads": True})
    until(lambda: len(served.asked) > asked, "the panel to be read again")


def test_it_loads_without_a_word_in_the_console(page: Page) -> None:
    """Style, modules and the stream arrive under the policy of the server; nothing is refused."""
    assert text(page, "h1") == "Tocsin on c1"
    assert text(page, "#verdict-text").startswith("2 pages and 2 tickets open.")
    assert text(page, "#manner") == "Live, read "
    assert page.complaints == []


def test_a_tenant_sees_its_own_jobs_and_their_nodes(browser: Browser) -> None:
    """The same page, which asks where the stream is refused."""
    cluster = SimulatedCluster(16)
    trouble(cluster)
    running = Served(cluster, owners="user:grace", history=history_of(trouble_before()))
    try:
        page = loaded(browser.open(running.url), SHOWN)
        own = [job for job in cluster.model.snapshot().jobs if job.owner == "user:grace"]
        assert own
        listed = "[...document.querySelectorAll('#jobs-list th a')].map((one) => one.textContent)"
        assert page.evaluate(listed) == [job.id for job in own]
        nodes = '(async () => (await import("/cluster/main.js")).map.cluster.nodes)()'
        layout = cluster.model.snapshot().layout
        assert set(page.evaluate(nodes)) == {
            layout.nodes[row].name for job in own for row in job.nodes
        }
        assert "/api/v1/stream" not in running.asked
        over = "[...document.querySelectorAll('#ended-list th')].map((one) => one.textContent)"
        assert page.evaluate(over) == [
            f"{4700 - n}pretrain-70b · user:grace" for n in range(1, 20, 4)
        ]
        page.close()
    finally:
        running.close()


def test_open_incidents_are_shown_in_the_order_of_the_api(page: Page, served: Served) -> None:
    """The most urgent first; or by what they affect, if the reader wants that."""
    opened = [row for row in rows(served.cluster) if row["state"] == "open"]
    assert page.evaluate(CARDS) == [row["title"] for row in opened]
    page.evaluate("document.getElementById('incidents-order').value = 'gpus'")
    page.evaluate("document.getElementById('incidents-order').dispatchEvent(new Event('change'))")
    by_gpus = sorted(opened, key=lambda row: -row["gpus_affected"])
    assert page.evaluate(CARDS) == [row["title"] for row in by_gpus]


def test_an_incident_that_alerts_nobody_is_info(page: Page, served: Served) -> None:
    """On its card and in its detail, open and over; what is sent has the stored value."""
    row = next(one for one in rows(served.cluster) if one["severity"] == "ticket") | {
        "severity": "record"
    }
    served.send("incidents", {**stamp(served.cluster), "changed": [row], "gone": []})
    card = f"document.querySelector('#incidents-list [data-key=\"{row['id']}\"] .state')"
    page.until(f"{card}?.textContent === 'info'", "its card")
    page.evaluate(f"location.hash = '#incident/{row['id']}'")
    page.until(
        "document.querySelector('#detail-body .state')?.textContent === 'info'", "its detail"
    )
    over = row | {"state": "closed", "cleared": row["since"], "ended": "It ended."}
    served.send("incidents", {**stamp(served.cluster), "changed": [over], "gone": []})
    said = "document.querySelector('#detail-body .over')?.textContent"
    page.until(f"{said}?.startsWith(' info, over since ')", "its end")


def test_many_open_incidents_leave_the_map_in_reach(page: Page, served: Served) -> None:
    """Eight are shown, with how many there are and how many of them page; a press shows all, and
    they stay shown when news comes.
    """
    for index in range(8):
        served.cluster.find(served.cluster.gpu(9, index), "gpu_lost", f"GPU {index} left the bus.")
    served.cluster.read()
    served.send("incidents", {**stamp(served.cluster), "changed": rows(served.cluster), "gone": []})
    said = "document.getElementById('incidents-all').textContent"
    page.until(f"{said} === 'Show all 12, 10 pages among them'", "the button")
    assert page.evaluate(f"{CARDS}.length") == 8
    page.evaluate("document.getElementById('incidents-all').click()")
    assert page.evaluate(f"{CARDS}.length") == 12
    served.end_streams()
    page.until(f"{said} === 'Show the first 8 only' && {CARDS}.length === 12", "all of them")
    page.evaluate("document.getElementById('incidents-all').click()")
    assert page.evaluate(f"{CARDS}.length") == 8


def test_the_map_has_the_colour_of_each_level_at_the_place_of_each_gpu(page: Page) -> None:
    """A lost GPU is red, its neighbours are green, a silent node is neither."""
    lost, beside, silent = pixel(page, 3, 3), pixel(page, 3, 2), pixel(page, 14, 0)
    assert lost[0] > 1.5 * max(lost[1:])
    assert beside[1] > max(beside[0], beside[2])
    assert silent[2] > silent[1]


def test_every_node_is_found_where_it_is_drawn(page: Page) -> None:
    """At every size of GPU, for racks of one, many and too many nodes."""
    wrong = page.evaluate("""
    (async () => {
      const { blocks, corner, geometry, under } = await import("/cluster/layout.js");
      const sizes = [1, 8, 18, 72, 3], racks = [];
      let first = 0;
      for (const nodes of sizes) { racks.push({ name: `r${nodes}`, first, nodes }); first += nodes; }
      const list = blocks({ racks }, () => true), wrong = [];
      for (const cell of [24, 13, 8, 4, 3, 2]) {
        const form = geometry(list, 8, cell, 700, () => 60);
        for (const [index, block] of list.entries()) {
          const { x, y } = corner(form, index);
          for (let line = 0; line < block.nodes; line += 1) {
            const hit = under(form, list, x + form.pad + form.names + form.mark + 5 * (form.cell + form.gap) + 1, y + form.label + form.pad + line * form.line + 1);
            if (hit?.row !== block.first + line || hit.gpu !== 5) wrong.push([cell, index, line]);
          }
        }
      }
      return [wrong, list.reduce((sum, block) => sum + block.nodes, 0) - first];
    })()
    """)  # noqa: E501 - text as it is used
    assert wrong == [[], 0]


def test_it_follows_the_stream(page: Page, served: Served) -> None:
    """Levels, incidents and jobs change where they are, without reading everything again."""
    asked = len(served.asked)
    at = stamp(served.cluster)
    served.send("levels", {**at, "nodes": [[0, 0]], "gpus": [[2, 0]], "ports": [], "silent": None})
    page.until(
        "document.getElementById('legend').textContent.includes('Failed 3')", "the change to show"
    )
    assert pixel(page, 0, 2)[0] > 1.5 * pixel(page, 0, 2)[1]
    first, *_ = rows(served.cluster)
    over = {**first, "state": "closed", "cleared": at["time"], "ended": "It was replaced."}
    served.send("incidents", {"time": at["time"], "changed": [over], "gone": []})
    page.until(f"!{CARDS}.includes({json.dumps(first['title'])})", "the incident to be over")
    assert "It was replaced." in text(page, "#closed-list tr")
    assert text(page, "#verdict-text").startswith("1 page and 2 tickets open.")
    assert served.asked[asked:] == []
    assert page.complaints == []


@pytest.mark.parametrize(
    ("story", "asked"),
    [
        ('says("hello", 1); await read(1); says("tick", 2);', 1),
        ('await read(1); says("hello", 1);', 1),
        # what the stream does not bring: it began after that was read
        ('await read(1); says("hello", 2);', 2),
        ('says("hello", 2); await read(1);', 2),
        # it goes on where it was
        ('says("hello", 1); await read(1); says("hello", 3);', 1),
        ('says("hello", 1); await read(1); says("hello", 3, "b");', 2),
        # too much has changed while everything was read
        ('says("hello", 1); says("reset", 2); await read(1);', 2),
        ('says("hello", 1); says("reset", 2); await read(2);', 1),
        ('says("hello", 1); await read(1); says("reset", 2);', 2),
        # an answer that is older still is no reason to ask for ever
        ('says("hello", 1); says("reset", 3); await read(1); await read(2);', 2),
    ],
)
def test_everything_is_read_where_the_stream_leaves_a_gap(
    page: Page, story: str, asked: int
) -> None:
    """Once, and not again where the answer is new enough."""
    assert page.evaluate(LIVE % f"{story} return answers.length;") == asked


def test_what_could_not_be_read_is_asked_for_again(page: Page) -> None:
    """Though the stream goes on: its ticks say nothing of what is missing, and do not hide that."""
    story = """
    says("hello", 1); answers[0].fail(new Error("The gateway answered 429.")); await settled();
    says("tick", 2);
    const before = said.at(-1);
    await passes(6); says("tick", 7);
    await read(7); says("tick", 8);
    return [before, answers.length, said.at(-1)];
    """
    assert page.evaluate(LIVE % story) == ["silent", 2, "live"]


def test_closed_incidents_are_listed_by_their_end(page: Page, served: Served) -> None:
    """The newest first, in whatever order the stream brings them, and an older one that changes."""
    (known,) = [row for row in rows(served.cluster) if row["state"] == "closed"]
    ended = {f"{n}{known['id'][1:]}": n for n in (1, 2, 3)}
    news = [
        {**known, "id": name, "cleared": f"{known['cleared'][:-9]}:5{n}+00:00"}
        for name, n in ended.items()
    ]
    listed = "[...document.querySelectorAll('#closed-list tr')].map((one) => one.dataset.key)"
    at = {"time": stamp(served.cluster)["time"], "gone": []}
    served.send("incidents", {**at, "changed": [news[1], news[0], news[2]]})
    page.until(f"{listed}.length === 4", "them")
    assert page.evaluate(listed)[:3] == [*ended][::-1]
    served.send("incidents", {**at, "changed": [{**known, "title": "It changed"}]})
    page.until("document.getElementById('closed').textContent.includes('It changed')", "the change")
    assert page.evaluate(listed)[-1] == known["id"]


def test_the_verdict_does_not_deny_what_is_listed(page: Page) -> None:
    """Incidents that are info alert nobody, and are open all the same."""
    said = page.evaluate("""
    import("/cluster/summary.js").then(({ verdict }) => {
      const cluster = (levels, node) => ({ levels, node, nodes: node, gpu: [], silent: new Set(), counts: (codes) => levels.map((_, code) => codes.filter((each) => each === code).length) });
      const info = [{ severity: "record" }];
      return [verdict(cluster(["ok"], [0]), info, 1), verdict(cluster(["ok"], [0]), [], 0), verdict(cluster(["warn"], [0]), info, 1)].map(({ text }) => text);
    })
    """)  # noqa: E501 - text as it is used
    assert said == [
        "Healthy. 1 node, 0 GPUs; no page and no ticket is open.",
        "Healthy. 1 node, 0 GPUs; no incident is open.",
        "No page and no ticket is open. 1 node of 1 not healthy.",
    ]


def test_a_stream_that_fell_silent_is_opened_again(page: Page) -> None:
    """After a laptop slept, the browser may wait for ever on a connection that is none."""
    story = """
    says("hello", 1); await read(1); await passes(25);
    const before = streams.length;
    await passes(10); says("hello", 1);
    return [before, streams.length, said.at(-1)];
    """
    assert page.evaluate(LIVE % story) == [1, 2, "live"]


def test_numbers_of_now_are_read_each_minute(page: Page) -> None:
    """How long a job stalls, for example: no event of the stream says that again."""
    story = 'says("hello", 1); await read(1); for (let n = 0; n < 13; n += 1) { await passes(5); '
    story += 'says("tick", 2); } const asked = answers.length; await read(2); return asked;'
    assert page.evaluate(LIVE % story) == 2


def test_an_end_of_the_stream_is_no_trouble(page: Page, served: Served) -> None:
    """Its answers end on purpose: the browser asks for the next one, and the page says nothing."""
    served.until_streams(1)
    served.end_streams()
    served.until_streams(2)
    at = stamp(served.cluster)
    served.send("levels", {**at, "nodes": [[1, 1]], "gpus": [], "ports": [], "silent": None})
    page.until(
        "document.getElementById('legend').textContent.includes('Degraded 2')", "news to come"
    )
    assert text(page, "#manner") == "Live, read "
    assert text(page, "#silence") == ""


def test_devices_that_come_bring_their_places(page: Page, served: Served) -> None:
    """Where the layout is another, everything is read again."""
    served.cluster.sent["node-0099"] = served.cluster.clock.time_ns()
    served.cluster.read()
    served.send("tick", {**stamp(served.cluster), "leads": False})
    page.until("document.getElementById('legend').textContent.includes('All 17')", "17 nodes")
    served.send("tick", {**stamp(served.cluster), "leads": False})
    page.until("!document.getElementById('standby').hidden", "the standby to say so")


def test_without_a_stream_it_asks_again_and_again(browser: Browser, served: Served) -> None:
    """A proxy that lets no stream pass costs five seconds, not the truth."""
    served.stop()
    served.streaming = False
    served.start()
    page = loaded(browser.open(served.url), SHOWN)
    served.cluster.find(served.cluster.gpu(9, 0), "gpu_lost", "GPU 0 left the bus.", ago_s=1)
    served.cluster.read()
    pass_time(page, 8)
    assert text(page, "#manner") == "Asked every 5 s, read "
    assert text(page, "#verdict-text").startswith("3 pages and 2 tickets open.")
    page.close()


def test_a_gateway_that_is_gone_is_said(page: Page, served: Served) -> None:
    """As an alert, with the time of what is still shown; and taken back once it answers again."""
    served.stop()
    page.until("document.getElementById('silence').textContent !== ''", "the alert")
    assert text(page, "#silence") == (
        "The gateway does not answer. "
        f"This page shows the state of {stamp(served.cluster)['time'][:19].replace('T', ' ')} UTC."
    )
    served.start()
    page.until("document.getElementById('silence').textContent === ''", "it to be back")


def test_a_page_that_nobody_sees_asks_nothing(page: Page, served: Served) -> None:
    """Its stream is closed; seen again, it reads everything at once."""
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    asked = len(served.asked)
    pass_time(page, 60)
    assert served.asked[asked:] == []
    page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.ask("Emulation.setVirtualTimePolicy", policy="advance")
    until(lambda: "/api/v1/topology" in served.asked[asked:], "it to be read")


def test_names_that_a_job_wrote_stay_text(browser: Browser, served: Served) -> None:
    """Markup in names of jobs, users, hosts, incidents: on the page, in the search, in each panel,
    nothing is made of it and nothing runs.
    """
    cluster = served.cluster
    cluster.run(HOSTILE, [1], user=HOSTILE, job_name=HOSTILE)
    cluster.sent[HOSTILE] = cluster.clock.time_ns()
    finding = cluster.find(
        cluster.gpu(1, 0), "gpu_lost", HOSTILE, jobs=(HOSTILE,), evidence=(HOSTILE,), reason=HOSTILE
    )
    cluster.read()
    page = loaded(browser.open(served.url), SHOWN)
    page.evaluate("document.getElementById('search').focus()")
    page.ask("Input.insertText", text="<img")
    assert page.evaluate("document.getElementById('search-found').children.length") >= 2
    names = page.evaluate(
        "import('/cluster/main.js').then(({ page }) => [page.cluster.nodes, [...page.jobs.keys()]]"
        ".map((all) => all.find((name) => name.includes('<img'))))"
    )
    for kind, name in [("node", names[0]), ("job", names[1]), ("incident", finding.id)]:
        page.evaluate(f"location.hash = '#{kind}/' + encodeURIComponent({json.dumps(name)})")
        page.until(
            f"document.getElementById('detail-kind').textContent.toLowerCase() === '{kind}'", kind
        )
    page.until("document.getElementById('detail-body').textContent.includes('Evidence')", "it all")
    assert page.evaluate("document.querySelectorAll('img, main script, aside script').length") == 0
    assert page.evaluate("window.owned") is None
    assert "\u202e" not in page.evaluate("document.body.textContent")
    assert [one for one in page.complaints if "/api/v1/health?" not in one] == []
    page.close()


def test_each_of_many_jobs_is_found(browser: Browser) -> None:
    """A cluster in which each GPU has a job of its own has more than one answer lists."""
    cluster = SimulatedCluster(128)
    for number, gpu in enumerate(cluster.gpus):
        facts = {"uuid": gpu.id, "scheduler": "slurm", "job": f"{5000 + number}", "user": "ada"}
        cluster.holders.append(Device(gpu.host, "device_job", f"{gpu.id}/{number}", facts))
    cluster.read()
    served = Served(cluster)
    try:
        page = loaded(browser.open(served.url), SHOWN)
        assert text(page, "#jobs-count") == "1,024"
        page.evaluate("document.getElementById('search').focus()")
        page.ask("Input.insertText", text="6023")
        assert page.evaluate("document.getElementById('search-found').children.length") == 1
        page.close()
    finally:
        served.close()


def test_the_search_leads_to_the_panel(page: Page) -> None:
    """By keyboard alone: slash, some letters, Enter; the panel has the focus, Escape gives it back
    to the field.
    """
    press(page, "/")
    page.ask("Input.insertText", text="node-0003")
    press(page, "Enter")
    page.until("!document.getElementById('detail').hidden", "the panel")
    assert text(page, "#detail-title") == "node-0003"
    assert page.evaluate("document.activeElement.id") == "detail-title"
    link = "document.querySelector('#detail .agent').href"
    assert page.evaluate(link) == "http://node-0003:9400/"
    press(page, "Escape")
    assert page.evaluate("document.getElementById('detail').hidden") is True
    assert page.evaluate("document.activeElement.id") == "search"
    assert page.evaluate("location.hash") == ""


def test_the_keyboard_goes_through_the_map(page: Page) -> None:
    """Each node is said as the active option; N finds what is not healthy; Enter opens it."""
    page.evaluate("document.getElementById('racks').scrollIntoView()")
    page.evaluate("document.getElementById('zoom-in').focus()")
    while page.evaluate("document.activeElement.id") != "map":
        press(page, "Tab")
    said = (
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        ".textContent"
    )
    assert page.evaluate(said).startswith("node-0000, rack-00: Healthy.")
    press(page, "ArrowRight")
    assert page.evaluate(said).startswith("node-0008, rack-01: ")
    press(page, "n")
    assert page.evaluate(said).startswith("node-0009, rack-01: Degraded.")
    press(page, "n")
    assert page.evaluate(said).startswith("node-0014, rack-01: Unknown. sends nothing")
    press(page, "Enter")
    page.until("!document.getElementById('detail').hidden", "the panel")
    assert text(page, "#detail-title") == "node-0014"
    press(page, "Escape")
    assert page.evaluate("document.activeElement.id") == "map"


def test_a_larger_map_can_be_scrolled(browser: Browser, served: Served) -> None:
    """To the last GPU of a node, where the window is narrower than that."""
    for width, wider in ((360, True), (1280, False)):
        page = loaded(browser.open(served.url, width=width, height=500), SHOWN)
        page.evaluate("for (let n = 0; n < 12; n += 1) document.getElementById('zoom-in').click()")
        frame = "document.getElementById('map')"
        assert page.evaluate(f"{frame}.scrollWidth > {frame}.clientWidth") is wider
        assert page.evaluate(f"getComputedStyle({frame}).overflowX") == "auto"
        page.close()


def test_the_keyboard_stays_at_its_node(page: Page, served: Served) -> None:
    """Enter opens the node that was said, though others went; where it goes itself, the first is
    said.
    """
    page.evaluate("document.getElementById('map').focus()")
    press(page, "ArrowDown")
    press(page, "ArrowDown")
    said = (
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        ".textContent"
    )
    assert page.evaluate(said).startswith("node-0002, ")
    without(page, served, "node-0000")
    press(page, "Enter")
    page.until("!document.getElementById('detail').hidden", "the panel")
    assert text(page, "#detail-title") == "node-0002"
    press(page, "Escape")
    press(page, "ArrowDown")
    assert page.evaluate(said).startswith("node-0002, ")
    without(page, served, "node-0002")
    assert page.evaluate(said).startswith("node-0001, ")


def test_a_filter_leaves_the_racks_that_have_it(page: Page) -> None:
    """Of two racks, the one with a node that is silent."""
    count = "import('/cluster/main.js').then(({ map }) => map.list.length)"
    assert page.evaluate(count) == 2
    page.evaluate("document.querySelector('#legend [data-level=blind]').click()")
    assert page.evaluate(count) == 1
    page.evaluate("document.querySelector('#legend [data-level=blind]').click()")
    assert page.evaluate(count) == 2


def test_an_incident_has_its_evidence_and_its_nodes(page: Page, served: Served) -> None:
    """A press on its title opens it, and its nodes are drawn on the map; its evidence is of now."""
    page.evaluate("document.querySelector('#incidents-list .opener').click()")
    page.until(
        "document.getElementById('detail-body').textContent.includes('fallen off the bus')",
        "the evidence",
    )
    assert "GPU 3 on node-0003" in text(page, "#detail-title")
    asked = len(served.asked)
    served.cluster.read()
    now_ns = served.cluster.clock.time_ns()
    served.cluster.findings = [replace(one, time_ns=now_ns) for one in served.cluster.findings]
    served.send("tick", {**stamp(served.cluster), "leads": True})
    page.until(
        f"document.getElementById('detail-body').textContent.includes('{time(now_ns)[11:19]} UTC')",
        "the time at which its evidence was last true",
    )
    assert "/api/v1/incidents" not in served.asked[asked:]
    near = page.evaluate("import('/cluster/main.js').then(({ map }) => [...map.near])")
    assert 3 in near


def test_a_panel_stays_as_its_reader_left_it(page: Page, served: Served) -> None:
    """What was unfolded, and a text that is being copied, when its incident is read again; since
    when it is open is there all the time.
    """
    body = "document.getElementById('detail-body')"
    page.evaluate("document.querySelector('#incidents-list .opener').click()")
    page.until(f"!!{body}.querySelector('details summary')", "the rules")
    page.evaluate(f"{body}.querySelector('details summary').click()")
    page.until(f"{body}.querySelector('details').open", "a rule to unfold")
    page.evaluate(f"getSelection().selectAllChildren({body}.querySelector('.cause'))")
    copied = page.evaluate("String(getSelection())")
    for _ in range(2):
        tick(served)
        served.send("jobs", {**stamp(served.cluster), "changed": [], "gone": []})
        shown = f"{body}.querySelector('time[data-since]').textContent"
        page.until(f"{shown} === '14 min'", "since when it is open")
        assert page.evaluate(f"{body}.querySelector('details').open")
        assert page.evaluate("String(getSelection())") == copied
    page.evaluate("location.hash = '#node/node-0003'")
    page.until(f"{body}.textContent.includes('Status page of this node')", "another panel")


def test_the_life_of_a_job_opens_from_the_lists(page: Page, served: Served) -> None:
    """Of one that is over from its row, of one that runs from its panel."""
    link = "document.querySelector('%s')?.getAttribute('href')"
    assert page.evaluate(link % "#ended-list a") == ("api/v1/jobs/explanation.html?job=4700&run=1")
    page.evaluate("location.hash = '#job/4711'")
    until(lambda: page.evaluate(link % "#detail-body a.agent"), "the panel of the job")
    assert page.evaluate(link % "#detail-body a.agent") == "api/v1/jobs/explanation.html?job=4711"
    page.evaluate("document.getElementById('ended-more').click()")
    assert page.evaluate("document.querySelectorAll('#ended-list tr').length") == 20

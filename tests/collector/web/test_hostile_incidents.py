"""Incidents that somebody wants to break the page with: names, storms, nothing to read."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson
import pytest

from collector.web.page import incident_page
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.collector.web.scene import Scene
from tests.collector.web.test_page import HOSTILE, Reader
from tests.fakes import gpu, observed

MAX_PAGE_BYTES = 2_000_000


def test_what_a_job_calls_itself_is_text_everywhere() -> None:
    """On the page, on the page of the incident, open and closed, and in the JSON."""
    scene = Scene().play()
    scene.hold(gpu(0), job=HOSTILE, user=HOSTILE)
    scene.play()
    finding = scene.say(Device("n1", "job", HOSTILE), HOSTILE, evidence=(HOSTILE,), fault="hang/x")
    incident = scene.blame(finding, reason=HOSTILE, note=HOSTILE)
    pages = [scene.page(), incident_page(scene.pages.incident(incident.id) or {})]
    scene.is_over(finding, HOSTILE)
    scene.end(incident, HOSTILE)
    pages += [scene.page(), incident_page(scene.pages.incident(incident.id) or {})]
    for page in pages:
        read = Reader(page)
        assert read.open == []
        assert [tag for tag, _ in read.elements if tag == "img"] == []
        assert [a for tag, a in read.elements if tag == "script" and "src" not in a] == []
    assert json.loads(orjson.dumps(scene.status()))["closed"][0]["ended"]


@pytest.mark.slow
def test_two_thousand_findings_and_incidents_are_a_page_of_bounded_size() -> None:
    """The rest is in the JSON, and the page says how many."""
    scene = Scene().play()
    node = Device("n1", "node", "n1")
    first = scene.say(node, "Broken.")
    found = [replace(first, onset_ns=first.onset_ns - n * 1000) for n in range(2000)]
    scene._write(observed(scene.clock), *found)
    scene.blame(*found)
    scene.clock.advance(1)
    for finding in found[1:1501]:
        scene.blame(finding)
    page = scene.page()
    assert len(page) < MAX_PAGE_BYTES
    assert "1950 more in the JSON." in page
    assert len(scene.status()["incidents"]) == 1501
    for finding in found:
        scene.is_over(finding)
    assert len(scene.page()) < MAX_PAGE_BYTES


def test_an_incident_of_findings_that_nobody_has_is_shown() -> None:
    """After a restart whose state was lost: what is known of it, and no error."""
    scene = Scene().play()
    lost = Finding("xid", gpu(0), "xid", "onset", "page", 0, 0, "Gone.")
    incident = scene.blame(lost)
    assert "GPU 0 on n1" in scene.page()
    assert incident_page(scene.pages.incident(incident.id) or {})
    (row,) = scene.status()["incidents"]
    assert (row["last_true"], row["true_now"]) == (None, False)

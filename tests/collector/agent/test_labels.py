"""Operators label incidents of a running agent; its detectors follow."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.agent.labels import Labels
from collector.agent.operator_commands import OperatorCommands
from collector.config.settings import Detectors
from collector.node.out_of_service import OutOfService
from collector.node.state import State
from detectors.paging import PROVED
from detectors.trust.ledger import Ledger, Tally
from pipeline.catalog import agent
from pipeline.catalog.events import strange_attributes
from pipeline.exposition import Exposition
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard
from pipeline.observation import Event, Observation
from pipeline.past_incidents import PastIncidents
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS, FakeClock, gpu

FINDING = Finding("availability", gpu(3), "gpu_lost", "onset", "page", START_NS, START_NS, "Lost.")
OPEN = Incident(
    "5a2e173dd20e2d3d", gpu(3), "gpu_lost", "page", "RESTART_BM", START_NS, (FINDING.id,), "Lost."
)
SHADOW = "power_cap"


class Desk:
    """The socket's end of an agent with one open incident."""

    def __init__(self, folder: Path, settings: Detectors | None = None) -> None:
        self.clock, self.metrics = FakeClock(), SelfMetrics()
        self.events: list[Event] = []
        self.past = PastIncidents()
        exposition = Exposition(self.metrics, clock=self.clock)
        now = (self.clock.time_ns(), self.clock.monotonic_ns(), 0)
        exposition.write(Observation("nvml", "n1", "b", 0, *now), (FINDING,), (OPEN,))
        self.state = State(folder)
        self.labels = Labels(self.state, self.metrics, settings or Detectors())
        self.people = OperatorCommands(
            "n1",
            self.clock,
            exposition,
            OutOfService("n1", self.state, self.metrics),
            self.publish,
            guard=Guard(self.metrics, self.clock),
            past=lambda: self.past,
            labels=self.labels,
        )

    def publish(self, events: Sequence[Event]) -> bool:
        """As the engine does."""
        for event in events:
            assert not strange_attributes(event.kind, event.attributes)
        self.events += events
        return True

    def label(self, incident: str, verdict: str, **more: Any) -> dict[str, Any]:
        """A request."""
        request = {"command": "label", "incident": incident, "verdict": verdict, "user": "ada"}
        return self.people.answer({**request, **more})

    def label_others(self, verdict: str, numbers: range) -> list[str]:
        """Label incidents of another node of the detector; which changes that made."""
        changes: list[str] = []
        for i in numbers:
            about = {"incident": f"i{i}", "host": f"n{i}", "kind": "gpu", "device": f"GPU-{i}"}
            about |= {"class": "slow", "detectors": [SHADOW], "opened_ns": START_NS}  # type: ignore[dict-item]
            done = self.label("", verdict, about=about)
            changes += [kind for kind, _ in done["changes"]]
        return changes


def test_a_label_weighs_no_detector_that_it_does_not_count_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet's file has thousands: with each of them, all labels of all detectors would keep an
    agent busy for minutes.
    """
    desk, weighed = Desk(tmp_path), list[str]()
    tally = Ledger.tally

    def counted(ledger: Ledger, detector: str, *, pages: bool) -> Tally:
        weighed.append(detector)
        return tally(ledger, detector, pages=pages)

    monkeypatch.setattr(Ledger, "tally", counted)
    desk.label_others("real", range(36))
    assert set(weighed) == {SHADOW}
    assert desk.labels.allowed() == PROVED | {SHADOW}


def test_a_label_is_an_event_about_the_root_with_its_detectors(tmp_path: Path) -> None:
    """By id, prefix or `latest`; open or over."""
    desk = Desk(tmp_path)
    done = desk.label("latest", "real", cause="RMA 4711")
    (event,) = desk.events
    assert (event.device, event.kind) == (gpu(3), "incident_labelled")
    assert dict(event.attributes) == {
        "incident": OPEN.id,
        "verdict": "real",
        "detectors": "availability",
        "class": "gpu_lost",
        "opened_ns": OPEN.opened_ns,
        "cause": "RMA 4711",
        "user": "ada",
    }
    assert (done["known"], done["detector"], done["changes"]) == (True, "availability", [])
    assert desk.metrics.value(agent.LABELLED, "availability", "real") == 1


def test_an_incident_that_the_agent_does_not_know_is_described_by_who_asks(tmp_path: Path) -> None:
    """From the store; without that nothing is labelled."""
    desk = Desk(tmp_path)
    assert desk.label("ffffffff", "real") == {"known": False}
    assert not desk.events
    assert desk.label_others("real", range(1)) == []
    (event,) = desk.events
    assert (event.device.host, event.device.id) == ("n0", "GPU-0")


def test_labels_let_a_detector_leave_and_enter_shadow_mode_by_rule(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both are announced by an event, the metric and a line in the log."""
    desk = Desk(tmp_path)
    assert desk.metrics.value(agent.SHADOW_MODE, SHADOW) == 1
    with caplog.at_level(logging.WARNING):
        assert desk.label_others("real", range(35)) == []
        assert desk.label_others("real", range(35, 36)) == ["shadow_mode_left"]
        assert desk.metrics.value(agent.SHADOW_MODE, SHADOW) is None
        assert desk.labels.allowed() == PROVED | {SHADOW}
        assert desk.label_others("false", range(100, 105)) == ["shadow_mode_entered"]
    assert desk.metrics.value(agent.SHADOW_MODE, SHADOW) == 1
    left, entered = (one for one in desk.events if one.kind.startswith("shadow_mode"))
    assert left.attributes["detector"] == entered.attributes["detector"] == SHADOW
    assert left.attributes["hash"] != entered.attributes["hash"]
    assert f"{SHADOW} left shadow mode" in caplog.text
    assert f"{SHADOW} entered shadow mode" in caplog.text


def test_labels_outlast_a_restart_and_are_said_again_for_replay(tmp_path: Path) -> None:
    """The next agent begins as the last one ended; a damaged row costs itself only."""
    desk = Desk(tmp_path)
    desk.label_others("real", range(36))
    document = desk.state.load("labels")
    document["labels"].append({"incident": "x"})
    desk.state.save("labels", document)
    again = Desk(tmp_path)
    assert again.labels.allowed() == PROVED | {SHADOW}
    again.people.remind_of_labels()
    (event,) = again.events
    assert (event.kind, event.attributes["detector"]) == ("shadow_mode_left", SHADOW)


@pytest.mark.slow
def test_a_configuration_can_keep_labels_from_changing_anything(tmp_path: Path) -> None:
    """For one detector, or for all."""
    for settings in (Detectors(on_trial=(SHADOW,)), Detectors(follow_labels=False)):
        desk = Desk(tmp_path / str(settings.follow_labels), settings)
        assert desk.label_others("real", range(60)) == []
        assert SHADOW not in desk.labels.allowed()
        desk.people.remind_of_labels()
        assert not [one for one in desk.events if one.kind.startswith("shadow")]


ABOUT = {
    "incident": "i1",
    "host": "n1",
    "kind": "gpu",
    "device": "g",
    "class": "c",
    "detectors": [SHADOW],
    "opened_ns": 5,
}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"verdict": "maybe"}, "verdict: expected real, false, unclear"),
        ({"verdict": "real", "incident": "5a"}, "too short"),
        ({"verdict": "real", "cause": "x" * 1001}, "cause: expected text"),
        ({"verdict": "real", "about": []}, "about: expected an object"),
        ({"verdict": "real", "about": ABOUT | {"detectors": ["x"]}}, "about.detectors"),
        ({"verdict": "real", "about": ABOUT | {"opened_ns": -1}}, "about.opened_ns"),
        ({"verdict": "real", "about": ABOUT | {"opened_ns": True}}, "about.opened_ns"),
        ({"verdict": "real", "about": ABOUT | {"device": ""}}, "required"),
        ({"verdict": "real", "about": ABOUT | {"host": 7}}, "host: expected text"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_its_field(
    request_: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """Nothing is stored."""
    desk = Desk(tmp_path)
    with pytest.raises(ValueError, match=words):
        desk.people.answer({"command": "label", "incident": OPEN.id, **request_})
    assert not desk.events
    assert not desk.state.load("labels")


def test_a_cause_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """Later labels could not be saved with it."""
    desk = Desk(tmp_path)
    with pytest.raises(ValueError, match="cause: expected text in UTF-8"):
        desk.label("latest", "real", cause="RMA \udcff")
    assert desk.label("latest", "real", cause="RMA 4711")["known"]

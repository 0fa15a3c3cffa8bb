"""A learnt probability lowers tickets, and nothing else, and never executes what its file holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detectors.incidents import Incidents
from detectors.trust.calibrated import Calibrated, changed
from detectors.trust.calibration import MAX_BYTES, Calibration, ModelError, read
from detectors.trust.openings import DAY_NS, Opening, Openings
from pipeline.finding import Finding, Severity
from pipeline.observation import Event
from tests.fakes import FakeClock, gpu, gpu_frame, observed

FAULT = "hang/rank_stuck"
# Hardly any ticket of hang is real on this fleet.
MODEL = Calibration(-5.0, {"kind=job": 9.0}, 0.1, {FAULT: (2, 20)})


def finding(clock: FakeClock, index: int, severity: Severity, fault: str = FAULT) -> Finding:
    """One that opens an incident of its own."""
    now = clock.time_ns()
    return Finding("hang", gpu(index), fault, "onset", severity, now, now, "It stands still.")


class Fleet:
    """Incidents of the findings that it is given."""

    def __init__(self) -> None:
        self.clock, self.fusion = FakeClock(), Calibrated(Incidents())

    def tell(self, *findings: Finding, events: Sequence[Event] = ()) -> list[str]:
        """Severities of what is said."""
        self.clock.advance(1)
        observation = observed(self.clock, gpu_frame(self.clock, *[{}] * 8))
        observation = replace(observation, events=tuple(events))
        return [one.severity for one in self.fusion.update(observation, findings)]

    def learn(self, model: Calibration | None) -> None:
        """The event."""
        self.tell(events=[changed(model, "gateway", self.clock.time_ns())])


def test_without_a_model_nothing_changes() -> None:
    """Tickets stay tickets."""
    fleet = Fleet()
    assert fleet.tell(finding(fleet.clock, 0, "ticket")) == ["ticket"]


def test_a_ticket_that_is_hardly_ever_real_becomes_a_record_and_a_page_stays() -> None:
    """Also one that begins as a ticket and pages later."""
    fleet = Fleet()
    fleet.learn(MODEL)
    first = finding(fleet.clock, 0, "ticket")
    assert fleet.tell(first) == ["record"]
    assert fleet.tell(finding(fleet.clock, 1, "page")) == ["page"]
    louder = replace(first, severity="page", phase="ongoing", time_ns=fleet.clock.time_ns())
    assert fleet.tell(louder) == ["page"]
    assert fleet.fusion.lowered == 1


@pytest.mark.parametrize(
    ("fault", "faults"),
    [("ib/link_down", {"ib/link_down": (0, 20)}), (FAULT, {})],
    ids=["what a device reports of itself", "a fault with too few labels"],
)
def test_a_model_never_lowers(fault: str, faults: dict[str, tuple[int, int]]) -> None:
    """However low the probability is."""
    opening = Opening("hang", fault, "ticket", "gpu", "n1", 0)
    assert not replace(MODEL, faults=faults).lowers(opening, 0.0)


def test_a_model_that_ends_leaves_tickets_as_they_were_before_it() -> None:
    """The event without a model."""
    fleet = Fleet()
    fleet.learn(MODEL)
    fleet.learn(None)
    assert fleet.tell(finding(fleet.clock, 0, "ticket")) == ["ticket"]


def test_an_event_with_a_damaged_model_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The model before it stays, and the log says why."""
    fleet = Fleet()
    fleet.learn(MODEL)
    event = changed(MODEL, "gateway", fleet.clock.time_ns())
    facts: dict[str, Any] = {"model": str(event.attributes["model"]).replace("-5.0", "-6.0")}
    fleet.tell(events=[replace(event, attributes=facts)])
    assert fleet.fusion.model == MODEL
    assert "sha256" in caplog.text


def test_a_model_that_a_node_sends_lowers_nothing() -> None:
    """Only a gateway says by which one it judges: a node speaks for its own devices."""
    fleet = Fleet()
    fleet.tell(events=[changed(MODEL, "n1", fleet.clock.time_ns())])
    assert fleet.tell(finding(fleet.clock, 0, "ticket")) == ["ticket"]


def test_an_incident_that_opens_later_than_its_first_evidence_is_lowered_too() -> None:
    """The second of two GPUs of a node waits for others of it; also after a restart meanwhile."""
    fleet, other, fault = Fleet(), Fleet(), "pcie/replays"
    fleet.learn(replace(MODEL, faults={fault: (2, 20)}))
    assert fleet.tell(finding(fleet.clock, 0, "ticket", fault)) == ["record"]
    assert fleet.tell(finding(fleet.clock, 1, "ticket", fault)) == []
    other.fusion.restore(fleet.fusion.state())
    for one in (fleet, other):
        assert [severity for _ in range(60) for severity in one.tell()] == ["record"]


def test_what_is_lowered_stays_so_over_a_restart() -> None:
    """The model, the history and each incident that is open; a state of before has none of it."""
    fleet, other = Fleet(), Fleet()
    fleet.learn(MODEL)
    first = finding(fleet.clock, 0, "ticket")
    fleet.tell(first)
    other.fusion.restore(fleet.fusion.state())
    assert other.fusion.model == MODEL
    again = replace(first, times=2, again_ns=fleet.clock.time_ns(), phase="ongoing")
    assert fleet.tell(again) == other.tell(again) == ["record"]
    old = Fleet()
    old.fusion.restore(Incidents().state())
    assert old.fusion.model is None


def test_a_file_gives_the_model_back(tmp_path: Path) -> None:
    """With the same hash."""
    path = tmp_path / "calibration.json"
    path.write_text(MODEL.text() + "\n")
    assert read(path) == MODEL
    assert read(path).hash == MODEL.hash


GOOD = json.loads(MODEL.text())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not JSON"),
        ("\x80\x04pickle", "not JSON"),
        ("[" * 50_000, "not JSON"),
        ("[]", "format"),
        (json.dumps(GOOD | {"format": "tocsin-calibration-9"}), "format"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "weights"}), "weights: missing"),
        (json.dumps(GOOD | {"intercept": -4.0}), "sha256"),
        (json.dumps(GOOD | {"intercept": "x"}), "wrong kind"),
        (json.dumps(GOOD | {"intercept": True}), "wrong kind"),
        (json.dumps(GOOD | {"weights": {"far": 1e300}}), "out of range"),
        (json.dumps(GOOD | {"weights": [1]}), "wrong kind"),
        (json.dumps(GOOD | {"faults": {"a": 1}}), "wrong kind"),
        (json.dumps(GOOD | {"least": 1.5}), "below 1"),
        (MODEL.text().replace("-5.0", "NaN"), "NaN"),
        (" " * (MAX_BYTES + 1), "longer"),
    ],
)
def test_a_damaged_file_is_refused_and_says_what_is_wrong(text: str, named: str) -> None:
    """Also one that somebody made to do harm."""
    with pytest.raises(ModelError, match=named):
        Calibration.of(text)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """It is not decoded."""
    path = tmp_path / "calibration.json"
    path.write_bytes(b"\x80\x81")
    with pytest.raises(ModelError, match="not UTF-8"):
        read(path)


def test_the_numbers_of_an_incident_know_those_before_it() -> None:
    """Of its fault within a day, of its host within a week, and of anything within minutes."""
    openings = Openings()
    one = Opening("hang", FAULT, "ticket", "gpu", "n1", 10 * DAY_NS, 20.0, 10.0)
    assert openings.take(one)["alike"] == 0
    later = openings.take(replace(one, opened_ns=one.opened_ns + DAY_NS // 2, host="n2"))
    assert later["alike"] > 0
    assert (later["again"], later["burst"]) == (0, 0)
    last = openings.take(replace(one, opened_ns=one.opened_ns + 3 * DAY_NS))
    assert last["alike"] == 0
    assert last["again"] > 0
    copy = Openings()
    copy.prepare(openings.state())()
    assert copy.take(one) == openings.take(one)


def test_a_fault_that_was_never_real_is_lowered_whatever_its_numbers_say() -> None:
    """Of a ticket that the numbers alone call real; a page of it stays."""
    model = replace(MODEL, never=(FAULT,))
    ticket = Opening("hang", FAULT, "ticket", "job", "n1", 0)
    assert model.lowers(ticket, 0.99)
    assert not model.lowers(replace(ticket, severity="page"), 0.0)
    assert not MODEL.lowers(ticket, 0.99)


def test_a_model_without_such_faults_has_the_hash_that_it_had_before_there_were_any() -> None:
    """A store holds events of older gateways; one with such faults comes back as it was."""
    assert "never" not in MODEL.text()
    model = replace(MODEL, never=(FAULT,))
    assert Calibration.of(model.text()) == model
    assert model.hash != MODEL.hash

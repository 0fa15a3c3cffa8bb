"""Counts of what was told, health of devices, and lines in the log."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from collector.agent.device_health import DeviceHealthMetrics
from collector.agent.findings_log import FindingsLog
from collector.cli.logs import Lines
from pipeline.catalog import agent
from pipeline.exposition import Exposition
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS, FakeClock, gpu, gpu_frame, observed

FOUND = Finding("xid", gpu(0), "xid/gpu", "onset", "page", START_NS, START_NS, "XID 79.")
TOLD = Incident(
    "i1",
    gpu(0),
    "xid/gpu",
    "page",
    "RESTART_BM",
    START_NS,
    (FOUND.id,),
    "XID 79.",
    reason="Power-cycle it.",
)


class House:
    """The exposition, and behind it what counts."""

    def __init__(self) -> None:
        self.clock, self.metrics = FakeClock(), SelfMetrics()
        self.exposition = Exposition(self.metrics, clock=self.clock)
        self.reported = DeviceHealthMetrics(self.metrics, self.exposition.findings)
        self.frame = gpu_frame(self.clock, {}, {})

    def write(self, *findings: Finding, incidents: tuple[Incident, ...] = ()) -> None:
        """One observation of two GPUs."""
        seen = observed(self.clock, self.frame)
        for sink in (self.exposition, self.reported):
            sink.write(seen, findings, incidents)

    def health(self) -> dict[str, str]:
        """By device."""
        series = dict(self.metrics.series())[agent.DEVICE_HEALTH]
        assert {value for _, value in series} == {1.0}
        return {device: health for (_, device, health), _ in series}


def test_findings_are_counted_when_they_begin() -> None:
    """Not when they go on or end."""
    house = House()
    for phase in ("onset", "ongoing", "cleared"):
        house.write(replace(FOUND, phase=phase))
    assert house.metrics.value(agent.FINDINGS, "xid", "page") == 1


def test_incidents_are_counted_when_they_open() -> None:
    """Told again, with another root or more evidence, is the same one; after its end
    the same id is a new one.
    """
    house = House()
    for incident in (TOLD, replace(TOLD, root=gpu(1)), replace(TOLD, cleared_ns=START_NS + 1000)):
        house.write(incidents=(incident,))
    assert house.metrics.value(agent.INCIDENTS, "xid/gpu", "page") == 1


def test_every_device_that_was_seen_has_a_health() -> None:
    """It follows what stands, and comes back."""
    house = House()
    house.write(FOUND)
    assert house.health() == {gpu(0).id: "failed", gpu(1).id: "ok"}
    house.write(replace(FOUND, phase="cleared"))
    assert house.health() == {gpu(0).id: "ok", gpu(1).id: "ok"}


def test_after_a_restart_what_stood_is_shown_and_not_counted_again() -> None:
    """The counters began again with the process; what stands was counted in the life before."""
    house = House()
    house.exposition.resume((FOUND,), (TOLD,))
    house.reported.resume((TOLD,))
    house.write(incidents=(replace(TOLD, note="mine"),))
    assert house.health()[gpu(0).id] == "failed"
    assert house.metrics.value(agent.INCIDENTS, "xid/gpu", "page") is None


def lines(
    caplog: pytest.LogCaptureFixture, *reported: Incident
) -> list[tuple[str, dict[str, object]]]:
    """What the log says of incidents as they are told: level and document."""
    caplog.set_level(logging.INFO, "tocsin.incident")
    sink = FindingsLog()
    for incident in reported:
        sink.write(observed(FakeClock()), (), (incident,))
    return [(record.levelname, json.loads(record.getMessage())) for record in caplog.records]


def test_an_incident_is_a_json_line_when_it_opens_changes_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More evidence alone is no line; another root, an acknowledgement and the end are."""
    more, moved = replace(TOLD, findings=("a", "b")), replace(TOLD, root=gpu(1))
    taken, ended = (
        replace(moved, acknowledged_ns=START_NS, note="mine"),
        replace(moved, cleared_ns=START_NS + 10**9),
    )
    said = lines(caplog, TOLD, more, moved, taken, ended)
    assert [level for level, _ in said] == ["ERROR", "ERROR", "ERROR", "INFO"]
    assert [line["root_device"] for _, line in said] == [gpu(0).id, *[gpu(1).id] * 3]
    assert [line["cleared"] for _, line in said] == [None, None, None, START_NS / 1e9 + 1]
    assert said[2][1]["note"] == "mine"


def test_a_line_says_what_to_do_and_why(caplog: pytest.LogCaptureFixture) -> None:
    """For those who read logs and nothing else."""
    ((_, line),) = lines(caplog, TOLD)
    assert (line["action"], line["reason"], line["findings"]) == (
        "RESTART_BM",
        "Power-cycle it.",
        [FOUND.id],
    )


def test_a_log_of_json_lines_has_findings_and_incidents_as_objects(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One object a line, whoever ships the log asks for `.finding.device` and unpacks nothing. The
    message of an incident has the device first, with serial and rack, then fact, step and id.
    """
    facts = {"index": "0", "serial": "1652859266991", "rack": "R3"}
    reported = replace(TOLD, id="5a2e173dd20e2d3d", root=Device("n1", "gpu", "GPU-00", facts))
    caplog.set_level(logging.INFO, "tocsin")
    FindingsLog().write(observed(FakeClock()), (FOUND,), (reported,))
    finding, incident = (
        json.loads(Lines("json", priorities=False).format(record)) for record in caplog.records
    )
    assert (finding["level"], finding["msg"], finding["finding"]["device"]) == (
        "error",
        FOUND.summary,
        gpu(0).id,
    )
    assert incident["msg"] == (
        "GPU 0 on n1 (serial 1652859266991, rack R3): XID 79. Power-cycle it. Incident 5a2e173d."
    )
    assert (incident["incident"]["action"], incident["incident"]["rack"]) == ("RESTART_BM", "R3")
    assert [json.loads(record.getMessage()) for record in caplog.records] == [
        finding["finding"],
        incident["incident"],
    ]

"""Lines of the driver: counted once each, believed for what they say, and
over when they are over.
"""

from __future__ import annotations

from typing import Any

import pytest

from detectors.incidents import health_of
from pipeline.frame import Device
from pipeline.observation import Event, Observation, Value
from pipeline.xid.counts import XidCounts
from tests.detectors.regressions.node import JudgedNode


@pytest.mark.slow
def test_94_then_13_are_two_codes_and_no_reset_of_a_counter() -> None:
    """A rule over the increase of a last-value gauge sees 94 fall to 13; here both
    are open, each for what it is.
    """
    node = JudgedNode()
    node.run(120)
    node.job("42")
    node.xid(94, 2)
    node.run(600)
    node.xid(13, 2)
    assert [(f.device.kind, f.fault, f.severity) for f in node.alarms() if f.phase == "onset"] == [
        ("gpu", "xid/memory", "ticket"),
        ("job", "xid/application", "ticket"),
    ]


def test_a_code_that_repeats_is_counted_though_the_last_value_does_not_change() -> None:
    """31 and 31: the count of the code says two, and the last code of
    the gauge is 31 both times.
    """
    saved: list[dict[str, Any]] = []
    counts, node = XidCounts(saved.append, boot_id="boot-1"), JudgedNode()
    counts.register(node.gpus)
    for n in range(2):
        facts: dict[str, Value] = {"code": 31, "origin": "kmsg", "stream": "boot-1", "seq": n}
        event = Event(node.clock.time_ns(), 0, node.gpus[0], "xid", facts)
        counts.write(
            Observation("kmsg", "n1", "boot-1", n, node.clock.time_ns(), 0, 0, events=(event,))
        )
        node.clock.advance(60)
    assert [
        n for device, code, n, _ in counts.series() if (device.id, code) == (node.gpus[0].id, 31)
    ] == [2]
    assert counts.last(node.gpus[0].id) == 31


@pytest.mark.slow
@pytest.mark.parametrize("reporter", ["kmsg", "nvml"])
@pytest.mark.parametrize(
    ("code", "severity"), [(63, "record"), (64, "page"), (13, "ticket"), (95, "page")]
)
def test_a_code_is_as_serious_whoever_reports_it(reporter: str, code: int, severity: str) -> None:
    """A remap that was recorded and one that failed are filtered in one of two paths
    elsewhere; here there is one path.
    """
    node = JudgedNode()
    node.run(120)
    assert [f.severity for f in node.xid(code, reporter=reporter)] == [severity]


@pytest.mark.slow
def test_a_gpu_is_well_again_after_its_reset_and_a_clean_day() -> None:
    """No restart of the agent, no command: the XID's finding ends, its incident closes, and the
    GPU's health is in order.
    """
    node = JudgedNode(period_s=300)
    node.run(600)
    node.xid(119, 3)
    assert health_of(node.findings)[node.gpus[3]] == "failed"
    node.run(3600)
    node.driver_reload()
    node.run(24 * 3600)
    last = {f.id: f for f in node.findings}
    assert {f.phase for f in last.values()} == {"cleared"}
    assert all(incident.cleared_ns for incident in node.incidents.values())
    assert health_of(f for f in last.values() if f.active) == {}


@pytest.mark.slow
def test_gpus_that_change_their_numbers_keep_their_findings() -> None:
    """After a reload the driver counts its GPUs in another order: the fault stays with the board,
    and clears by its identity.
    """
    node = JudgedNode(period_s=60)
    node.run(600)
    node.xid(119, 3)
    faulty = node.gpus[3]
    node.gpus = [
        Device(g.host, g.kind, g.id, {**g.attributes, "index": str(7 - i)})
        for i, g in enumerate(node.gpus)
    ]
    node.run(3600)
    node.driver_reload()
    node.run(3600)
    findings = [f for f in node.findings if f.device.kind == "gpu"]
    assert {f.device.id for f in findings} == {faulty.id}
    assert findings[-1].phase == "cleared"


@pytest.mark.slow
def test_a_swapped_gpu_leaves_no_condition_behind() -> None:
    """Another board in the slot: open findings about the old one end, and
    there is none about the new one.
    """
    node = JudgedNode(period_s=60)
    node.run(600)
    node.xid(95, 3)
    old = node.gpus[3]
    node.gpus[3] = Device("n1", "gpu", "GPU-new", old.attributes)
    node.run(3600)
    assert {(f.device.id, f.phase) for f in node.findings if f.device.kind == "gpu"} == {
        (old.id, "onset"),
        (old.id, "cleared"),
    }


@pytest.mark.slow
def test_an_xid_that_stops_one_gpus_answers_blinds_nobody_to_the_others() -> None:
    """119 on GPU 0, whose readings then fail: a row remap that fails on GPU 5 is paged as ever."""
    node = JudgedNode()
    node.run(600)
    node.xid(119, 0)
    dumb: dict[str, float | None] = dict.fromkeys(
        ("gpu_utilization_percent", "sm_clock_megahertz", "row_remap_failed")
    )
    node.run(600, {node.gpus[0].id: {**dumb, "state": 2}})
    node.run(60, {node.gpus[0].id: {**dumb, "state": 2}, node.gpus[5].id: {"row_remap_failed": 1}})
    assert ("ecc/remap_failed", "page") in {
        (f.fault, f.severity) for f in node.alarms() if f.device == node.gpus[5]
    }


@pytest.mark.slow
def test_a_lost_gpu_is_told_of_while_it_stays_away() -> None:
    """Its row goes on in the frames: the finding is open for days and does not
    vanish with the readings.
    """
    node = JudgedNode(period_s=600)
    node.run(6000)
    lost = node.gpus[6]
    node.run(
        3 * 24 * 3600,
        {
            lost.id: {
                **dict.fromkeys(("gpu_utilization_percent", "temperature_celsius")),
                "state": 1,
            }
        },
    )
    assert [(f.fault, f.severity, f.phase) for f in node.findings if f.device == lost] == [
        ("gpu_lost", "page", "onset")
    ]

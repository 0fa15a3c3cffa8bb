"""Nodes that were down for all the time of a report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.economics.gather import Accounting, gather
from history.economics.report import report
from history.economics.sacct import NodeEvent
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.observation import Event
from pipeline.store.query.store import Store
from tests.fakes import START_NS
from tests.pipeline.store.stored import StoreMaker

pytestmark = pytest.mark.slow

HOUR_NS = 3600 * SECOND_NS
SINCE = datetime.fromtimestamp(START_NS / 1e9, UTC)
UNTIL = SINCE + timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two nodes with two GPUs each, of which one stopped two days before the report with a job; one
    of its GPUs had been replaced.
    """
    maker = StoreMaker(tmp_path)
    for host, begin_ns, uuids in (
        ("gpu02.example.org", START_NS - 72 * HOUR_NS, "ab"),
        ("gpu02.example.org", START_NS - 48 * HOUR_NS, "ac"),
        ("gpu01.example.org", START_NS, "de"),
    ):
        gpus = [
            Device(host, "gpu", f"GPU-{uuid}", {"index": str(n), "name": "H100"})
            for n, uuid in enumerate(uuids)
        ]
        job = {"job": "7", "gpus": "GPU-a GPU-c", "user": "ada", "scheduler": "slurm"}
        begun = Event(begin_ns, 0, Device(host, "node", host), "job_started", job)
        for at in range(begin_ns, begin_ns + HOUR_NS, 60 * SECOND_NS):
            values = {"gpu_utilization_percent": 90, "state": 1}
            frame = frame_of("gpu", [(gpu, values) for gpu in gpus], at, at)
            maker.add(host, at, source="nvml", frames=(frame,), events=(begun,))
    maker.close()
    return Store(tmp_path)


def down(node: str, begin_hours: float, end_hours: float | None, state: str = "DOWN*") -> NodeEvent:
    """From some hours after the begin of the report on."""
    begin_s = START_NS / 1e9 + begin_hours * 3600
    end_s = None if end_hours is None else START_NS / 1e9 + end_hours * 3600
    return NodeEvent(node, begin_s, end_s, state, "Not responding", "slurm")


@pytest.mark.parametrize(
    ("event", "hours"),
    [
        (down("gpu02", -47, None), {"down": 2.0, "used": 2.0}),
        (down("gpu02", -47, 0.5), {"down": 1.0, "unknown": 1.0, "used": 2.0}),
        (down("gpu02", -47, None, "DRAIN"), {"repair": 2.0, "used": 2.0}),
    ],
)
def test_a_node_without_a_reading_that_a_scheduler_has_as_down_counts(
    store: Store, event: NodeEvent, hours: dict[str, float]
) -> None:
    """With the GPUs that it had last, in no job, and with a note."""
    accounting = Accounting(nodes=(event,))
    made = report(gather(store, SINCE, UNTIL, accounting), SINCE, UNTIL, 0.99, accounting)
    assert (made.nodes, made.gpus) == (2, 4)
    assert {cause: spent for cause, spent in made.hours.items() if spent} == pytest.approx(hours)
    assert made.groups["team"].keys() == {""}
    assert made.groups["model"].keys() == {"H100"}
    (note,) = made.notes
    assert note.endswith("counted as the accounting has them: 1 (gpu02.example.org (2 GPUs))")


def test_nodes_of_which_no_gpu_is_known_are_named_and_others_are_not(store: Store) -> None:
    """Nor one that was read, or was down at another time."""
    events = [
        down("cpu1", -1, None),
        down("gpu01", -1, None),
        down("gpu02", -40, -1),
        down("gpu02.example.net", 0, 1),
    ]
    accounting = Accounting(nodes=events)
    found = gather(store, SINCE, UNTIL, accounting)
    assert [node.host for node in found.nodes] == ["gpu01.example.org"]
    (note,) = found.notes
    assert note.endswith("the store knows no GPU of them: 2 (cpu1, gpu02.example.net)")

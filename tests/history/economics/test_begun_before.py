"""What began long before the time of a report, and goes on in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.economics.evidence import NodeEvidence
from history.economics.gather import Accounting, Gathered, gather
from history.economics.sacct import Run
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.observation import Event
from pipeline.store.query.store import Store
from tests.fakes import START_NS
from tests.pipeline.store.stored import StoreMaker

pytestmark = pytest.mark.slow

HOST, HOUR_NS = "gpu01", 3600 * SECOND_NS
GPUS = [Device(HOST, "gpu", f"GPU-{n}", {"index": str(n), "name": "H100"}) for n in range(2)]
NODE = Device(HOST, "node", HOST)
BOTH = "GPU-0 GPU-1"
SINCE = datetime.fromtimestamp(START_NS / 1e9, UTC)
UNTIL = SINCE + timedelta(hours=1)


def event(days: float, kind: str, **attributes: str) -> Event:
    """So many days before the report."""
    at = START_NS - round(days * 24 * HOUR_NS)
    return Event(at, at, NODE, kind, attributes)


def started(days: float, job: str, user: str, gpus: str = BOTH) -> Event:
    """A job of Slurm."""
    return event(days, "job_started", job=job, user=user, gpus=gpus, scheduler="slurm")


def ended(days: float, job: str) -> Event:
    """Likewise."""
    return event(days, "job_ended", job=job, scheduler="slurm")


def gathered(
    root: Path,
    *events: Event,
    boot: str = "boot",
    percent: int = 90,
    accounting: Accounting | None = None,
) -> Gathered:
    """An hour of a node with two GPUs; the events were read in the ``boot``."""
    maker = StoreMaker(root)
    for one in events:
        maker.add(HOST, one.time_ns, source="jobs", events=(one,), boot_id=boot)
    for at in range(START_NS, START_NS + HOUR_NS, 60 * SECOND_NS):
        values = {"gpu_utilization_percent": percent, "state": 1}
        frame = frame_of("gpu", [(gpu, values) for gpu in GPUS], at, at)
        maker.add(HOST, at, source="nvml", frames=(frame,), boot_id="boot")
    maker.close()
    return gather(Store(root), SINCE, UNTIL, accounting)


def held(node: NodeEvidence) -> dict[str, tuple[int, ...]]:
    """GPUs by team."""
    return {job.team: job.gpus for job in node.jobs}


@pytest.mark.parametrize(
    ("events", "teams"),
    [
        ([started(400, "7", "ada")], {"ada": (0, 1)}),
        ([started(400, "7", "ada"), ended(40, "7")], {}),
        ([started(400, "7", "ada"), ended(20, "7")], {}),
        ([started(400, "7", "ada"), started(300, "8", "eve", "GPU-1")], {"ada": (0,), "eve": (1,)}),
        ([started(400, "7", "ada"), started(300, "8", "eve"), ended(200, "8")], {}),
        ([started(400, "7", "ada"), started(20, "8", "eve")], {"eve": (0, 1)}),
    ],
)
def test_a_job_has_its_hours_however_long_ago_it_began(
    tmp_path: Path, events: list[Event], teams: dict[str, tuple[int, ...]]
) -> None:
    """Unless it ended, or another one was given its GPUs."""
    (node,) = gathered(tmp_path, *events).nodes
    assert held(node) == teams


def test_a_job_that_began_in_an_earlier_boot_of_its_node_has_ended(tmp_path: Path) -> None:
    """Its end was never reported."""
    (node,) = gathered(tmp_path, started(400, "7", "ada"), boot="earlier").nodes
    assert held(node) == {}


def run(job: str, begin_days: float, end_days: float | None) -> Run:
    """As Slurm accounts for a job with the complete node."""
    begin_s, end_s = (
        None if days is None else START_NS / 1e9 - days * 86_400 for days in (begin_days, end_days)
    )
    return Run(("", job, ""), job, "RUNNING", begin_s, end_s, (HOST,), 2, "eve", "ml", "", "")


def test_a_job_of_which_the_store_has_no_start_is_that_of_the_accounting(tmp_path: Path) -> None:
    """On a node of which the store knows other jobs; a later job ends one that seems to run."""
    other = [started(3, "8", "ada"), ended(2, "8")]
    accounting = Accounting([run("7", 1, None)])
    (node,) = gathered(tmp_path / "1", *other, accounting=accounting).nodes
    assert held(node) == {"ml": (0, 1)}
    accounting = Accounting([run("7", 90, None)])
    (node,) = gathered(tmp_path / "2", *other, accounting=accounting).nodes
    assert held(node) == {}


def test_jobs_that_ended_without_a_start_are_named(tmp_path: Path) -> None:
    """The store gave the start up, and no accounting has it."""
    within = ended(-1 / 48, "7")
    assert gathered(tmp_path / "1", within).notes == [
        "Jobs that ended and of which no start is known, whose GPU-hours have no team: 1 (7)"
    ]
    accounting = Accounting([run("7", 90, -1 / 48)])
    found = gathered(tmp_path / "2", within, accounting=accounting)
    assert (found.notes, held(found.nodes[0])) == ([], {"ml": (0, 1)})


STEP = {"step": "rma", "incident": "5a", "act": "rma"}


@pytest.mark.parametrize(
    ("kind", "about"), [("maintenance_started", {"user": "ada"}), ("repair_step", STEP)]
)
def test_a_node_is_out_of_service_however_long_ago_that_began(
    tmp_path: Path, kind: str, about: dict[str, str]
) -> None:
    """Unless its end was lost: the node works, or was given a job in the last month."""
    began = event(100, kind, **about)
    (node,) = gathered(tmp_path / "1", began, percent=0).nodes
    assert [span.cause for span in node.spans] == ["repair"]
    (works,) = gathered(tmp_path / "2", began).nodes
    jobs = started(20, "7", "ada"), ended(19, "7")
    (given,) = gathered(tmp_path / "3", began, *jobs, percent=0).nodes
    assert (works.spans, given.spans) == ((), ())

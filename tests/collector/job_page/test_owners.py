"""The owner of a run reads what is about it, and nothing of those with whom it shares nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.job_page.document import document
from collector.job_page.life import life_of_run
from collector.job_page.owned import own_part, owned_runs
from collector.job_page.reader import OwnerReader
from pipeline.frame import Device, frame_of
from pipeline.store.query.store import Store, Window
from tests.collector.job_page.stored_job import (
    BEGIN_NS,
    GPUS,
    HOSTS,
    MINUTE_NS,
    StoredJob,
    uuid,
)

pytestmark = pytest.mark.slow


def hold(
    run: StoredJob, host: str, minute: float = 0, /, *, gpus: int = GPUS, **facts: str
) -> None:
    """An allocation of the scheduler, as the agent of a host stores it."""
    at = run.begin_ns + round(minute * MINUTE_NS)
    about = {"scheduler": "slurm", "job": run.job, "user": "ada"} | facts
    name = about["job"] or about.get("pod", "")
    devices = [
        Device(host, "device_job", f"{uuid(host, gpu)}/{name}", {**about, "uuid": uuid(host, gpu)})
        for gpu in range(gpus)
    ]
    frame = frame_of("device_job", [(device, {"processes": 1}) for device in devices], at, at)
    run.maker.add(host, at, source="jobs", frames=[frame])


def owners(root: Path) -> list[tuple[str, str]]:
    """Job and owner of each run."""
    return [(one.run.job, one.owner) for one in owned_runs(Store(root), Window())]


def read(root: Path, job: str = "71", number: int = 0) -> Mapping[str, Any]:
    """The page of a run as its owner reads it."""
    store = Store(root)
    one = list(owned_runs(store, Window(), job))[number]
    run, alone = own_part(store, one.run)
    return document(life_of_run(store, run, (), OwnerReader(run, alone=alone)))


def test_a_run_is_of_whom_the_scheduler_names_on_each_of_its_nodes(tmp_path: Path) -> None:
    """Slurm's user, as the kernel has it."""
    job = StoredJob(tmp_path, 5)
    for host in HOSTS:
        hold(job, host)
    job.run()
    job.close()
    assert owners(tmp_path) == [("71", "user:ada")]


@pytest.mark.parametrize("other", [None, {"user": "bob"}, {"scheduler": ""}, {"user": "ada\u202e"}])
def test_a_run_is_nobodys_where_a_node_says_nothing_or_something_else(
    tmp_path: Path, other: Any
) -> None:
    """What processes claim, which is all that the second node has, makes no owner."""
    job = StoredJob(tmp_path, 5)
    hold(job, "n1")
    if other is not None:
        hold(job, "n2", **other)
    job.run()
    job.close()
    assert owners(tmp_path) == [("71", "")]


def test_an_id_that_is_used_again_is_another_users(tmp_path: Path) -> None:
    """Each run has the owner, name and user of its own time."""
    first = StoredJob(tmp_path, 5)
    for host in HOSTS:
        hold(first, host)
    first.run()
    first.close()
    again = StoredJob(tmp_path, 5, begin_ns=BEGIN_NS + 60 * MINUTE_NS)
    for host in HOSTS:
        hold(again, host, user="bob")
    facts: Any = {"job": "71", "gpus": uuid("n1", 0), "name": "secret", "user": "bob"}
    again.event("n1", 0.01, "job_started", **facts)
    again.run()
    again.close()
    assert owners(tmp_path) == [("71", "user:ada"), ("71", "user:bob")]
    assert "secret" not in json.dumps(read(tmp_path))
    assert "bob" not in json.dumps(read(tmp_path))


def shared(root: Path) -> StoredJob:
    """Ada has half of each node for an hour and bob's secret the other half."""
    job = StoredJob(root, 30)
    for host in HOSTS:
        hold(job, host, gpus=2)
        bobs = Device(host, "device_job", f"{uuid(host, 3)}/72", {
            "scheduler": "slurm", "job": "72", "user": "bob", "uuid": uuid(host, 3),
        })  # fmt: skip
        at = job.begin_ns - 5 * MINUTE_NS
        frame = frame_of("device_job", [(bobs, {"processes": 1})], at, at)
        job.maker.add(host, at, source="jobs", frames=[frame])
        job.event(host, -5, "job_started", job="72", gpus=uuid(host, 3), name="secret", user="bob")
    return job


def test_gpus_of_others_are_not_read(tmp_path: Path) -> None:
    """Processes of a job may have opened them: only what the scheduler gave it counts."""
    job = shared(tmp_path)
    job.run()
    job.close()
    page = read(tmp_path)
    assert page["gpus"] == sorted(uuid(host, gpu) for host in HOSTS for gpu in range(2))
    assert {minute["gpus"] for minute in page["throughput"]} == {4}


def test_a_divided_gpu_and_one_with_two_holders_are_not_read(tmp_path: Path) -> None:
    """Their readings are others' too. Without a GPU of its own a run has no readings."""
    job = StoredJob(tmp_path, 5)
    for host in HOSTS:
        hold(job, host, gpu_instance="1")
    job.run()
    job.close()
    page = read(tmp_path)
    assert (page["gpus"], page["throughput"]) == ([], [])


def test_words_about_shared_nodes_are_left_out(tmp_path: Path) -> None:
    """Incidents keep their class; what began later, or names nobody of the job, is not there."""
    job = shared(tmp_path)
    own, node = Device("n1", "gpu", uuid("n1", 0)), Device("n1", "node", "n1")
    job.incident(10, own, "Beside bob's secret.")
    job.incident(11, node, "bob's secret crashed.", jobs=())
    job.incident(12, Device("n1", "gpu", uuid("n1", 3)), "Of bob's GPU.", jobs=("72",))
    job.incident(35, own, "Under bob's secret, later.", jobs=())
    job.event("n1", 29.9, "kernel_panic", text="Comm: secret")
    job.event("n1", 29.8, "oom_kill", pid=4002, process="secret", text="x", job="72")
    job.event("n1", 34, "oom_kill", pid=4002, process="secret", text="bob's, with a pid of ada's")
    job.event("n1", 34, "xid", gpu=0, code=31)
    job.event("n1", 29, "xid", gpu=3, code=31)
    job.run()
    job.close()
    page = read(tmp_path)
    text = json.dumps(page)
    for word in ("bob", "secret", "72", uuid("n1", 3), "XID 31"):
        assert word not in text, (word, text)
    assert [row["summary"] for row in page["incidents"]] == [
        "fault (it may concern others too)"
    ] * 2
    assert page["ended_by"]["cause"] == "node_lost"


def test_words_about_nodes_that_nobody_shares_are_read(tmp_path: Path) -> None:
    """The job before it, whose end is noticed late, used other hours."""
    job = StoredJob(tmp_path, 30)
    for host in HOSTS:
        hold(job, host)
        job.event(host, -60, "job_started", job="70", gpus=uuid(host, 0))
        job.event(host, 0.5, "job_ended", job="70")
    job.incident(29, Device("n1", "gpu", uuid("n1", 0)), "GPU 0 is lost.")
    job.run()
    job.close()
    page = read(tmp_path)
    assert [row["summary"] for row in page["incidents"]] == ["GPU 0 is lost."]
    assert len(page["gpus"]) == 8


def test_a_pod_without_a_training_shares_the_node(tmp_path: Path) -> None:
    """No event begins or ends it: its allocation does."""
    job = StoredJob(tmp_path, 30)
    hold(job, "n1", -600, gpus=1, scheduler="kubernetes", job="", namespace="b", pod="p")
    for host in HOSTS:
        hold(job, host)
    job.incident(29, Device("n1", "gpu", uuid("n1", 1)), "GPU 1 is lost.")
    job.run()
    job.close()
    page = read(tmp_path)
    assert page["incidents"][0]["summary"] == "fault (it may concern others too)"
    assert uuid("n1", 0) not in page["gpus"]

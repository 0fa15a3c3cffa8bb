"""Jobs that hold GPUs, by the scheduler's exporters, where no series of a GPU names one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from history.importing import Progress, bring, find
from history.meaning.holders import Holders
from history.meaning.labels import LabelMap
from history.site.series import Series
from pipeline.replay import replay
from tests.history.recorded import Recorded
from tests.history.site import BEGIN_MS, HOUR_MS, gpu_labels, node, scrapes

pytestmark = pytest.mark.slow
HOUR = (BEGIN_MS, BEGIN_MS + HOUR_MS)
START, END = BEGIN_MS + 600_000, BEGIN_MS + 1_800_000
KSM = {"instance": "ksm:8080", "job": "kube-state-metrics"}
Told = list[tuple[str, str, str, int]]


def jobs(site: Recorded, root: Path) -> tuple[Told, Progress]:
    """Starts and ends as kind, job, GPUs and milliseconds since the begin; what the import did."""
    done = bring(site, find(site, *HOUR, None), root, HOUR)
    found = [e for seen in replay(root) for e in seen[0].events if e.kind.startswith("job_")]
    return [
        (
            event.kind,
            str(event.attributes["job"]),
            str(event.attributes.get("gpus", "")),
            event.time_ns // 1_000_000 - BEGIN_MS,
        )
        for event in found
    ], done


def pod(site: Recorded, name: str, gpus: int, **more: str) -> None:
    """A pod with GPUs of n1: it asks for them all the time, and runs from START to END."""
    labels = {**KSM, "namespace": "ml", "pod": name, **more}
    times = scrapes(*HOUR, 30_000)
    requests = {**labels, "container": "main", "node": "n1", "resource": "nvidia_com_gpu"}
    site.add("kube_pod_container_resource_requests", requests, [(ms, gpus) for ms in times])
    memory = {**requests, "resource": "memory"}
    site.add("kube_pod_container_resource_requests", memory, [(ms, 1e9) for ms in times])
    running = [(ms, float(START <= ms < END)) for ms in times]
    site.add("kube_pod_status_phase", {**labels, "phase": "Running"}, running)


def test_a_pod_with_all_gpus_of_its_node_holds_them_while_it_runs(tmp_path: Path) -> None:
    """One that waits or is done asks for them too, and holds none."""
    site = Recorded()
    node(site, "n1", scrapes(*HOUR))
    pod(site, "train-0", 2)
    found, _ = jobs(site, tmp_path)
    assert [one[:3] for one in found] == [
        ("job_started", "ml/train-0", "GPU-n1-0 GPU-n1-1"),
        ("job_ended", "ml/train-0", ""),
    ]
    assert found[0][3] == START - BEGIN_MS
    assert 0 <= found[1][3] - (END - BEGIN_MS) <= 120_000


def test_of_a_pod_with_some_gpus_none_is_claimed(tmp_path: Path) -> None:
    """It is counted, and named."""
    site = Recorded()
    node(site, "n1", scrapes(*HOUR))
    pod(site, "infer-0", 1)
    found, done = jobs(site, tmp_path)
    assert found == []
    assert [name for why, name in done.account.skipped if why.startswith("holds some")] == [
        "job ml/infer-0"
    ]


def test_a_pod_holds_its_gpus_once_where_several_exporters_list_it() -> None:
    """kube-state-metrics that moves has another instance, and the time of both counts."""
    holders = Holders()
    for instance, times in (("10.0.0.1:8080", (0, 30_000)), ("10.0.0.2:8080", (60_000, 90_000))):
        labels = {"namespace": "ml", "pod": "infer-0", "instance": instance}
        asked = {**labels, "container": "main", "node": "n1", "resource": "nvidia_com_gpu"}
        for name, more, value in (
            ("kube_pod_container_resource_requests", asked, 4.0),
            ("kube_pod_status_phase", {**labels, "phase": "Running"}, 1.0),
        ):
            values = np.full(len(times), value)
            series = Series({**more, "__name__": name}, np.array(times, np.int64), values)
            holders.take(series, LabelMap())
    (found,) = holders.of("n1")
    assert (found.job, found.count) == ("ml/infer-0", 4)
    assert found.times_ms.tolist() == [0, 30_000, 60_000, 90_000]


def test_slurms_jobs_hold_the_gpus_of_their_index(tmp_path: Path) -> None:
    """guilbaults/slurm-job-exporter on the node."""
    site = Recorded()
    node(site, "n1", scrapes(*HOUR))
    labels = {"slurmjobid": "4711", "user": "a", "account": "b", "gpu": "1", "gpu_type": "H100"}
    times = [ms for ms in scrapes(*HOUR, 60_000) if START <= ms < END]
    where = {"instance": "n1:9798", "job": "slurm-job"}
    site.add("slurm_job_utilization_gpu", {**labels, **where}, [(ms, 90.0) for ms in times])
    found, _ = jobs(site, tmp_path)
    assert [one[:3] for one in found] == [
        ("job_started", "4711", "GPU-n1-1"),
        ("job_ended", "4711", ""),
    ]


def test_what_the_exporter_of_the_gpus_says_is_believed_first(tmp_path: Path) -> None:
    """Its labels name the very GPU."""
    site = Recorded()
    times = scrapes(*HOUR)
    own = {"exported_pod": "infer-1", "exported_namespace": "ml"}
    for gpu, more in ((0, own), (1, {})):
        labels = gpu_labels("n1", gpu, **more)
        site.add("DCGM_FI_DEV_GPU_TEMP", labels, [(ms, 50.0 + ms % 7) for ms in times])
    pod(site, "train-0", 2)
    found, _ = jobs(site, tmp_path)
    assert [one[:3] for one in found] == [("job_started", "ml/infer-1", "GPU-n1-0")]


@pytest.mark.parametrize("every_ms", [15_000, 60_000, 300_000])
def test_a_job_ends_two_scrapes_after_its_last(tmp_path: Path, every_ms: int) -> None:
    """Of the site's own interval, whatever it is."""
    site = Recorded()
    node(site, "n1", scrapes(*HOUR, 15_000))
    labels = {"slurmjobid": "4711", "gpu": "1", "instance": "n1:9798", "job": "slurm-job"}
    times = [ms for ms in scrapes(*HOUR, every_ms) if START <= ms < END]
    site.add("slurm_job_utilization_gpu", labels, [(ms, 90.0) for ms in times])
    found, _ = jobs(site, tmp_path)
    assert [one[0] for one in found] == ["job_started", "job_ended"]
    assert found[1][3] == pytest.approx(times[-1] - BEGIN_MS + 2 * every_ms, abs=15_000)


def test_an_exporter_that_is_scraped_by_its_address_is_named(tmp_path: Path) -> None:
    """Its jobs join no node: one line says of which, and what to do."""
    site = Recorded()
    node(site, "n1", scrapes(*HOUR))
    labels = {"slurmjobid": "4711", "gpu": "1", "instance": "10.0.0.5:9798", "job": "slurm-job"}
    site.add("slurm_job_utilization_gpu", labels, [(ms, 90.0) for ms in scrapes(*HOUR, 60_000)])
    found, done = jobs(site, tmp_path)
    assert found == []
    assert [name for why, name in done.account.skipped if "of which no GPU is known" in why] == [
        "jobs of node 10.0.0.5"
    ]


def test_pods_on_nodes_that_have_another_name_here_are_counted(tmp_path: Path) -> None:
    """Of GPUs whose exporter is known by its address, kube-state-metrics has the node's name."""
    site = Recorded()
    node(site, "n1", scrapes(*HOUR), Hostname="", instance="10.0.0.1:9400")
    pod(site, "whole", 2)
    found, done = jobs(site, tmp_path)
    assert found == []
    (left_out,) = (name for why, name in done.account.skipped if "no GPU is known" in why)
    assert left_out == "jobs of node n1"

"""Jobs of a real Slurm, found by their real processes: batch steps, steps of
srun, arrays, and their end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.node.gpu_processes import NO_INSTANCE, GpuProcesses, Holder
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.jobs.providers import AllocationProvider, MappingProvider, SlurmProvider
from collector.sources.jobs.slurm.allocations import local_user
from collector.sources.jobs.source import JobsSource
from pipeline.clock import SystemClock
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from tests.slurm import GPUS, NVIDIA_MAJOR, Slurm, slurm
from tests.sources import ROOT
from tests.wait import until

pytestmark = [pytest.mark.integration, pytest.mark.root]
Found = dict[str, dict[str, str]]


class Node:
    """The source of jobs on this machine, with eight GPUs for the device
    files that Slurm gives out.
    """

    def __init__(self, *others: AllocationProvider) -> None:
        self.holders, clock, metrics = GpuProcesses(), SystemClock(), SelfMetrics()
        gpus = [
            Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(n)})
            for n in range(GPUS)
        ]
        self.holders.note(gpus, ())
        providers = [*others, SlurmProvider(Path("/proc"), local_user, clock, metrics)]
        inventory = Inventory("n1", State(None))
        self.source = JobsSource(
            providers, "n1", clock, metrics, holders=self.holders, inventory=inventory
        )

    def held(self, job: str) -> Found:
        """What is known of a job, by GPU."""
        devices = self.source.read().frames[0].devices
        return {
            d.attributes["uuid"]: dict(d.attributes) for d in devices if d.attributes["job"] == job
        }


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """One node with eight GPUs and our prolog and epilog, for all tests here."""
    with slurm(
        nodes=1, more="Prolog={directory}/prolog\nEpilog={directory}/epilog", before=hooks
    ) as running:
        yield running


def hooks(cluster: Slurm) -> None:
    """The scripts that we ship, told where to write: Slurm starts hooks with an
    almost empty environment.
    """
    for name in ("prolog", "epilog"):
        script = (
            "#!/bin/sh\n"
            f"TOCSIN_JOB_MAPPING={cluster.directory}/jobs exec sh "
            f"{ROOT}/deploy/slurm/tocsin-{name}\n"
        )
        (cluster.directory / name).write_text(script)
        (cluster.directory / name).chmod(0o755)


@pytest.fixture
def node() -> Node:
    """An agent's source of jobs that has seen nothing yet."""
    return Node()


def test_a_batch_job_is_known_from_its_start_to_its_end(cluster: Slurm, node: Node) -> None:
    """Job, step, user, partition, name and the GPUs that Slurm gave it,
    while it runs and no longer.
    """
    job = cluster.submit("sleep 600", "--gres=gpu:2", "--mem=10", "--uid=nobody", "--job-name=a=b")
    found = until(lambda: node.held(job), "the job's processes")
    given = re.search(r"IDX:(\d+)-(\d+)", cluster.run("scontrol", "show", "job", "-d", job))
    cluster.run("scancel", job)
    assert given
    assert sorted(found) == [f"GPU-{n}" for n in given.groups()]
    wanted = {
        "scheduler": "slurm",
        "step": "batch",
        "user": "nobody",
        "partition": "gpu",
        "job_name": "a=b",
    }
    for facts in found.values():
        assert {name: facts[name] for name in wanted} == wanted
        assert facts["evidence"] == "environment"
    until(lambda: not node.held(job), "the job's end")


def test_two_jobs_at_once_have_each_their_own(cluster: Slurm, node: Node) -> None:
    """The GPUs of one are none of the other's."""
    jobs = [cluster.submit("sleep 600", "--gres=gpu:3", "--mem=10") for _ in range(2)]
    until(lambda: all(node.held(job) for job in jobs), "both jobs' processes")
    first, second = (node.held(job) for job in jobs)
    cluster.run("scancel", *jobs)
    assert (len(first), len(second), first.keys() & second.keys()) == (3, 3, set())


def test_a_task_of_an_array_names_its_array(cluster: Slurm, node: Node) -> None:
    """Array job and index, beside the job's own id."""
    array = cluster.submit("sleep 600", "--gres=gpu:1", "--mem=10", "--array=7")

    def of_array() -> Found:
        devices = node.source.read().frames[0].devices
        return {d.id: dict(d.attributes) for d in devices if d.attributes.get("array_job") == array}

    (facts,) = until(of_array, "the array's task").values()
    cluster.run("scancel", array)
    assert facts["array_task"] == "7"


def test_the_prolog_s_word_is_taken_for_granted(cluster: Slurm) -> None:
    """What our prolog wrote as root is the strongest evidence, names the same GPUs as the job's
    own, and goes with our epilog.
    """
    node = Node(MappingProvider(cluster.directory / "jobs"))
    job = cluster.submit("sleep 600", "--gres=gpu:2", "--mem=10")
    until(
        lambda: any(facts.get("step") for facts in node.held(job).values()), "the job's processes"
    )
    found = node.held(job)
    cluster.run("scancel", job)
    assert [(facts["evidence"], facts["mapped"], facts["step"]) for facts in found.values()] == [
        ("mapping", job, "batch")
    ] * 2
    until(lambda: not node.held(job), "the epilog")


def shifted(cluster: Slurm) -> None:
    """The same GPUs behind other device files: /dev/nvidia10 and so on."""
    configuration = cluster.directory / "gres.conf"
    configuration.write_text(
        configuration.read_text().replace(f"nvidia[0-{GPUS - 1}]", f"nvidia[10-{9 + GPUS}]")
    )
    for number in range(10, 10 + GPUS):
        os.mknod(
            cluster.directory / "dev" / f"nvidia{number}", 0o20600, os.makedev(NVIDIA_MAJOR, number)
        )
    hooks(cluster)


def test_a_number_of_slurm_s_is_none_of_a_device_file() -> None:
    """The prolog is told places in Slurm's own list: why a number is believed only where
    index and device file agree.
    """
    with slurm(nodes=1, more="Prolog={directory}/prolog", before=shifted) as cluster:
        job = cluster.submit("sleep 600", "--gres=gpu:2", "--mem=10")
        mapping = cluster.directory / "jobs" / f"job-{job}"
        assert until(lambda: mapping.exists() and mapping.read_text(), "the prolog") == "0\n1\n"


def test_a_process_that_holds_a_gpu_is_its_job_s(cluster: Slurm, node: Node) -> None:
    """A pid as NVML lists it, of a grandchild of the step: the kernel's word
    counts more than the job's.
    """
    job = cluster.submit("sh -c 'sleep 600; true' & wait", "--gres=gpu:1", "--mem=10")
    until(lambda: node.held(job), "the job's processes")
    rows = cluster.run("scontrol", "listpids", job, cluster.nodes[0]).splitlines()[1:]
    pids = [int(row.split()[0]) for row in rows]
    node.holders.hold("GPU-7", [Holder(pids[-1], NO_INSTANCE)])
    found = node.held(job)
    cluster.run("scancel", job)
    assert found["GPU-7"]["evidence"] == "process"

"""A node of a job on a real Slurm whose slurmd is killed: what the page of the job says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli.main import main
from collector.node.gpu_processes import GpuProcesses
from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.joblog.source import JobLogSource
from collector.sources.jobs.providers import SlurmProvider
from collector.sources.jobs.slurm.allocations import local_user
from collector.sources.jobs.source import JobsSource
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock
from tests.pipeline.store.stored import StoreMaker
from tests.slurm import GPUS, Slurm, slurm
from tests.wait import until

pytestmark = [pytest.mark.integration, pytest.mark.root]

HOST = "gpu01"
# Slurm waits five minutes by default before a node that does not respond is down; a busy machine
# keeps one that lives from answering for seconds.
MORE = "SlurmdTimeout=30\nKillWait=1\n"


class Agent:
    """The sources of jobs and of their logs on the first node, and its store."""

    def __init__(self, logs: Path, store: Path) -> None:
        self.store, metrics = StoreMaker(store), SelfMetrics()
        self.clock = FakeClock(wall_ns=time.time_ns())
        holders = GpuProcesses()
        gpus = [
            Device(HOST, "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(n)})
            for n in range(GPUS)
        ]
        holders.note(gpus, ())
        slurm_jobs = SlurmProvider(Path("/proc"), local_user, self.clock, metrics)
        inventory = Inventory(HOST, State(None))
        self._sources = (
            JobsSource(
                [slurm_jobs], HOST, self.clock, metrics, holders=holders, inventory=inventory
            ),
            JobLogSource([f"{logs}/slurm-*.out"], HOST, self.clock, metrics),
        )

    def read(self) -> list[str]:
        """Kinds of the events of one read, which comes half a minute after the one before."""
        self.clock.advance(31)
        events = [event for source in self._sources for event in source.read().events]
        self.store.add(HOST, self.clock.time_ns(), events=events)
        return [event.kind for event in events]


@pytest.fixture
def cluster() -> Iterator[Slurm]:
    """Two nodes that are down soon after they do not respond."""
    with slurm(more=MORE) as running:
        yield running


def test_a_slurmd_that_is_killed_is_a_node_that_its_job_lost(
    cluster: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line that slurmstepd leaves on the node that is left is what the owner reads."""
    logs = cluster.directory / "logs"
    logs.mkdir()
    agent = Agent(logs, tmp_path)
    agent.read()
    options = ("--nodes=2", "--gres=gpu:1", "--mem=10", "--no-requeue")
    job = cluster.submit("sleep 600", *options, f"--output={logs}/slurm-%j.out")
    until(lambda: "job_started" in agent.read(), "the job's processes")
    cluster.kill("gpu02")
    until(lambda: cluster.job_state(job) == "NODE_FAIL", "Slurm to give the node up")
    until(lambda: "job_ended" in agent.read(), "the job's end")
    agent.store.close()
    assert main(["explain", "job", job, "--storage.path", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert "end   The scheduler lost one of its nodes: Slurm (" in page
    assert "next  Leave that node out until it is checked." in page

"""A running agent tells whose GPU it is: Slurm's job of a simulated node, pods of a real
pod-resources server, and nothing when that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import AgentProcess
from tests.collector.sources.jobs.kubelet import listing, pod, serving
from tests.wait import until

pytestmark = pytest.mark.integration
SIMULATED = ("--simulate.profile", "hgx-h100")
INFO, TEMP = "tocsin_device_job_info", "DCGM_FI_DEV_GPU_TEMP"


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the kubelet's socket will be."""
    return tmp_path_factory.mktemp("kubelet") / "kubelet.sock"


@pytest.fixture(scope="module")
def agent(socket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent as dcgm-exporter's users start theirs."""
    jobs = ("-k", "--pod-resources-kubelet-socket", str(socket), "--source.jobs.kubernetes", "on")
    with AgentProcess(tmp_path_factory.mktemp("agent") / "s", *SIMULATED, *jobs).ready() as running:
        yield running


def test_the_job_of_a_simulated_node_holds_all_its_gpus(agent: AgentProcess) -> None:
    """From NVML's processes and their control groups, eight GPUs of one Slurm job."""
    until(lambda: len(agent.values(INFO)) == 8, "eight GPUs of a job")
    rows = agent.values(INFO)
    assert (
        len({tuple(re.findall(r'(?:scheduler|job|step|user)="([^"]*)"', row)) for row in rows}) == 1
    )


def test_pods_are_on_dcgm_exporter_s_series_and_leave_them_with_the_kubelet(
    agent: AgentProcess, socket: Path
) -> None:
    """A pod's labels are there within a read, the next pod's instead of them, none without kubelet;
    temperatures are there throughout.
    """
    (uuid, *_) = re.findall(r'UUID="([^"]+)"', " ".join(agent.values(TEMP)))

    def labelled(name: str) -> bool:
        return any(f'pod="{name}"' in row and uuid in row for row in agent.values(TEMP))

    answer = [listing(pod("pod-one", [uuid]))]
    with serving(socket, {"List": lambda _request, _context: answer[0]}):
        until(lambda: labelled("pod-one"), "the pod's labels")
        assert sum('pod="' in row for row in agent.values(TEMP)) == 1
        answer[0] = listing(pod("pod-two", [uuid]))
        until(lambda: labelled("pod-two"), "the next pod's labels")
        assert "pod-one" not in agent.get()[1]
    until(lambda: not labelled("pod-two"), "the labels to go with the kubelet")
    assert len(agent.values(TEMP)) == 8
    assert agent.values("tocsin_jobs_teller_up") == {
        'teller="kubelet"': 0.0,
        'teller="processes"': 1.0,
    }
    assert "no job attribution: kubelet" in agent.log

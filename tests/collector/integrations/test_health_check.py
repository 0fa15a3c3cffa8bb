"""The whole way: a simulated GPU is lost, the agent says so, slurmd's own health check
drains that node and no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.control import request
from tests.agents import AgentProcess
from tests.collector.integrations.hooks import MORE, install
from tests.collector.integrations.kubernetes.server import ApiServer
from tests.slurm import Slurm, slurm
from tests.wait import until

CAUSE = "(gpu_lost|xid/gpu)"  # the driver's word or the kernel's XID 79, whichever was read first

pytestmark = [pytest.mark.integration, pytest.mark.root]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the agents' storage paths lie, by the node's name, and the mapping of jobs."""
    return tmp_path_factory.mktemp("nodes")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Slurm]:
    """Two nodes with our scripts as their hooks."""
    with slurm(nodes=2, more=MORE, before=lambda one: install(one, folder)) as one:
        yield one


def test_a_job_is_in_the_mapping_while_it_runs(cluster: Slurm, folder: Path) -> None:
    """Prolog and Epilog of a real job: Slurm's numbers of its GPUs, and
    nothing once it has ended.
    """
    mapping = folder / "mapping"
    job = cluster.submit("sleep 1", "--gres=gpu:2", "--nodelist=gpu02")
    until(
        lambda: (
            {file.name: file.read_text() for file in mapping.glob("job-*")}
            == {f"job-{job}": "0\n1\n"}
        ),
        what="the prolog",
    )
    until(lambda: cluster.job_state(job) == "COMPLETED", what="the job to end")
    until(lambda: not [*mapping.iterdir()], what="the epilog")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Kubernetes beside Slurm: one agent tells both."""
    with ApiServer(tmp_path_factory.mktemp("api")) as one:
        yield one


@pytest.fixture(scope="module")
def lost(cluster: Slurm, folder: Path, server: ApiServer) -> Iterator[tuple[AgentProcess, str]]:
    """The agent of node gpu01, which may drain and report, and the UUID of GPU 3, which it has
    lost; both schedulers have been told.
    """
    assert cluster.drained() == []
    drain = ("--gates.slurm.drain", "--gates.off-file", f"{folder}/gates.off")
    api = (
        "--gates.kubernetes.api",
        server.url,
        "--gates.kubernetes.node",
        "gpu07",
        "--gates.kubernetes.period",
        "1s",
    )
    identity = (
        "--gates.kubernetes.token-file",
        str(server.token_file),
        "--gates.kubernetes.ca-file",
        str(server.ca_file),
    )
    report = ("--gates.kubernetes.report", "on", *api, *identity)
    with AgentProcess(folder / "gpu01", "--simulate", "hgx-h100", *drain, *report) as agent:
        agent.until(lambda: "listening on" in agent.log, what="the agent to start")
        found = until(lambda: _uuid(agent), what="the agent to have read GPU 3")
        request(folder / "gpu01" / "simulated", {"command": "inject", "spec": "gpu_lost@gpu3"})
        until(cluster.drained, what="the health check to drain gpu01")
        until(lambda: server.condition.get("status") == "True", what="the condition")
        yield agent, found


def test_a_lost_gpu_drains_its_node_and_no_other(
    cluster: Slurm, lost: tuple[AgentProcess, str]
) -> None:
    """Nobody types anything: slurmd runs the check every second.

    The node without an agent is unknown, and stays in service.
    """
    reason = cluster.node("gpu01")["Reason"]
    assert re.match(
        rf"tocsin:{CAUSE} GPU 3 \({lost[1]}(, [^)]+)?\): (The driver has lost the GPU|XID 79)",
        reason,
    )
    assert re.search(r"\[simulated\] \[root@[\d:T-]+\]$", reason), "a rehearsal is called one"
    assert (cluster.drained(), cluster.node("gpu02")["State"]) == (["gpu01"], "IDLE")


@pytest.mark.usefixtures("lost")
def test_a_lost_gpu_is_a_condition_of_its_node(server: ApiServer) -> None:
    """With an Event that names the part."""
    assert server.condition["reason"] in ("GpuLost", "XidGpu")
    reported = until(
        lambda: [
            event for event in server.events.values() if event["reason"] in ("GpuLost", "XidGpu")
        ],
        what="the Event",
    )
    assert re.match(r"GPU 3 \(serial \d+\): ", reported[0]["message"])


def test_a_lost_gpu_is_worth_nothing_to_who_places_jobs(lost: tuple[AgentProcess, str]) -> None:
    """The others of its node are worth what they were."""
    agent, uuid = lost
    health = json.loads(agent.get("/api/v1/health")[1])
    worth = {row["id"]: row["score"] for row in health["devices"] if row["kind"] == "gpu"}
    assert (health["verdict"], worth[uuid]) == ("problem", 0)
    assert min(score for other, score in worth.items() if other != uuid) > 0


def _uuid(agent: AgentProcess) -> str:
    found = re.search(r'tocsin_gpu_info\{gpu="3",uuid="([^"]+)"', agent.get()[1])
    return found[1] if found else ""

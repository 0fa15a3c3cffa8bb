"""A repair before a real Slurm: its drain, its jobs, its operators."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.integrations.controller import Controller
from collector.integrations.scheduler import OURS
from tests.collector.repair.world import World
from tests.slurm import Slurm, slurm
from tests.wait import until

pytestmark = [pytest.mark.integration, pytest.mark.root]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Two nodes; this process is an administrator of it."""
    with slurm(nodes=2) as one, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "SLURM_CONF", str(one.configuration))
        yield one


def advance(world: World, name: str) -> list[str]:
    """One run of the repair before the real controller."""
    world.slurm.reasons[name] = f"{OURS}x@y"  # the world's own checks look at its stand-in
    world.now += 60
    return world.machine(world.nodes[name], scheduler=Controller()).advance()


def test_a_node_is_drained_reset_when_its_job_ended_and_resumed(
    cluster: Slurm, tmp_path: Path
) -> None:
    """While the job runs nothing is reset, and afterwards the node takes jobs again."""
    world = World(tmp_path, "gpu01")
    cluster.run("sbatch", "--nodelist=gpu01", "--output=/dev/null", "--wrap=sleep 600")
    running = ("ALLOC", "MIXED")
    until(lambda: cluster.node("gpu01")["State"].startswith(running), what="the job to start")
    advance(world, "gpu01")
    assert advance(world, "gpu01") == ["GPU 3: jobs are still running"]
    cluster.run("scancel", "--user=root")
    until(lambda: cluster.node("gpu01")["State"].startswith("IDLE"), what="the job to end")
    said = [advance(world, "gpu01") for _ in range(5)]
    assert world.nodes["gpu01"].acts == ["reset"]
    assert [words for words in said if words][-1][0].startswith("GPU 3: resumed gpu01")
    assert cluster.node("gpu01")["State"].replace("+NOT_RESPONDING", "") == "IDLE"
    assert not cluster.reservations("tocsin_slot")


def test_a_suspended_job_holds_the_node(cluster: Slurm, tmp_path: Path) -> None:
    """Slurm calls its node idle while the job is suspended."""
    world = World(tmp_path, "gpu02")
    job = cluster.submit("sleep 600", "--nodelist=gpu02")
    until(lambda: cluster.job_state(job) == "RUNNING", what="the job to start")
    advance(world, "gpu02")
    cluster.run("scontrol", "suspend", job)
    until(lambda: cluster.job_state(job) == "SUSPENDED", what="the job to be suspended")
    assert not Controller().node("gpu02").busy
    assert advance(world, "gpu02") == ["GPU 3: jobs are still running"]
    assert world.nodes["gpu02"].acts == []
    cluster.run("scontrol", "resume", job)
    cluster.run("scancel", job)
    until(lambda: not Controller().has_jobs("gpu02"), what="the job to end")
    cluster.run("scontrol", "update", "NodeName=gpu02", "State=RESUME")
    for token in cluster.reservations("tocsin_"):
        cluster.run("scontrol", "delete", f"ReservationName={token}")


def test_what_an_operator_drained_again_is_theirs(cluster: Slurm, tmp_path: Path) -> None:
    """The repair stops, and the node stays drained with the operator's words."""
    world = World(tmp_path, "gpu02")
    advance(world, "gpu02")
    assert cluster.node("gpu02")["Reason"].startswith(OURS)
    cluster.run("scontrol", "update", "NodeName=gpu02", "State=DRAIN", "Reason=ada: my turn")
    assert advance(world, "gpu02")[0].startswith("GPU 3: stopped: an operator changed the node")
    assert cluster.node("gpu02")["Reason"].startswith("ada: my turn")
    assert world.nodes["gpu02"].acts == []

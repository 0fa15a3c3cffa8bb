"""The worst rollout: a table that takes every program's failure for a broken GPU.

Real agents, slurmd's own health checks, a real controller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.control import request
from pipeline.xid.table import HEADER
from tests.agents import AgentProcess
from tests.collector.integrations.hooks import MORE, install
from tests.slurm import Slurm, slurm
from tests.wait import until

pytestmark = [pytest.mark.integration, pytest.mark.root]

CAP = 2
BAD = (
    f"{HEADER}\n"
    "43,RESETCHANNEL,the channel of a user's process was reset,RESTART_BM,hw-fatal,page,reboot,\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the agents' storage paths lie, by the node's name."""
    return tmp_path


@pytest.fixture
def cluster(folder: Path) -> Iterator[Slurm]:
    """Four nodes with our scripts as their hooks."""
    with slurm(nodes=4, more=MORE, before=lambda one: install(one, folder)) as one:
        yield one


def test_a_table_that_would_drain_every_node_stops_at_the_cap(cluster: Slurm, folder: Path) -> None:
    """A bug of one user hits all nodes in a minute: two are drained, and the
    others go on taking jobs.
    """
    (folder / "bad.csv").write_text(BAD)
    allowed = (
        "--gates.slurm.drain",
        "--gates.slurm.most-drained",
        f"{CAP}",
        "--gates.slurm.most-per-hour",
        f"{CAP}",
    )
    judged = ("--detectors.xid-table", f"{folder / 'bad.csv'}", "--detectors.off-trial", "xid")
    with contextlib.ExitStack() as stack:
        agents = [
            stack.enter_context(
                AgentProcess(
                    folder / name,
                    "--simulate",
                    "hgx-h100",
                    "--gates.off-file",
                    f"{folder}/off",
                    *allowed,
                    *judged,
                )
            )
            for name in cluster.nodes
        ]
        for agent in agents:
            agent.ready()
        for name in cluster.nodes:
            request(folder / name / "simulated", {"command": "inject", "spec": "xid@gpu5:code=43"})
        for agent in agents:
            until(
                lambda agent=agent: agent.values("tocsin_incident_active"),  # type: ignore[misc]
                what="each agent to page",
            )
        until(
            lambda: len(cluster.drained()) == CAP,
            what="the health checks to drain two nodes",
        )
        spared = [name for name in cluster.nodes if name not in cluster.drained()]
        for name in spared:  # slurmd asks too, and only one check of a node runs at a time
            until(
                lambda name=name: "not drained (limit reached: " in _check(cluster, folder, name),  # type: ignore[misc]
                what="the limit to be reported",
            )
        assert [cluster.node(name)["State"] for name in spared] == ["IDLE"] * len(spared)
        assert all("XID 43" in cluster.node(name)["Reason"] for name in cluster.drained())


def _check(cluster: Slurm, folder: Path, name: str) -> str:
    where = {"SLURMD_NODENAME": name, "TOCSIN_STORAGE__PATH": f"{folder / name}"}
    return cluster.run(f"{folder}/tocsin", "check", "--format", "slurm", environ=where)

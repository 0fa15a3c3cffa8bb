"""A cluster with something of everything, for tests and pictures of the page."""

from __future__ import annotations

from gateway.job_history.runs import StoredRun
from pipeline.frame import Device
from tests.gateway.api.history import ended
from tests.gateway.cluster import SimulatedCluster


def trouble(cluster: SimulatedCluster) -> None:
    """Jobs on most nodes; a lost GPU, a hot rack, a bad link, nodes out, silent or drifting."""
    nodes = len(cluster.topology.hosts)
    per_job = max(nodes // 12, 3)
    users = ("ada", "grace", "edsger", "barbara")
    names = ("pretrain-70b", "finetune", "eval-suite", "ablation-17")
    for number, first in enumerate(range(0, nodes - 1, per_job)):
        held = range(first, min(first + per_job, nodes - 1))
        cluster.run(str(4711 + number), held, user=users[number % 4], job_name=names[number % 4])
    lost, hot, linked, silent = 3, nodes // 2, nodes // 3, nodes - 2
    gone = cluster.find(
        cluster.gpu(nodes - 4, 1), "gpu_lost", "GPU 1 left the bus.", ago_s=9000, jobs=()
    )
    cluster.clock.advance(60)
    cluster.end(gone, "It is read again since 08:12:30, after a reset.")
    cluster.read({cluster.gpu(lost, 3): {"state": 2}, cluster.port(linked, 5): {"state": 1}})
    cluster.find(
        cluster.gpu(lost, 3), "gpu_lost", "GPU 3 left the bus: XID 79, and no reading since.",
        ago_s=840, jobs=("4711",), reason="Drain the node and power-cycle it; then run dcgmi diag.",
        evidence=("NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus.",),
    )  # fmt: skip
    cluster.find(
        cluster.port(linked, 5), "ib/link_down", "Port mlx5_5 is down; its far end, leaf port 21, "
        "has counted 1,204 symbol errors in ten minutes.",
        ago_s=200, action="CONTACT_SUPPORT", reason="Reseat the cable, then replace it.",
    )  # fmt: skip
    rack = cluster.topology.node(hot, 0).attributes.get("rack", "rack-01")
    cluster.find(
        Device(cluster.topology.hosts[hot], "rack", rack, {"rack": rack}), "thermal/rack",
        "Inlets of 7 of 8 nodes are 6.2 °C above their usual value and still rise.",
        severity="ticket", ago_s=5400, reason="Look at the rack's cooling before its nodes slow.",
    )  # fmt: skip
    cluster.find(
        cluster.node(hot + 1), "straggler", "It is 11 % slower than the other nodes of its job.",
        severity="ticket", ago_s=1500, reason="Run the bandwidth test; exclude it if it repeats.",
    )  # fmt: skip
    cluster.find(cluster.gpu(1, 6), "ecc", "Row remaps pending: 1.", severity="record", ago_s=60)
    cluster.sent[cluster.topology.hosts[silent]] -= 120_000_000_000


def trouble_before() -> list[StoredRun]:
    """Jobs that are over."""
    users = ("ada", "grace", "edsger", "barbara")
    return [
        ended(str(4700 - n), f"user:{users[n % 4]}", 1800 * (n + 1), name="pretrain-70b")
        for n in range(20)
    ]

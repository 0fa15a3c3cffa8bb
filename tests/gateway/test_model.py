"""The read model: each node, GPU and port with its health, whatever the cluster's size."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from gateway.model import layout
from gateway.model.cluster import MAX_SOURCES
from gateway.model.health import BAD, BLIND, NOTE, OK, OUT, WARN
from gateway.model.jobs import MAX_JOBS, JobEvents
from gateway.model.out import MAX_OUT
from pipeline.frame import Device
from pipeline.observation import Event
from tests.gateway.cluster import SimulatedCluster, topology


@pytest.fixture
def cluster() -> SimulatedCluster:
    """16 nodes in two racks, all healthy."""
    return SimulatedCluster()


def levels(cluster: SimulatedCluster) -> dict[str, int]:
    """Nodes that are not healthy."""
    seen = cluster.model.snapshot()
    names = [node.name for node in seen.layout.nodes]
    return {n: int(code) for n, code in zip(names, seen.levels.nodes, strict=True) if code != OK}


def test_racks_and_nodes_are_in_the_order_of_their_numbers() -> None:
    """With their GPUs by index and the leaf switches of their ports."""
    layout = SimulatedCluster(24).model.snapshot().layout
    assert [(rack.name, rack.nodes) for rack in layout.racks] == [
        ("rack-00", slice(0, 8)),
        ("rack-01", slice(8, 16)),
        ("rack-02", slice(16, 24)),
    ]
    first = layout.nodes[0]
    assert (first.name, first.model, len(first.leaves)) == ("node-0000", "NVIDIA H100 80GB HBM3", 8)
    assert [gpu.attributes["index"] for gpu in layout.gpus[first.gpus]] == [*"01234567"]
    assert len(layout.leaf("leaf-0-3")) == 24


def test_a_healthy_cluster_has_no_level_but_ok(cluster: SimulatedCluster) -> None:
    """Of nodes, GPUs and ports."""
    seen = cluster.model.snapshot()
    assert levels(cluster) == {}
    assert (seen.levels.gpus == OK).all()
    assert (seen.levels.ports == OK).all()


@pytest.mark.parametrize(
    ("device", "values", "level"),
    [
        ("gpu", {"state": 1}, BAD),
        ("gpu", {"state": 5}, OUT),
        ("port", {"state": 1}, BAD),
        ("port", {"state": 1, "expected": 0}, NOTE),
    ],
)
def test_a_state_that_is_read_shows_at_once(
    cluster: SimulatedCluster, device: str, values: dict[str, float], level: int
) -> None:
    """On its device and on its node, and nowhere else."""
    cluster.read({(cluster.gpu if device == "gpu" else cluster.port)(3, 2): values})
    assert levels(cluster) == {"node-0003": level}


@pytest.mark.parametrize(("severity", "level"), [("page", BAD), ("ticket", WARN), ("record", NOTE)])
def test_a_finding_shows_on_its_gpu_and_node(
    cluster: SimulatedCluster, severity: str, level: int
) -> None:
    """By its severity; a link of a GPU is shown as the GPU."""
    gpu = cluster.gpu(5, 1)
    cluster.find(Device(gpu.host, "nvlink", f"{gpu.id}/4"), "nvlink", "Errors.", severity=severity)
    seen = cluster.model.snapshot()
    assert levels(cluster) == {"node-0005": level}
    assert np.flatnonzero(seen.levels.gpus == level).tolist() == [41]


def test_a_host_that_sends_nothing_is_unknown(cluster: SimulatedCluster) -> None:
    """After three batches; a fault that was read before stays shown."""
    cluster.read({cluster.gpu(1, 0): {"state": 1}})
    cluster.clock.advance(21)
    cluster.sent = dict.fromkeys(cluster.sent, cluster.clock.time_ns())
    cluster.sent["node-0001"] = cluster.sent["node-0002"] = 0
    assert levels(cluster) == {"node-0001": BAD, "node-0002": BLIND}


def test_devices_that_are_read_rarely_are_not_unknown_between_two_readings(
    cluster: SimulatedCluster,
) -> None:
    """Of those read every two minutes nothing is missing after one, but after three periods."""
    cluster.clock.advance(119)
    cluster.read()
    for wait_s, unknown in ((130, 0), (240, 16)):
        cluster.clock.advance(wait_s)
        cluster.sent = dict.fromkeys(cluster.sent, cluster.clock.time_ns())
        assert list(levels(cluster).values()) == [BLIND] * unknown


def test_a_host_without_devices_is_shown() -> None:
    """One whose agent sends, though no driver answers."""
    cluster = SimulatedCluster()
    cluster.sent["empty"] = cluster.clock.time_ns()
    assert cluster.model.snapshot().layout.nodes[-1].name == "empty"


def test_what_operators_took_out_is_shown_as_that(cluster: SimulatedCluster) -> None:
    """With all of its devices, until it is back."""
    at = cluster.clock.time_ns(), 0
    for kind, expected in (("started", {"node-0004": OUT}), ("ended", {})):
        cluster.take(events=[Event(*at, cluster.node(4), f"maintenance_{kind}")])
        cluster.clock.advance(1)
        assert levels(cluster) == expected


def test_a_host_that_is_late_keeps_its_values(cluster: SimulatedCluster) -> None:
    """Nothing observed in a row is no reading of it; a device keeps its values when others come."""
    cluster.read({cluster.gpu(2, 0): {"temperature_celsius": 77}})
    late = cluster.frame("gpu", cluster.gpus[8:], {})
    cluster.take([late], source="nvml")
    cluster.gpus = cluster.gpus[8:]
    frame = cluster.frame("gpu", cluster.gpus, {"state": 0})
    cluster.take([frame], source="nvml")
    seen = cluster.model.snapshot()
    row = seen.layout.gpu_rows[seen.layout.gpu_at("node-0002", cluster.gpus[8].id)]
    assert seen.gpus.of("temperature_celsius")[row] == 77


def test_jobs_have_their_gpus_and_nodes(cluster: SimulatedCluster) -> None:
    """Steps are of their job; pods of one job differ in their number alone."""
    cluster.run("71", range(4))
    cluster.run("71.0", [4])
    for node in (8, 9):
        pod = f"train-{node}"
        cluster.run("", [node], scheduler="kubernetes", namespace="ml", pod=pod)
    cluster.read()
    jobs = cluster.model.snapshot().jobs
    assert [(job.id, job.nodes, len(job.gpus)) for job in jobs] == [
        ("71", (0, 1, 2, 3, 4), 40),
        ("ml/train", (8, 9), 16),
    ]
    assert jobs[0].user == "ada"


def test_jobs_of_events_count_where_no_allocation_is_read(cluster: SimulatedCluster) -> None:
    """From their start to their end."""
    at, gpus = (cluster.clock.time_ns(), 0), " ".join(cluster.gpu(6, i).id for i in range(8))
    facts = {"job": "9", "gpus": gpus, "scheduler": "slurm", "user": "bob"}
    cluster.take(events=[Event(*at, cluster.node(6), "job_started", facts)])
    (job,) = cluster.model.snapshot().jobs
    assert (job.id, job.nodes, job.user) == ("9", (6,), "bob")
    cluster.take(events=[Event(*at, cluster.node(6), "job_ended", facts)])
    cluster.clock.advance(1)
    assert cluster.model.snapshot().jobs == ()


def test_a_stalled_job_says_so(cluster: SimulatedCluster) -> None:
    """With its verdict, from the findings about it."""
    cluster.run("71", range(4))
    cluster.read()
    rank = Device("node-0002", "rank", "71/17", {"job": "71"})
    cluster.find(rank, "hang/absent_rank", "Rank 17 waits.", ago_s=90)
    (job,) = cluster.model.snapshot().jobs
    assert (job.state, job.verdicts) == ("stalled", ("absent_rank",))
    assert job.stalled_s == pytest.approx(90, abs=1)


def test_a_stalled_job_says_so_beside_findings_of_others(cluster: SimulatedCluster) -> None:
    """However many jobs that hold nothing here any more still have findings."""
    cluster.run("71", range(4))
    cluster.read()
    for name in ("69", "70", "71"):
        rank = Device("node-0002", "rank", f"{name}/17", {"job": name})
        cluster.find(rank, "hang/absent_rank", "Rank 17 waits.", ago_s=90)
    (job,) = cluster.model.snapshot().jobs
    assert (job.id, job.state) == ("71", "stalled")


HELD: dict[str, tuple[list[tuple[str, str, str, str]], dict[str, str]]] = {
    "another job has all": (
        [("started", "71", "0 1", "slurm"), ("started", "72", "0 1", "slurm")],
        {"72": "0 1"},
    ),
    "another job has one": (
        [("started", "71", "0 1", "slurm"), ("started", "72", "1", "slurm")],
        {"71": "0", "72": "1"},
    ),
    "its program is gone with it": (
        [
            ("started", "71", "0", "slurm"),
            ("started", "71.0", "0", ""),
            ("started", "72", "0", "slurm"),
        ],
        {"72": "0"},
    ),
    "a step is over with its job": (
        [("started", "71", "0", "slurm"), ("started", "71.0", "0", ""), ("ended", "71", "", "s")],
        {},
    ),
    "a program is of its job": (
        [("started", "torchrun:x", "0", ""), ("started", "71", "0 1", "slurm")],
        {"torchrun:x": "0", "71": "0 1"},
    ),
    "a step is of its job": (
        [("started", "71.0", "0", ""), ("started", "71", "0 1", "slurm")],
        {"71.0": "0", "71": "0 1"},
    ),
    "programs share a GPU": (
        [("started", "x", "0", ""), ("started", "y", "0", "")],
        {"x": "0", "y": "0"},
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_a_job_without_an_end_holds_no_gpu_that_another_has(case: str) -> None:
    """Its agent was off when it ended."""
    said, held = HELD[case]
    events = JobEvents()
    for kind, job, gpus, scheduler in said:
        facts = {"job": job, "gpus": gpus} | ({"scheduler": scheduler} if scheduler else {})
        events.take([Event(0, 0, Device("n1", "node", "n1"), f"job_{kind}", facts)])
    found = {job: facts["gpus"] for job, facts in events.held.get("n1", {}).items()}
    assert found == held


def test_readers_within_a_second_share_one_snapshot(cluster: SimulatedCluster) -> None:
    """Ten open pages cost as much as one."""
    seen = cluster.model.snapshot()
    assert cluster.model.snapshot() is seen
    cluster.read()
    assert cluster.model.snapshot() is not seen
    assert cluster.model.snapshot().layout is seen.layout


def test_topologies_are_shared_by_tests() -> None:
    """The fixture makes the devices of a size once."""
    assert topology(16) is topology(16)


def test_only_a_host_whose_devices_changed_is_laid_out_again(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rack of one node moves it alone; nothing else of 12,500 nodes is looked at again."""
    cluster.model.snapshot()
    made: list[str] = []
    facts = layout._facts

    def counted(
        gpus: Sequence[Device], ports: Sequence[Device]
    ) -> tuple[str, str, tuple[str, ...]]:
        made.append(gpus[0].host)
        return facts(gpus, ports)

    monkeypatch.setattr(layout, "_facts", counted)
    cluster.gpus = tuple(
        Device(g.host, g.kind, g.id, {**g.attributes, "rack": "rack-99"})
        if g.host == "node-0002"
        else g
        for g in cluster.gpus
    )
    cluster.read()
    seen = cluster.model.snapshot().layout
    assert made == ["node-0002"]
    assert [rack.name for rack in seen.racks] == ["rack-00", "rack-01", "rack-99"]
    assert seen.nodes[-1].name == "node-0002"


def test_hosts_come_and_go(cluster: SimulatedCluster) -> None:
    """Devices of a host that was forgotten leave; values of the others stay theirs."""
    cluster.read({cluster.gpu(2, 0): {"temperature_celsius": 77}})
    cluster.gpus = tuple(gpu for gpu in cluster.gpus if gpu.host != "node-0001")
    cluster.ports = tuple(port for port in cluster.ports if port.host != "node-0001")
    del cluster.sent["node-0001"]
    cluster.take([cluster.frame("gpu", cluster.gpus, {"state": 0})], source="nvml")
    cluster.take([cluster.frame("ib_port", cluster.ports, {"state": 4})], source="infiniband")
    cluster.clock.advance(1)
    seen = cluster.model.snapshot()
    assert len(seen.layout.nodes) == 15
    gpu = seen.layout.gpu_at("node-0002", cluster.gpus[8].id)
    assert gpu is not None
    assert seen.gpus.of("temperature_celsius")[seen.layout.gpu_rows[gpu]] == 77


def test_two_hosts_may_claim_one_gpu(cluster: SimulatedCluster) -> None:
    """A host that names its neighbour's GPU takes nothing from it."""
    stolen = cluster.gpu(0, 0)
    fake = Device("node-0001", "gpu", stolen.id, cluster.gpu(1, 0).attributes)
    cluster.gpus = (fake, *cluster.gpus)
    cluster.read()
    layout_ = cluster.model.snapshot().layout
    assert layout_.gpu_at("node-0000", stolen.id) == 0
    assert layout_.nodes[1].gpus == slice(8, 17)


def test_what_a_host_can_make_it_remember_is_bounded(cluster: SimulatedCluster) -> None:
    """Jobs that never end, devices out of service, sources of any name."""
    at = cluster.clock.time_ns(), 0
    node, gpu = cluster.node(3), cluster.gpu(3, 0).id
    for n in range(500):
        facts = {"job": f"j{n}", "gpus": gpu}
        strange = Device(node.host, "gpu", f"GPU-{n}")
        events = [
            Event(*at, node, "job_started", facts),
            Event(*at, strange, "maintenance_started"),
        ]
        cluster.take(events=events)
    for n in range(100):
        cluster.take([cluster.frame("gpu", cluster.gpus[:8], {"state": 0})], source=f"s{n}")
    seen = cluster.model.snapshot()
    assert len(cluster.model._events.held["node-0003"]) == MAX_JOBS
    assert len(cluster.model._out.by_host["node-0003"]) == MAX_OUT
    assert len(cluster.model._values) == MAX_SOURCES
    assert len(seen.layout.gpus) == 128


def test_readers_and_the_judge_do_not_wait_for_one_another(cluster: SimulatedCluster) -> None:
    """A snapshot is whole, whatever arrives while it is made."""
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(200):
                seen = cluster.model.snapshot()
                assert len(seen.levels.gpus) == len(seen.layout.gpus)
                cluster.clock.advance(1)
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(200):
        gone = cluster.gpus[: 8 * (n % 16)]
        cluster.take([cluster.frame("gpu", gone, {"state": 0})], source=f"s{n % 5}")
        cluster.sent[f"host-{n}"] = cluster.clock.time_ns()
    reader.join()
    assert not errors, errors


def test_a_switch_is_no_node_whoever_reads_its_ports() -> None:
    """Something sends in its name: it is not on the map, and counts as nothing that is silent."""
    node = Device("n1", "ib_port", "0x1", {"device": "mlx5_0", "port": "1", "leaf": "leaf1"})
    end = Device("leaf1", "ib_port", "0x2", {"device": "leaf1", "port": "7", "leaf": "leaf1"})
    made = layout.Layouts().of(["n1", "leaf1"], (), (node, end))
    assert [one.name for one in made.nodes] == ["n1"]
    assert made.ports == (node,)

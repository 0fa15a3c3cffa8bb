"""The detector in the stream of observations: when it reports, which device,
and when it takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from collector.sources.joblog.match import hits
from detectors.kit.snapshot import dump as kept
from detectors.kit.snapshot import load
from detectors.nccl.detector import Nccl
from detectors.nccl.job_store import MAX_JOBS
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, frame_of, schema_of
from pipeline.nccl.member import Member, Timing
from pipeline.nccl.report import Communicator, Report
from pipeline.nccl.wire import events_of, line_event
from pipeline.observation import Event, Observation
from pipeline.rates import Rates
from tests.collector.sources.joblog.wrapped import line_of
from tests.detectors.nccl.jobs import BEGIN_NS, all_reduces, dump, ras, ras_communicator

JOB = "71"
POD = "0a1b2c3d-0000-1111-2222-333344445555"


class Scene:
    """What agents of some nodes see, second by second, and the findings of the detector."""

    def __init__(self, hosts: Sequence[str] = ("n1",)) -> None:
        self.detector, self.findings = Nccl(), list[Finding]()
        self._seq, self.second = 0, 0.0
        self.gpus = {
            host: [Device(host, "gpu", f"GPU-{host}-{i}", {"index": str(i)}) for i in range(4)]
            for host in hosts
        }
        for host in hosts:
            self.see(host, frames=True)

    def see(self, host: str, *events: Event, frames: bool = False) -> None:
        """One observation of one node."""
        now = BEGIN_NS + round(self.second * SECOND_NS)
        taken = (
            (frame_of("gpu", [(gpu, {}) for gpu in self.gpus[host]], now, now),) if frames else ()
        )
        self.findings += self.detector.update(
            Observation("nccl", host, "b", self._seq, now, now, 0, taken, events)
        )
        self._seq += 1

    def report(self, raw: Report, host: str = "n1") -> None:
        """A report that the agent of a node read."""
        self.see(
            host,
            *events_of(
                replace(raw, job=f"{JOB}.0"),
                Device(host, "node", host),
                BEGIN_NS + round(self.second * SECOND_NS),
            ),
        )

    def lines(self, *lines: str, host: str = "n1") -> None:
        """Lines of the job's log."""
        node, now = Device(host, "node", host), BEGIN_NS + round(self.second * SECOND_NS)
        self.see(
            host,
            *(line_event(hit, node, now, 0, JOB) for line in lines for hit in hits(line_of(line))),
        )

    def wait(self, seconds: float, host: str = "n1") -> None:
        """Nothing happens."""
        until = self.second + seconds
        while self.second < until:
            self.second += 1
            self.see(host)

    def alerts(self) -> list[tuple[str, str, str, str]]:
        """Phase, severity, fault and device of each finding that alerts."""
        return [
            (f.phase, f.severity, f.fault, f.device.id)
            for f in self.findings
            if f.severity != "record"
        ]


def with_gpus(raw: Report, scene: Scene) -> Report:
    """The report as the agents of all nodes know its processes: with the
    UUID of each rank's GPU.
    """
    uuids = [gpu.id for gpus in scene.gpus.values() for gpu in gpus]
    communicators = (
        replace(
            c,
            members=tuple(replace(m, uuid=uuids[m.rank] if not m.gone else "") for m in c.members),
        )
        for c in raw.communicators
    )
    return replace(raw, communicators=tuple(communicators))


def late(at: float = 0.0, behind: int = 2, seed: int = 0) -> Report:
    """Four ranks of which one is an AllReduce behind."""
    return ras(
        ras_communicator("c0", all_reduces({r: 9 - (r == behind) for r in range(4)}), seed=seed),
        at=at,
    )


def xid(device: Device, code: int) -> Event:
    """A line of the kernel log."""
    return Event(BEGIN_NS, 0, device, "xid", {"code": code, "origin": "kmsg"})


def test_two_looks_name_the_gpu_of_the_rank() -> None:
    """20 s and 15 s after the first look, within 90 s of the fault: a ticket, for the rank may be
    writing a checkpoint; a page when a watchdog of the job has timed out.
    """
    scene = Scene()
    scene.report(with_gpus(late(0.0), scene))
    scene.wait(20)
    scene.report(with_gpus(late(20.0), scene))
    scene.wait(60)
    assert scene.alerts() == [("onset", "ticket", "hang/host_hang", "GPU-n1-2")]
    assert scene.findings[-1].time_ns - BEGIN_NS <= 90 * SECOND_NS
    scene.lines(
        "[rank0]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600041 milliseconds before timing out."
    )
    scene.wait(40)
    assert scene.alerts()[1:] == [("ongoing", "page", "hang/host_hang", "GPU-n1-2")]


def test_a_second_reply_that_agrees_is_reported_as_it_comes() -> None:
    """It is 15 s younger than the first: a verdict counts from the reply that began it."""
    scene = Scene()
    scene.report(with_gpus(late(0.0), scene))
    scene.wait(16)
    assert scene.findings == []
    scene.report(with_gpus(late(16.0), scene))
    assert scene.alerts() == [("onset", "ticket", "hang/host_hang", "GPU-n1-2")]


def test_a_finding_bears_its_job() -> None:
    """Whoever shows it by job need not read its words; and so does the
    finding that takes it back.
    """
    scene = Scene()
    for second in (0.0, 20.0):
        scene.report(with_gpus(late(second), scene))
        scene.wait(20)
    scene.see("n1", Event(BEGIN_NS, 0, Device("n1", "node", "n1"), "job_ended", {"job": JOB}))
    assert {(f.phase, f.device.attributes["job"]) for f in scene.findings} == {
        ("onset", JOB),
        ("cleared", JOB),
    }


def test_a_straggler_is_a_ticket() -> None:
    """The Inspector of all ranks shows which comes last: the job moves, and there is no page."""
    scene = Scene()
    members = tuple(
        Member(
            rank,
            host="n1",
            pid=100 + rank,
            uuid=scene.gpus["n1"][rank].id,
            completed=(("AllReduce", 40),),
            timings=tuple(
                Timing("AllReduce", seq, 1 << 20, 200.0 if rank == 1 else 500.0 + rank)
                for seq in range(40)
            ),
        )
        for rank in range(4)
    )
    communicator = Communicator("c0".rjust(16, "0"), 4, members)
    scene.report(Report("inspector", communicators=(communicator,)))
    scene.wait(60)
    assert scene.alerts() == [("onset", "ticket", "straggler/slow_straggler", "GPU-n1-1")]


@pytest.mark.parametrize(
    ("host", "origin"),
    [("n2", "job.out"), ("trainer-1", "/var/log/pods/ml_trainer-1_" + POD + "/main/0.log")],
)
def test_a_port_is_that_of_the_node_whatever_its_log_calls_the_node(host: str, origin: str) -> None:
    """NCCL cuts the name of a host at its first dot, and in a pod has the pod's: what the agent of
    the node counted is of the same port.
    """
    scene, node = Scene(("n1.x", "n2.x")), Device("n2.x", "node", "n2.x")
    port = Device("n2.x", "ib_port", "guid", {"device": "mlx5_3"})
    scene.see("n2.x", Event(BEGIN_NS, 0, port, "link_down", {}))
    text = (
        f"{host}:9:9 [0] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from peer "
        "n{}<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1)  hca mlx5_3"
    )
    found = [hit for peer in (1, 3) for hit in hits(line_of(text.format(peer)), origin)]
    scene.see("n2.x", *(line_event(hit, node, BEGIN_NS, 0, JOB) for hit in found))
    scene.wait(60, "n2.x")
    ((_, severity, _, name),) = scene.alerts()
    assert (severity, scene.findings[-1].device.host, name) == ("page", "n2.x", "mlx5_3")
    assert scene.findings[-1].value > 0.8


def test_a_port_of_a_node_that_is_not_of_the_job_is_no_device_of_a_finding() -> None:
    """Whoever writes a log may name any node: the finding is about the job, and says what it has
    read.
    """
    scene = Scene(("n1", "n9"))
    port = Device("n9", "ib_port", "guid", {"device": "mlx5_3"})
    scene.see("n9", Event(BEGIN_NS, 0, port, "link_down", {}))
    text = (
        "n9:9:9 [0] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from peer n{}<4> "
        "with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1)  hca mlx5_3"
    )
    scene.lines(*map(text.format, (1, 3)))
    scene.wait(60)
    assert scene.alerts() == [("onset", "ticket", "hang/in_flight", JOB)]
    assert "mlx5_3 of n9" in scene.findings[-1].summary


def test_jobs_that_are_called_by_addresses_of_one_network_are_several() -> None:
    """Without a scheduler a job is called by the address of its rank 0: the end of one takes
    nothing back that was found of another.
    """
    scene = Scene(("n1", "n2"))
    for second in (0.0, 20.0):
        raw, node = with_gpus(late(second), scene), Device("n1", "node", "n1")
        now = BEGIN_NS + round(scene.second * SECOND_NS)
        scene.see("n1", *events_of(replace(raw, job="10.0.0.1:29500"), node, now))
        scene.wait(20)
    other = {"job": "10.0.0.2:29500"}
    scene.see("n2", Event(BEGIN_NS, 0, Device("n2", "node", "n2"), "job_ended", other))
    scene.wait(60)
    assert scene.alerts() == [("onset", "ticket", "hang/host_hang", "GPU-n1-2")]
    assert scene.findings[-1].summary.startswith("Job 10.0.0.1:29500: ")


def test_one_look_is_no_alarm() -> None:
    """However long nothing else is heard."""
    scene = Scene()
    scene.report(late())
    scene.wait(600)
    assert scene.alerts() == []


def test_processes_that_end_with_their_job_are_not_lost() -> None:
    """Ranks end one after the other; the scheduler says so before anybody is woken."""
    scene = Scene()
    scene.report(ras(ras_communicator("c0", all_reduces(dict.fromkeys(range(3), 9)), gone=[3])))
    scene.wait(10)
    scene.see("n1", Event(BEGIN_NS, 0, Device("n1", "node", "n1"), "job_ended", {"job": JOB}))
    scene.wait(300)
    assert scene.alerts() == []


def test_a_lost_process_is_paged_within_90_seconds() -> None:
    """One look is enough, once it has lasted for a while."""
    scene = Scene()
    scene.report(ras(ras_communicator("c0", all_reduces(dict.fromkeys(range(3), 9)), gone=[3])))
    scene.wait(60)
    ((phase, severity, fault, device),) = scene.alerts()
    assert (phase, severity, fault, device) == ("onset", "page", "hang/process_lost", f"{JOB}/3")


def test_a_job_that_moves_again_is_taken_back() -> None:
    """Counts that rise end the finding, and what dumps and lines reported of the stall."""
    scene = Scene()
    for second in (0.0, 20.0):
        scene.report(with_gpus(late(second), scene))
        scene.wait(20)
    scene.report(
        with_gpus(
            ras(ras_communicator("c0", all_reduces(dict.fromkeys(range(4), 30))), at=40.0), scene
        )
    )
    scene.wait(30)
    assert [phase for phase, *_ in scene.alerts()] == ["onset", "cleared"]


def test_the_end_of_the_job_takes_it_back() -> None:
    """A step of Slurm belongs to its job."""
    scene = Scene()
    for second in (0.0, 20.0):
        scene.report(with_gpus(late(second), scene))
        scene.wait(20)
    scene.see("n1", Event(BEGIN_NS, 0, Device("n1", "node", "n1"), "job_ended", {"job": JOB}))
    assert [phase for phase, *_ in scene.alerts()] == ["onset", "cleared"]


def test_dumps_of_several_nodes_give_one_verdict() -> None:
    """Each agent sees the dumps of its own ranks; joined they name the one that never came."""
    scene = Scene(("n1", "n2"))
    for rank, host in ((0, "n1"), (1, "n1"), (2, "n2"), (3, "n2")):
        scene.report(dump(rank, {"0": (6 - (rank == 3), 5)}, {"0": range(4)}), host)
    scene.wait(40)
    assert scene.alerts() == [("onset", "ticket", "hang/host_hang", f"{JOB}/3")]


def test_one_node_alone_says_what_it_can_know() -> None:
    """Its own ranks wait in something that others may not have come to: none
    is named, there is no page.
    """
    scene = Scene()
    for rank in (0, 1):
        scene.report(dump(rank, {"0": (6, 5)}, {"0": range(4)}))
    scene.wait(40)
    assert scene.alerts() == []
    assert [f.fault for f in scene.findings] == ["hang/unknown"]


def test_lines_of_a_log_are_enough() -> None:
    """The watchdogs' last words name the rank that did not come."""
    status = (
        "[rank{0}]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) "
        "Rank {0}] last enqueued work: {1}, last completed work: 7"
    )
    scene = Scene()
    scene.lines(status.format(0, 8), status.format(1, 8), status.format(2, 7))
    scene.wait(40)
    assert scene.alerts() == [("onset", "page", "hang/host_hang", f"{JOB}/2")]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_stall_of_one_job_keeps_no_other_jobs_stall_on_that_gpu_quiet(*, restarted: bool) -> None:
    """Whatever the job of the hour before did there, the stall of the next one is reported."""
    scene = Scene()
    for job in ("70", "71"):
        for at in (0.0, 15.0):
            raw = replace(with_gpus(late(at), scene), job=f"{job}.0")
            now = BEGIN_NS + round(scene.second * SECOND_NS)
            scene.see("n1", *events_of(raw, Device("n1", "node", "n1"), now))
            scene.wait(15)
        scene.wait(20)
        scene.see("n1", Event(0, 0, Device("n1", "node", "n1"), "job_ended", {"job": f"{job}.0"}))
        if restarted:
            fresh = Nccl()
            assert load(kept([scene.detector]), [fresh]) == ()
            scene.detector = fresh
    assert [(f.phase, f.device.attributes["job"]) for f in scene.findings if f.fault] == [
        ("onset", "70"),
        ("cleared", "70"),
        ("onset", "71"),
        ("cleared", "71"),
    ]


def test_a_log_of_a_user_without_a_job_here_is_a_record() -> None:
    """It may name any rank, node or port."""
    scene = Scene()
    node, now = Device("n1", "node", "n1"), BEGIN_NS
    (hit,) = hits(line_of("srun: error: node07: task 3: Killed"))
    scene.see("n1", line_event(hit, node, now, 0, "user65534"))
    scene.wait(40)
    assert scene.alerts() == []
    assert {f.severity for f in scene.findings} == {"record"}


@pytest.mark.slow
def test_names_of_jobs_push_no_job_out_that_is_looked_after() -> None:
    """A process that ends gives a name, as many as its user likes."""
    scene = Scene()
    scene.report(with_gpus(late(), scene))
    lost = {"pid": 1, "own_pid": 1, "rank": 0}
    for number in range(2 * MAX_JOBS):
        scene.second += 1
        event = Event(
            BEGIN_NS + round(scene.second * SECOND_NS),
            0,
            Device("n1", "node", "n1"),
            "nccl_process_lost",
            {"job": f"x{number}", **lost},
        )
        scene.see("n1", event)
    assert JOB in scene.detector._book.jobs


def test_the_same_line_twice_is_one() -> None:
    """A log that is read again gives no second witness, and no second finding."""
    scene = Scene()
    for _ in range(3):
        scene.lines("srun: error: n1: task 3: Killed")
        scene.wait(20)
    assert len(scene.alerts()) == 1


def test_a_fatal_xid_on_a_member_makes_it_hardware() -> None:
    """The rank that does not move is on a GPU whose driver reported a fatal error:
    that outranks the graph.
    """
    scene = Scene()
    scene.see("n1", xid(scene.gpus["n1"][2], 79))
    for second in (0.0, 20.0):
        scene.report(with_gpus(late(second), scene))
        scene.wait(20)
    assert scene.alerts() == [("onset", "page", "hang/hardware_fault", "GPU-n1-2")]


def test_hardware_is_not_paged_by_the_word_of_a_job() -> None:
    """A log may say anything: by itself it makes a ticket of a GPU, an adapter or a node."""
    for line in (
        "n1:1:2 [3] enqueue.cc:1 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'",
        "NVRM: Xid (PCI:0000:b9:00): 79, pid=1, name=python, GPU has fallen off the bus.",
        "n1:1:2 [3] NCCL WARN NET/IB : mlx5_4:1 async fatal event: local catastrophic error",
        "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-20 DUE TO NODE FAILURE, SEE ***",
    ):
        scene = Scene()
        scene.lines(line)
        scene.wait(60)
        assert {severity for _, severity, *_ in scene.alerts()} <= {"ticket"}, line


def test_an_xid_without_a_stall_is_not_ours() -> None:
    """The detector of XIDs reports it."""
    scene = Scene()
    scene.report(
        with_gpus(ras(ras_communicator("c0", all_reduces(dict.fromkeys(range(4), 0)))), scene)
    )
    scene.see("n1", xid(scene.gpus["n1"][2], 79))
    scene.wait(60)
    assert scene.alerts() == []


def test_what_nobody_renews_is_given_up() -> None:
    """After an hour of silence nothing is known of the job any more."""
    scene = Scene()
    for second in (0.0, 20.0):
        scene.report(with_gpus(late(second), scene))
        scene.wait(20)
    scene.second += 3600
    scene.wait(1)
    assert [phase for phase, *_ in scene.alerts()] == ["onset", "cleared"]


def test_a_damaged_report_does_not_hide_the_others() -> None:
    """Stored by another version, or cut."""
    scene = Scene()
    good = events_of(replace(dump(0, {"0": (5, 5)}), job=JOB), Device("n1", "node", "n1"), BEGIN_NS)
    bad = Event(
        BEGIN_NS, 0, Device("n1", "node", "n1"), "nccl_report", {"report": "x", "document": "{"}
    )
    scene.see("n1", bad, *good)
    for rank in (1, 2):
        scene.report(dump(rank, {"0": (6, 5)}))
    scene.wait(40)
    assert [device for *_, device in scene.alerts()] == [f"{JOB}/0"]


def test_an_agent_that_was_restarted_goes_on_waiting() -> None:
    """What it suspected before the restart it reports after it, at the same second."""
    one, other = Scene(), Scene()
    for scene in (one, other):
        for second in (0.0, 20.0):
            scene.report(with_gpus(late(second), scene))
            scene.wait(4)
    fresh = Nccl()
    assert load(kept([other.detector]), [fresh]) == ()
    other.detector = fresh
    for scene in (one, other):
        scene.wait(60)
    assert words(one.findings) == words(other.findings) != []


def words(findings: Iterable[Finding]) -> list[str]:
    """Findings without the attributes of their devices, which come with the next frame."""
    return [
        repr(replace(f, device=Device(f.device.host, f.device.kind, f.device.id))) for f in findings
    ]


def port_frame(rates: Rates, port: Device, downs: int, at_ns: int) -> Frame:
    """One port, with its increments as the engine makes them."""
    return rates.add(frame_of("ib_port", [(port, {"link_downed": downs})], at_ns, at_ns), "b")


def edge_after_a_link_went_down(where: str) -> list[tuple[str, str]]:
    """Findings about a failed request from mlx5_0 of n1, after the link of such a
    port of a node went down.
    """
    scene, rates = Scene(), Rates(schema_of("ib_port"), 1.0)
    port = Device(where, "ib_port", f"0x{where}", {"device": "mlx5_0"})
    for downs in (3, 4):
        scene.second += 1
        now = BEGIN_NS + round(scene.second * SECOND_NS)
        scene.findings += scene.detector.update(
            Observation("ib", "n1", "b", 0, now, now, 0, (port_frame(rates, port, downs, now),))
        )
    failed = (
        "with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) "
        "vendor_err=129  hca mlx5_0"
    )
    scene.lines(
        "n1:1:2 [3] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from "
        f"peer n2<40554> {failed}"
    )
    scene.wait(60)
    return [(fault, device) for _, _, fault, device in scene.alerts()]


def test_the_end_of_an_edge_whose_link_went_down_is_named() -> None:
    """A failed request has two ends; the counter of one of them says which."""
    assert edge_after_a_link_went_down("n1") == [("hang/in_flight", "0xn1")]


def test_a_link_of_another_jobs_node_is_none_of_this_ones() -> None:
    """A fleet has links that go down at any time."""
    assert edge_after_a_link_went_down("n9") == []


def save(scene: Scene, seconds: float) -> None:
    """A rank that keeps the others waiting for so long, asked as an agent asks."""
    until, launched = scene.second + seconds, 9 + round(scene.second)
    while scene.second < until:
        counts = {r: launched - (r == 2) for r in range(4)}
        scene.report(
            with_gpus(ras(ras_communicator("c0", all_reduces(counts)), at=scene.second), scene)
        )
        scene.wait(15)
    counts = dict.fromkeys(range(4), launched + 1)
    scene.report(
        with_gpus(ras(ras_communicator("c0", all_reduces(counts)), at=scene.second), scene)
    )
    scene.wait(10)
    scene.second += 2 * 3600
    scene.wait(10)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pause_that_ended_by_itself_is_a_ticket_once(*, restarted: bool) -> None:
    """A rank that saves alone looks like one that is stuck, until it has taken half as long
    again as ever before.
    """
    scene = Scene()
    save(scene, 90)
    assert [phase for phase, *_ in scene.alerts()] == ["onset", "cleared"]
    if restarted:
        fresh = Nccl()
        assert load(kept([scene.detector]), [fresh]) == ()
        scene.detector = fresh
    for _ in range(3):
        save(scene, 105)
    assert len(scene.alerts()) == 2
    save(scene, 400)
    assert [severity for _, severity, *_ in scene.alerts()[2:]] == ["ticket", "ticket"]

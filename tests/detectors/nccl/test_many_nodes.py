"""A job over many nodes: what agents of several nodes report is one verdict about one rank, with
its node and GPU, whoever asked RAS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from detectors.kit.snapshot import dump as kept
from detectors.kit.snapshot import load
from detectors.nccl.detector import Nccl
from detectors.nccl.processes import Process, Processes
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device, frame_of
from pipeline.nccl.report import Report
from pipeline.nccl.wire import events_of
from pipeline.observation import Event, Observation, Value
from tests.detectors.nccl.jobs import BEGIN_NS, all_reduces, dump, ras, ras_communicator

JOB, GPUS = "71", 4
HOSTS = ("n1", "n2", "n3", "n4")
RANKS = range(GPUS * len(HOSTS))


def node_of(rank: int) -> str:
    """Node of a rank."""
    return HOSTS[rank // GPUS]


def uuid_of(rank: int) -> str:
    """GPU of a rank."""
    return f"GPU-{rank}"


class Gateway:
    """What a gateway is sent of a job on four nodes of four GPUs, and its findings.

    ``pids`` are those that each rank sees itself; agents of ``blind`` nodes find no process.
    """

    def __init__(
        self, *, pids: Sequence[int] = (), scheduler: bool = True, blind: Sequence[str] = ()
    ) -> None:
        self.detector, self.findings, self.second = Nccl(), list[Finding](), 0.0
        self.pids = pids or [9000 + 7 * rank for rank in RANKS]
        for host in HOSTS:
            mine = [rank for rank in RANKS if node_of(rank) == host]
            if scheduler:
                self.event(host, "job_started", scheduler="slurm", job=JOB, gpus=words(mine))
            self.event(host, "job_started", job=f"{JOB}.0", gpus=words(mine))
            for rank in mine if host not in blind else ():
                self.found(host, rank, self.pids[rank], uuid_of(rank))

    def found(self, host: str, rank: int, pid: int, uuid: str, job: str = f"{JOB}.0") -> None:
        """An agent found a process."""
        self.event(
            host, "nccl_process_found", job=job, pid=pid + 1, own_pid=pid, rank=rank, gpus=uuid
        )

    def event(self, host: str, kind: str, **facts: Value) -> None:
        """An event of a node."""
        self.see(host, Event(self.now_ns, 0, Device(host, "node", host), kind, facts))

    @property
    def now_ns(self) -> int:
        """Unix time."""
        return BEGIN_NS + round(self.second * SECOND_NS)

    def see(self, host: str, *events: Event) -> None:
        """One observation."""
        gpus: list[tuple[Device, dict[str, float | int | None]]] = [
            (Device(node_of(rank), "gpu", uuid_of(rank), {"index": f"{rank % GPUS}"}), {})
            for rank in RANKS
        ]
        frame = frame_of("gpu", gpus, self.now_ns, self.now_ns)
        self.findings += self.detector.update(
            Observation("nccl", host, "b", 0, self.now_ns, self.now_ns, 0, (frame,), events)
        )

    def report(self, raw: Report, host: str = "n1", job: str = f"{JOB}.0") -> None:
        """The agent of a node read a report: it knows its own processes alone."""
        self.see(host, *events_of(replace(raw, job=job), Device(host, "node", host), self.now_ns))

    def wait(self, seconds: float) -> None:
        """Nothing happens."""
        until = self.second + seconds
        while self.second < until:
            self.second += 1
            self.see("n1")

    def alerts(self) -> list[tuple[str, str, str, str]]:
        """Severity, fault, node and device of each finding that begins and alerts."""
        return [
            (f.severity, f.fault, f.device.host, f.device.id)
            for f in self.findings
            if f.severity != "record" and f.phase == "onset"
        ]


def words(ranks: Sequence[int]) -> str:
    """GPUs as an event names them."""
    return " ".join(map(uuid_of, ranks))


def asked(gateway: Gateway, late: int = -1, gone: Sequence[int] = (), by: str = "n1") -> Report:
    """What RAS answers on a node: addresses and pids of all, GPUs of its own ranks."""
    counts = all_reduces({r: 9 - (r == late) for r in RANKS if r not in gone})
    whole = ras_communicator("c0", counts, gone=gone)
    members = tuple(
        replace(
            m,
            host=f"10.0.0.{m.rank // GPUS + 1}",
            pid=gateway.pids[m.rank],
            uuid=uuid_of(m.rank) if node_of(m.rank) == by else "",
        )
        for m in whole.members
    )
    return ras(replace(whole, members=members), at=gateway.second)


def asked_twice(gateway: Gateway, late: int, by: str = "n1") -> None:
    """Two looks in which one rank is behind, and time for a verdict."""
    for _ in range(2):
        gateway.report(asked(gateway, late, by=by), by)
        gateway.wait(15)
    gateway.wait(30)


@pytest.mark.parametrize("late", [2, 6, 15])
def test_a_rank_of_any_node_is_named_by_node_and_gpu(late: int) -> None:
    """One node asks RAS, which knows others by address and pid: their agents know the GPUs."""
    gateway = Gateway()
    asked_twice(gateway, late)
    assert gateway.alerts() == [("ticket", "hang/host_hang", node_of(late), uuid_of(late))]
    assert f"rank {late}, process {gateway.pids[late]}" in gateway.findings[-1].summary


def test_pids_that_are_alike_on_all_nodes_name_the_right_one() -> None:
    """As in containers: rank and pid together are one process."""
    gateway = Gateway(pids=[100 + rank % GPUS for rank in RANKS])
    asked_twice(gateway, 10)
    assert gateway.alerts() == [("ticket", "hang/host_hang", "n3", "GPU-10")]


@pytest.mark.parametrize("late", [6, 15])
@pytest.mark.parametrize("blind", [HOSTS[1:], ("n2", "n4")])
def test_alike_pids_of_a_node_that_finds_none_are_no_other_node(
    late: int, blind: Sequence[str]
) -> None:
    """Where its agent finds no process the rank is named, and no GPU that has the pid elsewhere."""
    gateway = Gateway(pids=[100 + rank % GPUS for rank in RANKS], blind=blind)
    asked_twice(gateway, late)
    assert gateway.alerts() == [
        ("ticket", "hang/host_hang", "10.0.0.2" if late == 6 else "10.0.0.4", f"{JOB}/{late}")
    ]


@pytest.mark.parametrize("contained", [True, False])
def test_ranks_of_groups_without_a_group_of_all_are_no_ranks_of_the_job(*, contained: bool) -> None:
    """Each group counts from 0: a pid that all nodes have names no GPU, one of one process does."""
    gateway = Gateway(pids=[100 + rank % GPUS for rank in RANKS] if contained else ())
    late = 13
    for _ in range(2):
        (whole,) = asked(gateway, late).communicators
        groups = [
            replace(
                whole,
                id=f"{half:016}",
                size=8,
                members=tuple(
                    replace(m, rank=m.rank - 8 * half) for m in whole.members if m.rank // 8 == half
                ),
            )
            for half in (1, 0)
        ]
        gateway.report(ras(*groups, at=gateway.second))
        gateway.wait(15)
    gateway.wait(30)
    ((_, _, _, device),) = gateway.alerts()
    assert device == (f"{JOB}/pid 101" if contained else "GPU-13")


def test_pids_that_fit_no_process_name_no_gpu() -> None:
    """Ranks are counted otherwise than the launcher does, and pids too: nothing is guessed."""
    gateway = Gateway()
    gateway.pids = [1 + rank % GPUS for rank in RANKS]
    asked_twice(gateway, 10)
    ((_, _, _, device),) = gateway.alerts()
    assert device == f"{JOB}/10"


def test_a_process_that_is_gone_is_paged_with_its_gpu() -> None:
    """Within a minute, of one look; and the end that its own node saw is the same rank's."""
    gateway = Gateway()
    gateway.report(asked(gateway, gone=[13]))
    lost: dict[str, Value] = {"pid": 1, "own_pid": gateway.pids[13], "rank": 13, "gpus": "GPU-13"}
    gateway.event("n4", "nccl_process_lost", job=f"{JOB}.0", **lost)
    gateway.wait(60)
    assert gateway.alerts() == [("page", "hang/process_lost", "n4", "GPU-13")]


def test_a_node_that_is_gone_is_paged_by_its_name() -> None:
    """RAS calls it by an address."""
    gateway = Gateway()
    gateway.report(asked(gateway, gone=range(8, 12)))
    gateway.wait(60)
    assert gateway.alerts() == [("page", "hang/process_lost", "n3", "n3")]


def test_dumps_of_all_nodes_name_the_rank_with_its_gpu() -> None:
    """Dumps hold ranks and no processes."""
    gateway = Gateway()
    for rank in RANKS:
        gateway.report(dump(rank, {"0": (6 - (rank == 9), 5)}, {"0": RANKS}), node_of(rank))
    gateway.wait(40)
    assert gateway.alerts() == [("ticket", "hang/host_hang", "n3", "GPU-9")]


def test_a_rank_that_began_again_elsewhere_is_there() -> None:
    """The process that ended with that rank is no longer it; until then it is."""
    known, old, new = Processes(), Process("n2", 50, 5), Process("n4", 777, 5)
    known.found(JOB, old)
    node = Device("n2", "node", "n2")
    known.take(JOB, Event(0, 0, node, "nccl_process_lost", {"own_pid": 50, "rank": 5}))
    assert known.of(JOB, 5) == replace(old, ended=True)
    known.found(JOB, new)
    assert (known.of(JOB, 5), known.of(JOB, 5, 50)) == (new, None)


def test_a_pid_that_is_given_again_is_another_rank() -> None:
    """Rank 5 ended, and its pid is rank 6 now, which ends as well: neither is the other, also after
    a restart of the gateway.
    """
    known, node = Processes(), Device("n2", "node", "n2")
    for rank in (5, 6):
        known.found(JOB, Process("n2", 50, rank))
        known.take(JOB, Event(0, 0, node, "nccl_process_lost", {"own_pid": 50, "rank": rank}))
    again = Processes()
    again.prepare(known.state())()
    for each in (known, again):
        each.found(JOB, Process("n3", 60, 5))
        assert each.of(JOB, 5) == Process("n3", 60, 5)
        assert each.of(JOB, 6) == Process("n2", 50, 6, ended=True)


def test_a_rank_that_two_processes_have_is_neither() -> None:
    """Each node of a launcher may count from zero: a dump of rank 0 names none of them."""
    known = Processes()
    for host in HOSTS:
        known.found(JOB, Process(host, 50, 0))
    assert known.of(JOB, 0) is known.of(JOB, 0, 50) is None


def test_a_report_from_a_node_without_part_in_the_job_accuses_none_of_its_gpus() -> None:
    """Whoever claims the job's id elsewhere, and answers as its RAS, speaks of a job of its own."""
    gateway = Gateway()
    gateway.found("n9", 6, gateway.pids[6], "GPU-mine", job=JOB)
    gateway.report(asked(gateway, gone=[6], by="n9"), "n9", JOB)
    asked_twice(gateway, 6, by="n9")
    gateway.event("n9", "nccl_process_lost", job=JOB, pid=1, own_pid=gateway.pids[6], rank=6)
    gateway.wait(60)
    assert not {alert[3] for alert in gateway.alerts()} & {uuid_of(rank) for rank in RANKS}
    assert {f.device.attributes["job"] for f in gateway.findings} == {f"{JOB} claimed on n9"}
    assert all(re.search(r"Job 71 claimed on n9:", f.summary) for f in gateway.findings)


def test_a_report_names_no_node_that_has_no_part_in_the_job() -> None:
    """A job answers for itself: that a neighbour's node is lost is not its word to give."""
    gateway = Gateway()
    members = tuple(
        replace(m, host="victim", pid=5000 + m.rank) if m.gone else m
        for m in asked(gateway, gone=range(8, 12)).communicators[0].members
    )
    whole = replace(asked(gateway).communicators[0], members=members)
    gateway.report(ras(whole))
    gateway.wait(60)
    assert {alert[2:] for alert in gateway.alerts()} == {("", JOB)}


def test_a_gateway_that_was_restarted_knows_the_processes() -> None:
    """What agents said of them an hour ago is not said again."""
    gateway = Gateway()
    fresh = Nccl()
    assert load(kept([gateway.detector]), [fresh]) == ()
    gateway.detector = fresh
    asked_twice(gateway, 6)
    assert gateway.alerts() == [("ticket", "hang/host_hang", "n2", "GPU-6")]


def test_a_verdict_comes_with_the_second_report() -> None:
    """Of a stall that is suspected 30 s after it began, and asked about 5 s later: within 60 s."""
    gateway = Gateway()
    gateway.wait(35)
    asked_twice(gateway, 6)
    (found,) = [f for f in gateway.findings if f.severity == "ticket" and f.phase == "onset"]
    assert found.time_ns - BEGIN_NS <= 55 * SECOND_NS


def test_halves_that_do_not_reach_each_other_accuse_no_process() -> None:
    """RAS has a network of its own: where it is split, each half calls the other lost. What one
    node says is taken back when a node of the other half was asked.
    """
    gateway = Gateway()
    gateway.report(asked(gateway, gone=range(8, 16)), "n1")
    gateway.wait(60)
    gateway.report(asked(gateway, gone=range(8), by="n4"), "n4")
    gateway.wait(60)
    gateway.report(asked(gateway, gone=range(8, 16)), "n1")
    gateway.wait(60)
    open_ = {f.id: f for f in gateway.findings}.values()
    assert not [f for f in open_ if f.active and f.severity != "record"]


def test_a_process_that_is_gone_for_a_later_asker_too_is_named() -> None:
    """The node that asked before had it still."""
    gateway = Gateway()
    gateway.report(asked(gateway), "n4")
    gateway.wait(5)
    gateway.report(asked(gateway, gone=[13]), "n1")
    gateway.wait(60)
    assert gateway.alerts() == [("page", "hang/process_lost", "n4", "GPU-13")]


def test_a_report_that_comes_late_changes_nothing() -> None:
    """What was read before the last report tells no more than that did."""
    gateway = Gateway()
    before = asked(gateway, late=6)
    gateway.wait(15)
    gateway.report(asked(gateway, late=6))
    gateway.report(before, "n1")
    gateway.wait(5)
    gateway.report(replace(before, origin="another"), "n1")
    gateway.wait(30)
    assert gateway.alerts() == [("ticket", "hang/host_hang", "n2", "GPU-6")]


def test_an_end_that_its_node_saw_long_before_is_not_waited_for_again() -> None:
    """RAS says what was known for half a minute: that nobody else followed is known as well."""
    gateway = Gateway()
    lost: dict[str, Value] = {"pid": 1, "own_pid": gateway.pids[13], "rank": 13, "gpus": "GPU-13"}
    gateway.event("n4", "nccl_process_lost", job=f"{JOB}.0", **lost)
    gateway.wait(40)
    assert gateway.alerts() == []
    gateway.report(asked(gateway, gone=[13]))
    gateway.wait(7)
    assert gateway.alerts() == [("page", "hang/process_lost", "n4", "GPU-13")]

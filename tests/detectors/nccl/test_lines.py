"""What job logs say of a stall, from the lines themselves to the verdict."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collector.sources.joblog.lines import Joiner
from collector.sources.joblog.match import hits
from detectors.nccl.case import Case
from detectors.nccl.judge import judge
from detectors.nccl.verdict import Verdict
from pipeline.nccl.hit import Hit
from tests.collector.sources.joblog.wrapped import line_of

NCCL = "[2026-11-01 10:{minute:02d}:00] {host}:{pid}:9 [{gpu}] "
WATCHDOG = (
    "[rank{rank}]:[E1118 20:32:23.957372583 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID "
    "{group} Rank {rank}]  "
)


def taken(*lines: str) -> Sequence[Hit]:
    """The hits in these lines."""
    return [hit for line in lines for hit in hits(line_of(line), "job.out")]


def of(*lines: str) -> Verdict:
    """The verdict on these lines alone."""
    return judge(Case(hits=taken(*lines)))


def nccl(text: str, host: str = "n1", pid: int = 100, gpu: int = 0, minute: int = 0) -> str:
    """A line of NCCL's own."""
    return NCCL.format(host=host, pid=pid, gpu=gpu, minute=minute) + text


def progress(rank: int, enqueued: int, completed: int, group: str = "0(default_pg)") -> str:
    """What a rank's watchdog says of its group."""
    status = f"PG status: last enqueued work: {enqueued}, last completed work: {completed}"
    return (
        WATCHDOG.format(rank=rank, group=group)
        + f"failure detected by watchdog at work sequence id: 77 {status}"
    )


def timed_out(rank: int, in_group: int, sequence: int) -> str:
    """What a rank says when its watchdog has lost its patience."""
    return (
        f"[rank{rank}]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:629] [Rank {in_group}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, "
        "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds before timing out."
    )


def completion(
    host: str, peer: str, hca: str = "mlx5_0", code: str = "IBV_WC_RETRY_EXC_ERR(12)"
) -> str:
    """A failed request, in the wording of NCCL 2.29."""
    text = (
        f"Got completion from peer {peer}<40554> with status={code} opcode=IBV_WC_RDMA_WRITE(1) "
        f"vendor_err=129  hca {hca}"
    )
    return nccl(f"transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: {text}", host)


def test_the_rank_whose_watchdog_saw_no_later_work_never_came() -> None:
    """Two ranks have enqueued work 2635, the third has completed all it enqueued, up to 2634."""
    verdict = of(progress(0, 2635, 2634), progress(1, 2635, 2634), progress(2, 2634, 2634))
    assert (verdict.cause, [c.rank for c in verdict.culprits], verdict.sequence) == (
        "host_hang",
        [2],
        2635,
    )


def test_a_timeout_of_a_smaller_group_is_no_call_of_the_default_one() -> None:
    """The line has no group, and its rank 1 is rank 5 of the job: rank 1 of the job, which never
    came, remains the one.
    """
    tensor = [
        line
        for rank in range(4, 8)
        for line in (timed_out(rank, rank - 4, 610), progress(rank, 616, 609, "4(tp)"))
    ]
    others = [0, *range(2, 8)]
    data = [line for r in others for line in (timed_out(r, r, 11), progress(r, 11, 10))]
    verdict = of(*data, *tensor, progress(1, 10, 10))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("host_hang", [1])
    assert (verdict.operation, verdict.sequence, verdict.victims) == ("allreduce", 11, 7)


def test_a_rank_that_has_called_nothing_yet_never_came() -> None:
    """The others wait in the first collective. A first send or receive not every rank has."""
    waiting = [line for r in (1, 2, 3) for line in (timed_out(r, r, 1), progress(r, 1, -1))]
    verdict = of(*waiting, progress(0, -1, -1))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("host_hang", [0])
    transfers = [line.replace("ALLREDUCE", "RECV") for line in waiting]
    assert of(*transfers, progress(0, -1, -1)).culprits == ()


def test_victims_alone_name_nobody() -> None:
    """All that wrote waited; the one that did not come may have written nothing."""
    verdict = of(progress(0, 2635, 2634), progress(1, 2635, 2634))
    assert (verdict.cause, verdict.culprits) == ("unknown", ())


def test_desync_reports_name_the_rank_that_did_not_join() -> None:
    """PyTorch's own comparison counts like progress lines."""
    verdict = of(
        "[1] finished collective #41, but didn't join collective #42 (count from 1)",
        "[0,2,3] joined but didn't finish collective #42 (count from 1)",
    )
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("host_hang", [1])


def test_a_stall_began_when_the_first_wait_began() -> None:
    """The watchdog says how long the operation had run."""
    text = (
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
        "OpType=BROADCAST, Timeout(ms)=600000) ran for 600000 ms"
    )
    line = (
        f"2026-11-01T10:10:00Z stderr F {text.replace(' ms', ' milliseconds before timing out.')}"
    )
    assert of(line).began_ns == line_of("2026-11-01T10:00:00Z stderr F x").time_ns


def test_the_first_process_that_ends_by_itself_is_lost() -> None:
    """Aborts and terminations follow from others: the first end that is neither is the cause."""
    verdict = of(
        "failed (exitcode: -6) local_rank: 0 (pid: 11) of binary: python",
        "failed (exitcode: -9) local_rank: 3 (pid: 14) of binary: python",
        "failed (exitcode: 1) local_rank: 4 (pid: 15) of binary: python",
    )
    assert (verdict.cause, [c.pid for c in verdict.culprits]) == ("process_lost", [14])


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (
            (
                "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
                "with errorcode 1.",
            ),
            3,
        ),
        (("Process name: [[4567,1],2]", "Exit code:    137"), 2),
        (
            (
                "=   RANK 0 PID 28 RUNNING AT n7",
                "=   KILLED BY SIGNAL: 9 (Killed)",
                "=   RANK 1 PID 29 RUNNING AT n7",
                "=   KILLED BY SIGNAL: 11 (Segmentation fault)",
                "=   RANK 2 PID 30 RUNNING AT n7",
                "=   KILLED BY SIGNAL: 9 (Killed)",
            ),
            1,
        ),
        (("=   RANK 5 PID 9 RUNNING AT n7", "=   KILLED BY SIGNAL: 9 (Killed)"), 5),
    ],
    ids=["MPI_Abort", "Open MPI", "Intel MPI", "killed by nobody here"],
)
def test_launchers_of_mpi_name_the_rank_that_is_lost(text: tuple[str, ...], rank: int) -> None:
    """Each in words of its own; what Hydra killed itself is not the first."""
    joiner = Joiner()
    lines = [line for line in map(joiner.add, text) if line is not None]
    verdict = judge(Case(hits=[hit for line in lines for hit in hits(line, "job.out")]))
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("process_lost", [rank])


def test_processes_that_a_launcher_of_mpi_ended_are_not_lost() -> None:
    """It aborts what is left."""
    joiner = Joiner()
    text = ("Process name: [[4567,1],2]", "Exit code:    134")
    lines = [line for line in map(joiner.add, text) if line is not None]
    assert judge(Case(hits=[hit for line in lines for hit in hits(line, "job.out")])).culprits == ()


@pytest.mark.parametrize("writer", ["slurmstepd:", "[2026-01-01T00:00:00.622]"])
@pytest.mark.parametrize("why", ["DUE TO TIME LIMIT", "DUE to SIGNAL Terminated"])
def test_what_follows_the_schedulers_end_is_not_blamed(writer: str, why: str) -> None:
    """Tasks that are killed when the time is up ended because of that, in every version of
    Slurm.
    """
    end = f"{writer} error: *** JOB 123 ON node01 CANCELLED AT 2026-01-01T00:00:00 {why} ***"
    verdict = of(end, "srun: error: node07: task 3: Killed")
    assert (verdict.cause, verdict.phase, verdict.culprits) == ("no_evidence", "ended", ())


def test_a_stall_before_the_schedulers_end_still_counts() -> None:
    """A job that hung until its time was up is reported as one that hung."""
    verdict = of(
        progress(0, 8, 7),
        progress(1, 7, 7),
        (
            "slurmstepd: error: *** JOB 123 ON node01 CANCELLED AT 2026-01-01T00:00:00 "
            "DUE TO TIME LIMIT ***"
        ),
    )
    assert (verdict.cause, verdict.phase, [c.rank for c in verdict.culprits]) == (
        "host_hang",
        "ended",
        [1],
    )


def test_a_node_that_is_left_is_not_blamed_for_one_that_the_scheduler_lost() -> None:
    """The line names the node of the slurmstepd that writes it, which is there."""
    verdict = of(
        "slurmstepd-node01: error: *** JOB 1 ON node01 CANCELLED AT 2026-11-24T14:33:26 "
        "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        "srun: error: node01: task 3: Killed",
    )
    assert (verdict.cause, verdict.phase, verdict.culprits) == ("no_evidence", "ended", ())


def test_a_port_that_reaches_nobody_is_voted_out() -> None:
    """Requests from one port to three nodes fail, and theirs to its node:
    the port, not the three.
    """
    lines = [completion("n1", f"n{i}") for i in (2, 3, 4)] + [
        completion(f"n{i}", "n1") for i in (2, 3, 4)
    ]
    verdict = of(*lines)
    assert [(c.host, c.port) for c in verdict.culprits] == [("n1", "mlx5_0")]


def test_a_port_is_voted_out_where_peers_are_called_by_another_networks_addresses() -> None:
    """On RoCE the GIDs in the lines show which node a peer is: both ends accuse one port."""

    def over_roce(near: int, far: int) -> str:
        gids = f" localGid ::ffff:192.0.2.{near} remoteGids::ffff:192.0.2.{far} hca mlx5_3"
        return completion(f"n{near}", f"10.0.0.{far}", "").removesuffix("  hca ") + gids

    verdict = of(over_roce(1, 2), over_roce(3, 2), over_roce(2, 1), over_roce(2, 3))
    assert [(c.host, c.port) for c in verdict.culprits] == [("n2", "mlx5_3")]


def test_a_node_that_nobody_reaches_on_any_rail_is_the_culprit() -> None:
    """Its peers' requests fail on all rails."""
    verdict = of(
        *(completion(f"n{i}", "n1", hca=f"mlx5_{rail}") for i in (2, 3, 4) for rail in (0, 1))
    )
    assert [(c.host, c.port) for c in verdict.culprits][:1] == [("n1", "")]


def test_one_edge_has_two_ends() -> None:
    """One failed request does not say which end is dead: both are candidates, neither is named."""
    verdict = of(completion("n1", "n2"))
    assert verdict.culprits == ()
    assert {(c.host, c.port) for c in verdict.candidates} == {("n1", "mlx5_0"), ("n2", "")}


def test_flushed_requests_are_no_votes() -> None:
    """Status 5 follows from an error before."""
    assert of(completion("n1", "n2", code="IBV_WC_WR_FLUSH_ERR(5)")).cause == "no_evidence"


def test_a_failed_adapter_is_named() -> None:
    """A fatal event is the adapter's own."""
    verdict = of(
        nccl(
            (
                "transport/net_ib/common.cc:123 NCCL WARN NET/IB : mlx5_4:1 async fatal event: "
                "local catastrophic error"
            ),
            "n3",
        )
    )
    assert (verdict.cause, [(c.host, c.port) for c in verdict.culprits]) == (
        "hardware_fault",
        [("n3", "mlx5_4")],
    )


@pytest.mark.parametrize(
    "error", ["uncorrectable ECC error encountered", "uncorrectable NVLink error detected"]
)
def test_a_cuda_failure_of_the_hardware_names_the_gpu_of_its_rank(error: str) -> None:
    """The reporter's own device."""
    verdict = of(nccl(f"enqueue.cc:1 NCCL WARN Cuda failure '{error}'", "n3", 31, 5))
    assert (verdict.cause, [(c.host, c.pid, c.gpu) for c in verdict.culprits]) == (
        "hardware_fault",
        [("n3", 31, 5)],
    )


@pytest.mark.parametrize(
    "error",
    [
        "out of memory",
        "invalid device ordinal",
        "CUDA driver version is insufficient for CUDA runtime version",
        "an illegal memory access was encountered",
        "invalid argument",
    ],
)
def test_a_cuda_failure_of_the_program_accuses_nobody(error: str) -> None:
    """The line is evidence of what happened, and of no broken part."""
    verdict = of(nccl(f"enqueue.cc:1 NCCL WARN Cuda failure '{error}'", "n3", 31, 5))
    assert (verdict.cause, verdict.culprits, verdict.candidates) == ("no_evidence", (), ())
    assert error in verdict.evidence[0].text


def test_the_first_process_that_ended_is_so_by_time_whatever_log_is_read_first() -> None:
    """Each node has a launcher with a log of its own; those of pods have times."""
    failed = "2026-11-20T10:00:{}Z stderr F failed (exitcode: {}) local_rank: 0 (pid: {}) of binary"
    follows, first = failed.format(12, 1, 87), failed.format("02", -9, 90)
    for lines in ((follows, first), (first, follows)):
        assert [c.pid for c in of(*lines).culprits] == [90]


def test_an_exception_of_cuda_names_the_gpu_of_its_rank() -> None:
    """As PyTorch raises it, with the rank before each line."""
    verdict = of("[rank13]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    assert (verdict.cause, [c.rank for c in verdict.culprits]) == ("hardware_fault", [13])


@pytest.mark.parametrize(
    "line",
    [
        "[PG ID 4 PG GUID  Rank 2] ProcessGroupNCCL's watchdog got stuck for 10 seconds without",
        "Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
    ],
)
def test_a_stuck_process_without_its_rank_accuses_nobody(line: str) -> None:
    """PyTorch writes the rank in front only where RANK was set at its start, which mpirun does
    not: the rank that is known otherwise is not the one.
    """
    bare = f"[E930 15:23:00.0 ProcessGroupNCCL.cpp:1487] {line}"
    assert of(bare).culprits == ()
    assert [c.rank for c in of(bare, progress(0, 11, 10), progress(1, 10, 10)).culprits] == [1]


def test_a_rank_of_a_smaller_communicator_is_none_of_that_number_in_the_job() -> None:
    """The last of ranks 4 to 7 of the job, number 3 of theirs, never began: rank 3 did its part."""

    def split(rank: int, seat: str, comm: str, what: str) -> str:
        return nccl(
            f"NCCL INFO ncclCommSplit comm {comm}{rank} rank {seat} cudaDev 0 busId 1000 "
            f"parent 0x7 color 5 key 0 commId {comm} - Init {what}",
            pid=100 + rank,
        )

    steps = ("START", "COMPLETE")
    whole = [split(r, f"{r} nranks 8", "0xa", what) for what in steps for r in range(8)]
    part = [split(rank, f"{rank - 4} nranks 4", "0xb", "START") for rank in (4, 5, 6)]
    verdict = of(*whole, *part, nccl("x.cc:1 NCCL WARN Cuda failure 'x'", minute=9))
    assert (verdict.cause, verdict.culprits, verdict.candidates) == ("init_hang", (), ())
    assert "rank 3 of communicator 0xb never began to" in [e.text for e in verdict.evidence]


def stuck(rank: int) -> str:
    """What a rank says of its own watchdog."""
    return (
        WATCHDOG.format(rank=rank, group="0(default_pg)")
        + "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress"
    )


def test_a_victim_that_is_stuck_in_giving_up_is_no_culprit() -> None:
    """It has timed out before; one that is stuck while the others time out is the one."""
    waiting = [line for r in (1, 2, 3) for line in (timed_out(r, r, 9), progress(r, 9, 8))]
    assert of(*waiting, stuck(1), stuck(2), stuck(3)).culprits == ()
    assert [c.rank for c in of(*waiting, stuck(1), stuck(0)).culprits] == [0]


def test_ranks_that_are_all_stuck_accuse_nobody() -> None:
    """As at the end of a job whose groups are taken down in different orders."""
    verdict = of(*map(stuck, range(8)))
    assert (verdict.culprits, verdict.candidates) == ((), ())
    assert "rank 3: its watchdog was stuck" in " ".join(e.text for e in verdict.evidence)


def test_an_exception_without_its_rank_accuses_nobody() -> None:
    """The fault is the hardware's, of one that the line does not name."""
    verdict = of("RuntimeError: CUDA error: uncorrectable ECC error encountered")
    assert verdict.culprits == ()
    assert "uncorrectable ECC" in verdict.evidence[0].text


def test_a_launch_that_failed_is_the_gpus_with_an_xid_only() -> None:
    """By itself it may be the program's."""
    line = nccl("enqueue.cc:1 NCCL WARN Cuda failure 'unspecified launch failure'", "n3", 31, 5)
    alone = of(line)
    assert (alone.cause, alone.culprits) == ("unknown", ())
    assert [c.pid for c in alone.candidates] == [31]
    xid = "NVRM: Xid (PCI:0000:b9:00): 79, pid=31, name=python, GPU has fallen off the bus."
    assert of(line, xid).cause == "hardware_fault"


@pytest.mark.parametrize("code", [63, 92])
def test_an_xid_that_only_records_accuses_nobody(code: int) -> None:
    """A row that was remapped, and errors that were corrected."""
    assert of(f"NVRM: Xid (PCI:0000:b9:00): {code}, pid=77, name=python").cause == "no_evidence"


def test_a_connection_that_a_peer_closed_accuses_nobody() -> None:
    """It is how the end of every job looks to its slowest rank."""
    closed = "misc/socket.cc:1 NCCL WARN Connection closed by remote peer 10.0.0.7<45000>"
    verdict = of(*(nccl(closed, host, 40 + n, 0) for n, host in enumerate(("n1", "n2", "n3"))))
    assert (verdict.cause, verdict.culprits, verdict.candidates) == ("no_evidence", (), ())
    assert any("3 node(s) saw 10.0.0.7 close" in e.text for e in verdict.evidence)


def test_application_xids_accuse_no_hardware() -> None:
    """XID 43 follows from the program; XID 79 is the GPU."""
    assert of("NVRM: Xid (PCI:0000:b9:00): 43, pid=77, name=python").cause == "no_evidence"
    assert (
        of("NVRM: Xid (PCI:0000:b9:00): 79, pid=77, name=python, GPU has fallen off the bus.").cause
        == "hardware_fault"
    )


def test_a_communicator_that_does_not_get_made_is_told() -> None:
    """Three of four ranks began and two minutes later none is done: the fourth never began."""
    begin = (
        "NCCL INFO ncclCommInitRankConfig comm 0x5{r} rank {r} nranks 4 cudaDev {r} nvmlDev {r} "
        "busId 49000 commId 0x5ae7 - Init START"
    )
    lines = [nccl(begin.format(r=r), "n1", 100 + r, r) for r in range(3)]
    verdict = of(*lines, nccl("NCCL WARN Cuda failure 'x'", "n9", minute=5))
    assert any("3 of 4 ranks began" in e.text for e in verdict.evidence)


def test_a_communicator_that_was_made_is_silent() -> None:
    """START is followed by COMPLETE."""
    line = (
        "NCCL INFO ncclCommInitRank comm 0x5a rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 49000 "
        "commId 0x5ae7 - Init {}"
    )
    verdict = of(
        nccl(line.format("START")),
        nccl(line.format("COMPLETE"), minute=1),
        nccl(line.format("START"), pid=7, minute=4),
    )
    assert verdict.cause == "no_evidence"

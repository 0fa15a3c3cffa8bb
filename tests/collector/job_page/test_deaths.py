"""Ways in which a training dies, each with the page that its owner reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.cli.main import main
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.observation import Event
from tests.collector.job_page.stored_job import (
    GPUS,
    HOSTS,
    JOB,
    MINUTE_NS,
    StoredJob,
    uuid,
)
from tests.pipeline.store.stored import store_events

pytestmark = pytest.mark.slow

CANCEL = "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2027-01-15T08:00:00{why} ***"
WATCHDOG = (
    "[rank{rank}]:[E1115 08:00:00.000000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
)


def died(job: StoredJob) -> None:
    """It ends everywhere."""
    job.run()


def gpu_lost(job: StoredJob) -> None:
    """A GPU falls off the bus; the launcher then ends the other ranks."""
    device = Device("n2", "gpu", uuid("n2", 1))
    job.event("n2", 89.5, "xid", gpu=1, code=79, text="NVRM: Xid (PCI:0000:2a:00): 79")
    job.incident(89.5, device, "GPU 1 fell off the bus (XID 79).")
    job.line("n1", 89.9, "srun: error: n2: task 5: Aborted")
    job.line("n1", 89.9, "srun: error: n1: tasks 0-3: Killed")
    job.run()


def out_of_memory(job: StoredJob) -> None:
    """The kernel kills a rank for memory; others wait and are ended."""
    job.event("n1", 89.8, "oom_kill", pid=4002, process="python3", text="Out of memory: Killed")
    job.line("n1", 89.9, "srun: error: n1: task 2: Out Of Memory")
    job.line("n1", 89.9, "srun: error: n2: tasks 4-7: Killed")
    job.run()


def segfault(job: StoredJob) -> None:
    """A rank crashes by itself."""
    job.line("n1", 89.8, "srun: error: n1: task 3: Segmentation fault (core dumped)")
    job.line("n1", 89.9, "srun: error: n2: tasks 4-7: Terminated")
    job.line("n1", 89.95, CANCEL.format(why="").replace("JOB 71", "STEP 71.0"))
    job.run()


def time_limit(job: StoredJob) -> None:
    """Slurm ends it."""
    job.line("n1", 90, CANCEL.format(why=" DUE TO TIME LIMIT"))
    job.line("n1", 90, "srun: error: n1: tasks 0-3: Terminated")
    job.run()


def node_failed(job: StoredJob) -> None:
    """As Slurm 22.05 writes it when a slurmd is gone: the second line names a node that is left."""
    job.line("n1", 90, "srun: error: Node failure on n2")
    why = " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"
    job.line("n1", 90, CANCEL.format(why=why).replace("slurmstepd", "slurmstepd-n1"))
    job.line("n1", 90, "srun: error: n1: tasks 0-3: Terminated")
    job.run()


def operator(job: StoredJob) -> None:
    """Somebody cancels it; an XID that it survived an hour before has nothing to do with that."""
    job.event("n1", 40, "xid", gpu=0, code=94)
    job.line("n1", 90, CANCEL.format(why=""))
    job.run()


def node_crash(job: StoredJob) -> None:
    """A node reboots; the other one sees its processes end."""
    job.open_on = {"n2"}
    job.run()
    job.after("n1")
    job.after("n2", boot_id="another boot")


def stall(job: StoredJob) -> None:
    """A rank waits outside NCCL, the watchdog of the others ends the job."""
    job.stalled = 78
    device = Device("", "job", JOB)
    summary = "A rank never joined the collective that the others wait in: rank 6."
    job.incident(80, device, summary, detector="nccl")
    for rank in (0, 1):
        job.line("n1", 89, WATCHDOG.format(rank=rank))
    job.line("n1", 89.9, "srun: error: n1: tasks 0-1: Aborted")
    job.run()


def illegal_access(job: StoredJob) -> None:
    """A bug of the program: XID 31 and the error of CUDA."""
    job.event("n1", 89.7, "xid", gpu=2, code=31, pid=4002)
    job.line(
        "n1",
        89.8,
        "n1:4002:4100 [2] NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
    )
    job.line("n1", 89.9, "srun: error: n1: task 2: Aborted")
    job.run()


def gpu_memory(job: StoredJob) -> None:
    """A batch that does not fit."""
    job.line("n2", 89.8, "n2:4001:4100 [1] NCCL WARN Cuda failure 2 'out of memory'")
    job.line("n2", 89.9, "srun: error: n2: task 5: Exited with exit code 1")
    job.run()


def exit_code(job: StoredJob) -> None:
    """A rank ends with an error of its own."""
    job.line(
        "n2", 89.8, "failed (exitcode: 1) local_rank: 2 (pid: 4002) of binary: /usr/bin/python3"
    )
    job.run()


def mpi_exit(job: StoredJob) -> None:
    """Open MPI names the first process that failed, from the node where mpirun runs."""
    job.line("n1", 89.9, "  Process name: [[58461,1],6]   Exit code:    2")
    job.run()


def mpi_abort(job: StoredJob) -> None:
    """A rank calls MPI_Abort."""
    line = "MPI_ABORT was invoked on rank 6 in communicator MPI_COMM_WORLD with errorcode -1."
    job.line("n1", 89.9, line)
    job.run()


def mpi_signal(job: StoredJob) -> None:
    """It ended by a signal, on the other node."""
    noticed = "noticed that process rank 5 with PID 0 on node n2 exited on signal 11"
    job.line("n1", 89.9, f"mpirun {noticed} (Segmentation fault).")
    job.run()


def hydra(job: StoredJob) -> None:
    """MPICH's launcher names the process and, in place of an exit code, its signal."""
    job.line("n1", 89.9, "=   PID 4002 RUNNING AT n2 =   EXIT CODE: 139")
    job.run()


def intel_mpi(job: StoredJob) -> None:
    """Intel's lists all ranks: those that it ended itself, and the one that crashed."""
    for rank, end in enumerate(("9 (Killed)", "9 (Killed)", "11 (Segmentation fault)")):
        line = f"=   RANK {rank} PID {4000 + rank} RUNNING AT n1 =   KILLED BY SIGNAL: {end}"
        job.line("n1", 89.9, line)
    job.run()


def ecc_in_pytorch(job: StoredJob) -> None:
    """PyTorch has it from CUDA; the driver's line is not in the store."""
    job.line("n2", 89.8, "[rank5]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    job.line("n2", 89.9, "srun: error: n2: task 5: Exited with exit code 1")
    job.run()


def batch_too_large(job: StoredJob) -> None:
    """PyTorch's allocator, behind the prefix of a rank."""
    what = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.1 GiB"
    job.line("n2", 89.8, f"[rank5]: torch.OutOfMemoryError: {what}")
    job.run()


def captured(job: StoredJob) -> None:
    """What only a program can do wrong is no fault of the GPU."""
    what = "CUDA error: operation not permitted when stream is capturing"
    job.line("n2", 89.8, f"[rank5]: torch.AcceleratorError: {what}")
    job.run()


def completed(job: StoredJob) -> None:
    """As the scheduler reports."""
    job.run(outcome="completed")


class Death(NamedTuple):
    """``cause`` and ``words`` that the page must have; ``lost`` whether its last steps are lost."""

    die: Callable[[StoredJob], None]
    cause: str
    words: tuple[str, ...]
    lost: bool = True


DEATHS = (
    Death(
        gpu_lost,
        "gpu_fault",
        ("A GPU failed", "rank 5, GPU 1 on n2", "XID 79", "Drain the node"),
    ),
    Death(
        out_of_memory, "host_memory", ("memory", "rank 2, process python3 (4002) on n1", "--mem")
    ),
    Death(segfault, "signal", ("rank 3 on n1", "SIGSEGV")),
    Death(time_limit, "time_limit", ("time limit", "Slurm", "--signal=B:USR1@300")),
    Death(node_failed, "node_failed", ("lost one of its nodes: node n2", "until it is checked")),
    Death(
        operator,
        "cancelled",
        ("was cancelled", "if that was intended", "the job went on after it: XID 94"),
        lost=False,
    ),
    Death(node_crash, "node_lost", ("The node went away: node n2",)),
    Death(stall, "stall", ("It stalled", "rank 6", "py-spy dump")),
    Death(illegal_access, "program_fault", ("invalid access on the GPU", "GPU 2 on n1", "XID 31")),
    Death(gpu_memory, "gpu_memory", ("ran out of GPU memory", "on n2", "batch size")),
    Death(exit_code, "exit", ("local rank 2 on n2", "exit code 1")),
    Death(mpi_exit, "exit", ("rank 6", "exit code 2")),
    Death(mpi_abort, "exit", ("rank 6", "exit code 255")),
    Death(mpi_signal, "signal", ("rank 5 on n2", "SIGSEGV")),
    Death(hydra, "signal", ("process 4002 on n2", "SIGSEGV")),
    Death(intel_mpi, "signal", ("rank 2 on n1", "SIGSEGV")),
    Death(ecc_in_pytorch, "gpu_fault", ("A GPU failed", "rank 5 on n2", "uncorrectable ECC")),
    Death(batch_too_large, "gpu_memory", ("ran out of GPU memory", "rank 5 on n2")),
    Death(captured, "program_fault", ("rank 5 on n2", "stream is capturing")),
    Death(completed, "completed", ("It completed",), lost=False),
    Death(died, "unknown", ("no error of it", "sources.joblog.paths"), lost=False),
)


POD = "ml/llm.1a2b3c4d"


def pod_end(job: StoredJob, host: str, **facts: Any) -> None:
    """The API server has how a container ended."""
    job.event(
        host,
        job.minutes - 0.1,
        "pod_ended",
        job=POD,
        pod=f"ml/llm-{host}",
        container="main",
        **facts,
    )


@pytest.mark.parametrize(
    ("facts", "cause", "words"),
    [
        ({"exit_code": 137, "reason": "OOMKilled"}, "host_memory", "pod ml/llm-n2"),
        ({"exit_code": 139, "reason": "Error"}, "signal", "SIGSEGV"),
        ({"exit_code": 1, "reason": "Error"}, "exit", "exit code 1"),
        ({"exit_code": 255, "reason": "Unknown"}, "exit", "exit code 255"),
        (
            {"exit_code": 143, "disruption": "PreemptionByScheduler", "deleted": True},
            "preempted",
            "PreemptionByScheduler",
        ),
        ({"exit_code": 137, "disruption": "DeletionByTaintManager"}, "node_failed", "pod ml"),
        ({"exit_code": 137, "pod_reason": "DeadlineExceeded"}, "time_limit", "Deadline"),
        ({"exit_code": 143, "deleted": True}, "cancelled", "was cancelled"),
        ({"exit_code": 0, "reason": "Completed"}, "completed", "It completed"),
    ],
)
def test_a_training_of_kubernetes_has_its_page_too(
    tmp_path: Path,
    facts: dict[str, Any],
    cause: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the end of its pods, which is gone with them; found by its short name."""
    job = StoredJob(tmp_path, 20, job=POD)
    pod_end(job, "n2", **facts)
    job.run()
    root = job.close()
    argv = ["explain", "job", "llm", "--format", "json", "--storage.path", str(root)]
    assert main(argv) == 0
    printed = json.loads(capsys.readouterr().out)["ended_by"]
    assert printed["cause"] == cause
    assert words in printed["sentence"]


def read(capsys: pytest.CaptureFixture[str], root: Path, form: str, *more: str) -> str:
    """The page in a form."""
    argv = ["explain", "job", JOB, "--format", form, "--storage.path", str(root), *more]
    assert main(argv) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.die.__name__)
def test_a_page_says_who_or_what_ended_the_job(
    tmp_path: Path, death: Death, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cause, who, what to do; and hours that add up to the wall time of all GPUs."""
    job = StoredJob(tmp_path)
    death.die(job)
    root = job.close()
    printed: dict[str, Any] = json.loads(read(capsys, root, "json"))
    assert printed["ended_by"]["cause"] == death.cause
    text = " ".join(read(capsys, root, "text").split())
    for words in death.words:
        assert words in text
    hours = printed["gpu_hours"]
    wall = printed["seconds"] / 3600 * len(HOSTS) * GPUS
    assert sum(hours.values()) == pytest.approx(wall, rel=1e-3)
    assert ("steps lost since the last pause" in hours) == death.lost
    assert " UTC, 1 h " in text
    page = read(capsys, root, "html")
    assert page.startswith("<!doctype html>")
    assert "From (UTC)" in page
    assert printed["ended_by"]["sentence"].split(":")[0].split("'")[0] in page


def test_an_incident_that_alerted_nobody_is_info(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the page and as text; the JSON has the stored value."""
    job = StoredJob(tmp_path, 20)
    device = Device("n2", "gpu", uuid("n2", 1))
    job.incident(10, device, "Row remaps pending: 1.", severity="record")
    job.run()
    root = job.close()
    assert "info   Row remaps pending: 1." in read(capsys, root, "text")
    assert "<td>info</td>" in read(capsys, root, "html")
    (row,) = json.loads(read(capsys, root, "json"))["incidents"]
    assert row["severity"] == "record"


def test_the_phases_of_a_life_are_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Start-up, steps between saves, and a throughput that is near its usual; of the time after the
    last save the work is lost.
    """
    job = StoredJob(tmp_path)
    segfault(job)
    printed = json.loads(read(capsys, job.close(), "json"))
    kinds = [one["kind"] for one in printed["phases"]]
    assert kinds == ["load", *["steps", "pause"] * 4, "steps"]
    assert printed["gpu_hours"] == pytest.approx(
        {
            "start-up": 3 / 60 * 8,
            "steps": 74 / 60 * 8,
            "pauses (checkpoint, evaluation)": 4 / 60 * 8,
            "steps lost since the last pause": 9 / 60 * 8,
        },
        rel=0.02,
    )
    assert {round(one["activity"], 2) for one in printed["throughput"]} == {0.0, 0.05, 1.0}


def test_a_stall_that_a_time_limit_ended_is_said_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scheduler ended it, and it had stalled before."""
    job = StoredJob(tmp_path)
    job.stalled = 60
    time_limit(job)
    printed = json.loads(read(capsys, job.close(), "json"))
    assert printed["ended_by"]["cause"] == "time_limit"
    assert "had made no step for 30 min" in printed["ended_by"]["sentence"]


@pytest.mark.parametrize(
    ("stalled", "code", "words"),
    [
        (86, 1, "exit code 1). It had made no step for 4 min."),
        (86, -11, "SIGSEGV). It had made no step for 4 min."),
        (86, -6, "It stalled"),  # as watchdogs end what stalls
        (60, 1, "It stalled"),
    ],
)
def test_a_process_that_fails_in_a_save_is_no_stall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stalled: int, code: int, words: str
) -> None:
    """As on a full disk; after longer than any save lasts it is one."""
    job = StoredJob(tmp_path)
    job.stalled = stalled
    line = f"failed (exitcode: {code}) local_rank: 2 (pid: 4002) of binary: /usr/bin/python3"
    job.line("n2", 89.9, line)
    job.run()
    printed = json.loads(read(capsys, job.close(), "json"))
    assert words in printed["ended_by"]["sentence"]


@pytest.mark.parametrize(
    ("line", "cause", "words"),
    [
        ("srun: error: n2: task 5: Exited with exit code 255", "exit", "exit code 255"),
        ("srun: error: n2: task 5: Exited with exit code 134", "signal", "SIGABRT"),
        ("failed (exitcode: 255) local_rank: 2 (pid: 4002) of binary: x", "exit", "exit code 255"),
    ],
)
def test_a_code_that_no_signal_has_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, cause: str, words: str
) -> None:
    """255 is what a program gives that ends with -1."""
    job = StoredJob(tmp_path)
    job.line("n2", 89.9, line)
    job.run()
    printed = json.loads(read(capsys, job.close(), "json"))["ended_by"]
    assert printed["cause"] == cause
    assert words in printed["sentence"]


def test_a_watchdog_is_that_of_the_rank_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number in the line may be one of a smaller group: in front is that of the job."""
    job = StoredJob(tmp_path)
    job.line("n2", 89.9, WATCHDOG.format(rank=5).replace("[Rank 5]", "[Rank 1]"))
    job.run()
    printed = json.loads(read(capsys, job.close(), "json"))
    assert [(one["sort"], one["who"]) for one in printed["clues"]] == [("watchdog", "rank 5")]


@pytest.mark.parametrize("aborted", [False, True])
def test_a_stall_was_cancelled_only_where_nothing_ended_by_itself_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, aborted: bool
) -> None:
    """The controller deletes the other pods once one has failed."""
    job = StoredJob(tmp_path, job=POD)
    job.stalled = 70
    if aborted:
        pod_end(job, "n2", exit_code=134, reason="Error")
    pod_end(job, "n1", exit_code=143, deleted=True)
    job.run()
    assert main(["explain", "job", POD, "--storage.path", str(job.close())]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "It stalled" in text
    assert ("Then it was cancelled." in text) != aborted


@pytest.mark.parametrize(
    ("fault", "cause"),
    [("hang/rank_stuck", "stall"), ("straggler", "stall"), ("xid/79", "gpu_fault")],
)
def test_a_gpu_failed_only_where_its_hardware_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, cause: str
) -> None:
    """A page about the GPU of a rank that stalls, or that is slow, is none about a broken GPU."""
    job = StoredJob(tmp_path)
    job.stalled = 70
    job.incident(75, Device("n2", "gpu", uuid("n2", 1)), "GPU 1 does not go on.", fault=fault)
    job.run()
    assert json.loads(read(capsys, job.close(), "json"))["ended_by"]["cause"] == cause


def test_a_program_that_restarts_is_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its processes go and come while Slurm's job goes on; it ends when the last of them is gone,
    not half a minute later when the scheduler's end is noticed.
    """
    job = StoredJob(tmp_path, 40)
    for host in HOSTS:
        job.event(host, 0, "job_started", job=JOB, gpus=uuid(host, 0), scheduler="slurm")
    job.run(ended_by={"scheduler": "slurm"}, late_s=30.0)
    for host in HOSTS:
        for minute in (20, 40):
            job.event(host, minute, "job_ended", job=f"{JOB}.0")
            back: dict[str, Any] = {
                "job": f"{JOB}.0",
                "gpus": uuid(host, 0),
                "pid": 5000,
                "rank": 0,
            }
            if minute < 40:
                job.event(host, minute + 0.5, "nccl_process_found", **back)
    printed = json.loads(read(capsys, job.close(), "json"))
    assert (printed["seconds"], printed["other_runs"]) == (40 * 60.0, [])


def test_a_job_that_runs_has_no_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its page says so."""
    job = StoredJob(tmp_path, 30)
    job.open_on = set(HOSTS)
    job.run()
    printed = json.loads(read(capsys, job.close(), "json"))
    assert (printed["ended_by"]["cause"], printed["end"]) == ("running", None)


def test_runs_of_a_job_that_was_queued_again_are_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one is shown, the others are named and can be asked for."""
    first = StoredJob(tmp_path, 30)
    time_limit_at(first, 30)
    first.close()
    again = StoredJob(tmp_path, 40, begin_ns=first.end_ns + 20 * MINUTE_NS)
    again.run(outcome="completed")
    root = again.close()
    printed = json.loads(read(capsys, root, "json"))
    assert (printed["ended_by"]["cause"], len(printed["other_runs"])) == ("completed", 1)
    printed = json.loads(read(capsys, root, "json", "--run", "1"))
    assert printed["ended_by"]["cause"] == "time_limit"
    assert "1 more" in read(capsys, root, "text")
    assert main(["explain", "job", "71", "--run", "3", "--storage.path", str(root)]) == 2
    assert "--run: 3 of 2 that the store has of job 71" in capsys.readouterr().err


def time_limit_at(job: StoredJob, minute: int) -> None:
    """Slurm ends it after some minutes."""
    job.line("n1", minute, CANCEL.format(why=" DUE TO TIME LIMIT"))
    job.run()


def test_a_job_is_found_by_the_name_its_owner_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one job has it; else their ids are listed."""
    job = StoredJob(tmp_path, 10)
    job.run()
    root = job.close()
    assert main(["explain", "job", "llm", "--storage.path", str(root)]) == 0
    assert capsys.readouterr().out.startswith("Job 71 (llm)\n")
    other = StoredJob(tmp_path, 10, job="72")
    other.run()
    other.close()
    assert main(["explain", "job", "llm", "--storage.path", str(root)]) == 1
    assert "may be 71, 72" in capsys.readouterr().err
    assert main(["explain", "job", "999", "--storage.path", str(root)]) == 1
    assert "no job '999' in the store; there are 71, 72" in capsys.readouterr().err


def test_a_job_of_which_the_end_alone_is_stored_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one whose beginning was lost with the disk of its node: in a line, with exit code 1."""
    node = Device("n1", "node", "n1")
    store_events(tmp_path, [Event(SECOND_NS, SECOND_NS, node, "job_ended", {"job": "71"})])
    assert main(["explain", "job", "71", "--storage.path", str(tmp_path)]) == 1
    assert "job '71': the store has its end alone" in capsys.readouterr().err


def test_a_task_of_an_array_is_found_as_slurm_calls_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3_1 has the number 8: the facts of its GPUs say so."""
    job = StoredJob(tmp_path, 5, job="8")
    facts = {"job": "8", "array_job": "3", "array_task": "1", "scheduler": "slurm"}
    device = Device("n1", "device_job", "GPU-n1-0/slurm/8", facts)
    frame = frame_of("device_job", [(device, {"processes": 1.0})], job.begin_ns, job.begin_ns)
    job.maker.add("n1", job.begin_ns, frames=[frame])
    job.run()
    root = job.close()
    assert main(["explain", "job", "3_1", "--storage.path", str(root)]) == 0
    assert capsys.readouterr().out.startswith("Job 8 (llm)\n")


def test_hostile_words_of_a_job_stay_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of its log is markup nowhere, and clears no terminal."""
    job = StoredJob(tmp_path, 10)
    job.line("n1", 9.9, "srun: error: n1: task 3: Killed <script>alert(1)</script>\x1b[2J\x9b2J")
    job.run()
    root = job.close()
    assert "<script>" not in read(capsys, root, "html")
    assert "\x9b" not in read(capsys, root, "text")

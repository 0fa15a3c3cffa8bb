"""What the store has about the end of a run: events on its hosts shortly before and after it, each
with who it speaks of.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from detectors.nccl.cuda_errors import fault_of
from pipeline.clock import SECOND_NS
from pipeline.job_names import base
from pipeline.nccl.hit import Hit
from pipeline.nccl.wire import WireError, hit_of
from pipeline.observation import Event, Value
from pipeline.store.query.job_runs import JobRun
from pipeline.xid.table import xid_entry

KINDS = (
    "xid",
    "oom_kill",
    "segfault",
    "kernel_panic",
    "kernel_oops",
    "nccl_line",
    "pod_ended",
)
BEFORE_NS, AFTER_NS = 3600 * SECOND_NS, 600 * SECOND_NS

Sort = Literal[
    "gpu_fault",
    "program_fault",  # an XID or CUDA error that programs cause
    "gpu_memory",  # CUDA: out of memory
    "host_memory",  # the kernel killed a process
    "crash",  # the node's kernel
    "signal",
    "exit",
    "time_limit",
    "preempted",
    "node_failed",
    "cancelled",
    "watchdog",
    "finished",
]
_SIGNALS = {"Segmentation fault": 11, "Killed": 9, "Aborted": 6, "Bus error": 7, "Terminated": 15}
_CODE = re.compile(r"[Ee]xit(?:ed with exit)? code (\d{1,3})")
# Signals by which Hydra ends the other ranks when one has ended.
_ENDED_BY_HYDRA = (signal.SIGKILL, signal.SIGTERM)
# MPICH's writes the wait status of a process that a signal ended as its exit code
# (pmiserv_cb.c): the number of the signal, and 128 where there is a core dump.
_FATAL = {4, 6, 7, 8, 9, 11, 15}  # ILL, ABRT, BUS, FPE, KILL, SEGV, TERM


class Clue(NamedTuple):
    """``rank`` is -1 where unknown; ``who`` names the GPU, process or rank; ``text`` is the
    line.
    """

    sort: Sort
    time_ns: int
    host: str
    who: str
    text: str
    rank: int = -1
    number: int = 0  # XID, signal or exit code


def clues(events: Iterable[Event], run: JobRun) -> list[Clue]:
    """In the order of time; what speaks of another job or GPU is left out."""
    hosts = {span.host for span in run.spans}
    found = [
        clue
        for event in events
        if event.device.host in hosts
        for clue in _clues(event, run)
        if run.begin_ns <= clue.time_ns and -BEFORE_NS <= clue.time_ns - run.end_ns <= AFTER_NS
    ]
    return sorted(found, key=lambda clue: clue.time_ns)


def _clues(event: Event, run: JobRun) -> Iterator[Clue]:
    facts, at = event.attributes, (event.time_ns, event.device.host)
    text = str(facts.get("text", ""))
    pid = facts.get("pid")
    rank = run.pids.get((event.device.host, pid), -1) if isinstance(pid, int) else -1
    if event.kind == "xid" and event.device.id.partition("/")[0] in run.gpus:
        code = int(facts.get("code", 0))
        entry = xid_entry(code)
        sort: Sort = "program_fault" if entry.category == "app" else "gpu_fault"
        if entry.category not in ("info", "unused", "test"):
            who = f"GPU {event.device.id}"
            rank = rank if rank >= 0 else run.ranks.get(event.device.id.partition("/")[0], -1)
            yield Clue(sort, *at, who, f"XID {code}: {entry.description}", rank, code)
    elif event.kind == "oom_kill" and _is_ours(event, run):
        name = f"process {facts.get('process', '')} ({pid})"
        yield Clue("host_memory", *at, name, text or "killed for memory", rank, signal.SIGKILL)
    elif event.kind == "segfault" and _is_ours(event, run):
        name = f"process {facts.get('process', '')} ({pid})"
        yield Clue("signal", *at, name, text, rank, signal.SIGSEGV)
    elif event.kind == "kernel_panic":
        yield Clue("crash", *at, f"node {event.device.host}", text or "kernel panic")
    elif event.kind == "pod_ended" and facts.get("job") == run.job:
        yield of_pod(facts, *at)
    elif event.kind == "nccl_line" and base(str(facts.get("job", run.job))) == run.job:
        try:
            yield from _of_line(hit_of(event), *at, rank)
        except WireError:
            return


# What the API server says of a pod that was ended for a reason outside it (kubernetes.io, "Pod
# disruption conditions"; reasons of pods in pkg/kubelet).
_DISRUPTED: dict[str, Sort] = {
    "PreemptionByScheduler": "preempted",
    "Preempting": "preempted",
    "DeletionByTaintManager": "node_failed",
    "DeletionByPodGC": "node_failed",
    "TerminationByKubelet": "node_failed",
    "Evicted": "node_failed",
    "NodeLost": "node_failed",
    "NodeShutdown": "node_failed",
    "EvictionByEvictionAPI": "cancelled",
    "DeadlineExceeded": "time_limit",
}


def of_pod(facts: Mapping[str, Value], time_ns: int, host: str) -> Clue:
    """The end of a container."""
    who = f"pod {facts.get('pod', '')}"
    reasons = [str(facts.get(key, "")) for key in ("reason", "disruption", "pod_reason")]
    code = int(facts.get("exit_code", -1))
    number = int(facts.get("signal", 0))
    # -1: nobody gave one
    ended: tuple[Sort, int] = (
        ("signal", number) if number else ("exit", code) if code < 0 else _ended(code)
    )
    why = ", ".join(dict.fromkeys(filter(None, reasons)))
    text = f"container {facts.get('container', '')}: {why}, exit code {code}"
    stated = next((_DISRUPTED[one] for one in reasons if one in _DISRUPTED), None)
    if "OOMKilled" in reasons:
        return Clue("host_memory", time_ns, host, who, text, -1, signal.SIGKILL)
    if stated:
        return Clue(stated, time_ns, host, who, text)
    if code == 0:
        return Clue("finished", time_ns, host, who, text)
    if facts.get("deleted"):
        return Clue("cancelled", time_ns, host, who, text)
    return Clue(ended[0], time_ns, host, who, text, -1, ended[1])


def _ended(code: int) -> tuple[Sort, int]:
    """The signal or code that an exit code means: launchers and shells write a signal as its
    negative, or with 128 added. 255 is a code: that of exit(-1), and what ssh and runtimes give.
    """
    if code < 0:
        return "signal", -code
    return ("signal", code - 128) if 128 < code < 128 + signal.NSIG else ("exit", code)


def _is_ours(event: Event, run: JobRun) -> bool:
    """A process of the job: by its pid or the job of its control group."""
    pid, job = event.attributes.get("pid"), event.attributes.get("job")
    if job is not None:
        return base(str(job)) == run.job
    return isinstance(pid, int) and (event.device.host, pid) in run.pids


def _of_line(hit: Hit, time_ns: int, host: str, rank: int) -> Iterator[Clue]:
    """A line of the job's own log."""
    rank = hit.world_rank if hit.world_rank >= 0 else rank
    if hit.name == "slurm_cancel":
        stated = _cancelled(hit.fields.get("why", ""))
        # who writes that a node failed is on one that did not
        yield Clue(stated, time_ns, "" if stated == "node_failed" else host, "Slurm", hit.text)
    elif hit.name == "srun_node":
        node = hit.fields["node"]
        yield Clue("node_failed", time_ns, node, f"node {node}", hit.text)
    elif hit.name == "srun":
        yield from _of_srun(hit, time_ns, host)
    elif hit.name == "elastic":
        code, local = hit.number("code"), hit.number("lr")
        who = f"local rank {local} on {host}"
        sort, number = _ended(code)
        yield Clue(sort, time_ns, host, who, hit.text, rank, number)
    elif hit.name == "mpi":
        named, node, number = hit.number("rank"), hit.fields["node"], hit.number("sig")
        yield Clue("signal", time_ns, node, f"rank {named} on {node}", hit.text, named, number)
    elif hit.name in ("mpi_exit", "mpi_abort"):  # where the rank ran they do not say
        named, code = hit.number("rank"), hit.number("code")
        # what a program gives to MPI_Abort is its exit code, of which a byte is left
        sort, number = _ended(code) if hit.name == "mpi_exit" else ("exit", code & 0xFF)
        yield Clue(sort, time_ns, "", f"rank {named}", hit.text, named, number)
    elif hit.name == "hydra":
        yield from _of_hydra(hit, time_ns, host)
    elif hit.name in ("cuda", "cuda_error"):
        process = f"process {hit.pid} on {hit.host}" if hit.pid >= 0 else f"a process on {host}"
        who = f"rank {rank}" if rank >= 0 else process
        yield Clue(_of_cuda(hit.fields.get("err", "")), time_ns, host, who, hit.text, rank)
    elif hit.name == "wd_timeout":
        # the line's own number may be that of a smaller group
        rank = rank if rank >= 0 else hit.number("r")
        yield Clue("watchdog", time_ns, host, f"rank {rank}", hit.text, rank)


def _of_cuda(error: str) -> Sort:
    """Whose fault an error of CUDA is, by its text."""
    if "out of memory" in error:
        return "gpu_memory"
    return "gpu_fault" if fault_of(error) == "hardware" else "program_fault"


def _of_hydra(hit: Hit, time_ns: int, host: str) -> Iterator[Clue]:
    """Intel's names each rank, also those that it ended itself, which are left out; MPICH's the
    first process.
    """
    node, named = hit.fields.get("node", host), hit.number("rank")
    number, code = hit.number("sig"), hit.number("code")
    if named >= 0 and number in _ENDED_BY_HYDRA:
        return
    if number < 0 and code & 0x7F in _FATAL:
        number = code & 0x7F
    who = f"rank {named} on {node}" if named >= 0 else f"process {hit.number('pid')} on {node}"
    sort: Sort = "signal" if number > 0 else "exit"
    yield Clue(sort, time_ns, node, who, hit.text, named, number if number > 0 else code)


def _of_srun(hit: Hit, time_ns: int, host: str) -> Iterator[Clue]:
    why = hit.fields.get("why", "")
    tasks = hit.fields.get("t", "")
    node = hit.fields.get("node", host)
    rank = int(tasks) if tasks.isdecimal() and len(tasks) < 8 else -1
    who = f"rank {tasks} on {node}"
    number = next((n for words, n in _SIGNALS.items() if words in why), 0)
    if number:
        yield Clue("signal", time_ns, node, who, hit.text, rank, number)
    elif match := _CODE.search(why):
        sort, number = _ended(int(match[1]))
        yield Clue(sort, time_ns, node, who, hit.text, rank, number)


def _cancelled(why: str) -> Sort:
    reasons: dict[str, Sort] = {"TIME": "time_limit", "PREEMPT": "preempted", "NODE": "node_failed"}
    return next((sort for word, sort in reasons.items() if word in why), "cancelled")

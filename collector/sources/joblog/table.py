"""The lines that matter in a job's log: NCCL's (transport/net_ib, misc/socket, init.cc), PyTorch's
(ProcessGroupNCCL.cpp), the launchers'.
"""

from __future__ import annotations

import re

from collector.sources.joblog.pattern import Pattern

_IB = "NET/IB"

PATTERNS: tuple[Pattern, ...] = (
    # An RDMA request failed. Wordings: error N (to 2.19), status=N (2.20), with the adapter (2.22),
    # status=NAME(N) (from 2.28.7).
    Pattern(
        "ib_completion",
        "Got completion ",
        (
            r"Got completion (?:from peer <peer:s><<pport:d>> )?with (?:error <st_a:d>, opcode "
            r"<op_a:i>|status=(?:<name:w>\()?<st_b:d>\)? opcode=(?:\w{1,64}\()?<op_b:i>\)?)"
        ),
        "link",
        "peer",
        (
            r"vendor[ _]err[ =]<verr:d>(?: \(<dir:w>\)| req_type=<rt:w>)?",
            r"localGid <lgid:g>",
            r"remoteGids? ?<rgid:g>",
            r" hca <hca:S>",
        ),
    ),
    Pattern(
        "ib_async",
        "async ",
        (
            r"NET/IB ?: (?:<hca:S>:<port:d> )?Got (?:non-fatal )?async (?:error )?event ?: "
            r"(?P<ev>[^(]{1,128})(?:\(<code:d>\))?$"
        ),
        "link",
        "reporter",
    ),
    Pattern(
        "ib_async_fatal",
        "async fatal event",
        (
            r"NET/IB ?: <hca:S>:<port:d> async fatal event(?: on "
            r"(?P<obj>CQ|QP|SRQ)\b[^:]{0,128})?: (?P<ev>[^:]{1,128})$"
        ),
        "adapter",
        "reporter",
    ),
    Pattern(
        "ib_port",
        _IB,
        (
            r"NET/IB ?: <hca:S>:<port:d> (?:GID table changed|speed change detected: "
            r"<old:d> -> <new:S> Mbps)"
        ),
        "link",
        "reporter",
    ),
    Pattern(
        "ib_fatal",
        _IB,
        (
            r"NET/IB: (?:The error is fatal \((?P<why>[^)]{0,128})\)|Fatal error\. Detected <n:d> "
            r"failed devices|Device <dev:d> marked as failed\. Initiating recovery\? <rec:w>)"
        ),
        "adapter",
        "reporter",
    ),
    Pattern(
        "verbs_call",
        "Call to ibv_",
        r"Call to (?P<op>ibv_\w{1,64}) failed(?: with (?:error )?<err:a>)?",
        "fabric",
        "nobody",
    ),
    Pattern(
        "sock_closed",
        "Connection closed by remote peer",
        r"Connection closed by remote peer <peer:s>(?:<<pport:d>>)?$",
        "process",
        "peer",
    ),
    # NCCL before 2.26 writes Connect, and no "exceeded ...".
    Pattern(
        "sock_connect",
        "onnect to ",
        (
            r"[Cc]onnect to <peer:s>(?:<<pport:d>>)? (?:returned (?P<err1>[^,]{1,128})(?:, "
            r"(?P<how>exceeded error retry count|retrying)|$)|failed : <err2:a>)"
        ),
        "ethernet",
        "peer",
    ),
    Pattern(
        "sock_io",
        "Call to ",
        r"Call to (?P<op>recv from|send to) <peer:s>(?:<<pport:d>>)? failed : <err:a>$",
        "ethernet",
        "peer",
    ),
    Pattern(
        "cuda",
        "Cuda failure ",
        r"Cuda failure (?:<code:d> )?'(?P<err>[^']{0,256})'",
        "gpu",
        "reporter",
    ),
    # CUDA errors that PyTorch raises (c10/cuda/CUDAException.cpp, CUDACachingAllocator.cpp), and
    # those of the driver by their name (cuda.h), as JAX and CuPy show them.
    Pattern(
        "cuda_error",
        "CUDA",
        r"\bCUDA(?: (?:driver )?error: |_ERROR_[A-Z_]{1,64}: | (?=out of memory))<err:a>",
        "gpu",
        "reporter",
    ),
    Pattern(
        "comm_life",
        "comm 0x",
        (
            r"(?:(?P<fn>nccl\w{1,64}) )?comm <comm:h> rank <rank:d> n[rR]anks <nranks:d> cudaDev "
            r"<cuda:i> (?:nvmlDev <nvml:i> )?busId (?P<bus>[0-9a-f]{1,16}) "
            r"(?:parent <parent:S> (?:\w{1,32} -?\d{1,20} ?){0,4})?(?:commId <commid:h> )?"
            r"- (?P<what>(?:Init|Abort|Destroy) (?:START|COMPLETE))"
        ),
        "mapping",
        "nobody",
    ),
    Pattern(
        "nvls", "Failed to bind NVLink SHARP", r"Failed to bind NVLink SHARP", "fabric", "nobody"
    ),
    Pattern(
        "mixed_nccl",
        "NCCL version mismatch",
        r"NCCL version mismatch with remote peer",
        "software",
        "nobody",
    ),
    # A rank waited for another one until its patience ended.
    Pattern(
        "wd_timeout",
        "Watchdog caught collective operation timeout",
        (
            r"\[Rank <r:d>\] Watchdog caught collective operation timeout: "
            r"WorkNCCL\((?:SeqNum=<seq:d>, )?OpType=<op:w>, (?:NumelIn=<nin:d>, NumelOut=<nout:d>, "
            r")?Timeout\(ms\)=<to:d>\) ran for <ran:d> milliseconds"
        ),
        "victim",
        "nobody",
    ),
    Pattern(
        "wd_progress",
        "ast enqueued",
        (
            r"last enqueued (?:NCCL )?work: <enq:i>,(?: last started (?:NCCL )?work: "
            r"<started:i>,)? last completed (?:NCCL )?work: <done:i>"
        ),
        "progress",
        "nobody",
        flags=re.IGNORECASE,
    ),
    Pattern(
        "wd_at",
        " work",
        r"(?:at work sequence id: |detected by watchdog at work: |Timeout at NCCL work: )<seq:d>",
        "victim",
        "nobody",
    ),
    Pattern(
        "dump_from",
        "Received a dump signal",
        (
            r"Received a dump signal due to a collective timeout from\s{1,8}(?:(?P<self>this local "
            r"rank)|rank <src:i>)"
        ),
        "victim",
        "nobody",
    ),
    Pattern(
        "dump_begins",
        "dump",
        (
            r"First PG on this rank to signal dumping|Observed flight recorder dump "
            r"signal from another rank"
        ),
        "victim",
        "nobody",
    ),
    Pattern(
        "wd_stuck",
        "watchdog got stuck",
        r"ProcessGroupNCCL's watchdog got stuck for <s:d> ?seconds",
        "host",
        "reporter",
    ),
    Pattern(
        "gil",
        "Could not acquire GIL",
        r"Could not acquire GIL within <ms:d> ms on exit",
        "host",
        "reporter",
    ),
    Pattern(
        "async_exc",
        "async exception",
        r"raised the following async exception: <what:a>$",
        "victim",
        "nobody",
    ),
    Pattern(
        "last_error", "Last error:", r"Last error:\s{0,8}(?P<what>.{0,256})", "victim", "nobody"
    ),
    Pattern(
        "remote_error",
        "r",
        (
            r"ncclRemoteError|watchdog thread terminated with exception|communicator "
            r"encountered a fatal error"
        ),
        "victim",
        "nobody",
    ),
    Pattern(
        "desync",
        "collective #",
        (
            r"\[(?P<ranks>[\d, ]{1,2048})\] (?:finished collective #<fin:d>, but didn't join "
            r"collective #<nj:d>|joined but didn't finish collective #<jf:d>)"
        ),
        "progress",
        "named",
    ),
    Pattern(
        "desync_never",
        "lagging ranks",
        r"ranks \[(?P<ranks>[\d, ]{1,2048})\] are the lagging ranks that caused this timeout",
        "host",
        "named",
    ),
    Pattern(
        "elastic",
        "exitcode",
        r"failed \(exitcode: <code:i>\) local_rank: <lr:d> \(pid: <pid:d>\)",
        "process",
        "named",
    ),
    # Builds for several slurmds on a host, as Debian's, have the node in the name (MULTIPLE_SLURMD
    # in slurmstepd's mgr.c); Slurm of 2025 writes the time in place of the name, and the signal
    # where there is no reason. The node is the writer's: of "NODE FAILURE, SEE SLURMCTLD LOG FOR
    # DETAILS" it is one that is left.
    Pattern(
        "slurm_cancel",
        " CANCELLED AT ",
        (
            r"(?:slurmstepd(?:-[\w.-]{1,253})?:|\[[\w:.+ -]{1,64}\]) error: \*\*\* (?:JOB|STEP) "
            r"(?P<job>[\w.+]{1,64}) ON <node:S> CANCELLED AT <at:S>"
            r"(?: DUE TO (?P<why>[A-Z][\w ,]{0,63})| DUE to SIGNAL [\w ]{1,64})? \*\*\*"
        ),
        "scheduler",
        "nobody",
    ),
    Pattern(
        "srun_node",
        "srun: error: Node failure on ",
        r"srun: error: Node failure on (?P<node>[\w.,\[\]-]{1,256})$",
        "scheduler",
        "nobody",
    ),
    Pattern(
        "srun",
        "srun: error:",
        r"srun: error: <node:s>: tasks? (?P<t>[\d,\[\]-]{1,1024}): (?P<why>.{1,256})$",
        "process",
        "named",
    ),
    # Open MPI, by the name that it was called by (help-prterun.txt, help-orterun.txt).
    Pattern(
        "mpi",
        " noticed that process rank ",
        (
            r"(?:mpirun|mpiexec|orterun|prterun) noticed that process rank <rank:d> with PID "
            r"<pid:d> on node <node:S> exited on signal <sig:d>"
        ),
        "process",
        "named",
    ),
    # Two lines, joined; three of Open MPI 5.
    Pattern(
        "mpi_abort",
        "MPI_ABORT was invoked",
        r"MPI_ABORT was invoked on rank <rank:d> in .{1,160}? (?:with e|E)rrorcode:? <code:i>",
        "process",
        "named",
    ),
    # Two lines, joined; the process as Open MPI 4 names it, and as PRRTE does.
    Pattern(
        "mpi_exit",
        "Process name: [",
        (
            r"Process name: \[(?:\[\d{1,10},\d{1,10}\]|[^\]\s@]{1,270}@\d{1,10}),<rank:d>\]"
            r".{0,64}?Exit code: {1,8}<code:i>"
        ),
        "process",
        "named",
    ),
    # Hydra of MPICH and Intel MPI, two lines, joined (pmiserv_cb.c): the first process that ended,
    # with its exit code or signal; Intel's since 2019 each of them.
    Pattern(
        "hydra",
        " RUNNING AT ",
        (
            r"=\s{1,8}(?:RANK <rank:d> )?PID <pid:d> RUNNING AT <node:S> =\s{1,8}(?:EXIT CODE: "
            r"<code:i>|KILLED BY SIGNAL: <sig:d>)"
        ),
        "process",
        "named",
    ),
    Pattern(
        "xid",
        "NVRM: Xid",
        r"NVRM: Xid \(PCI:<bdf:g>\): <xid:d>(?:, pid='?(?P<pid>\d{1,19}|<unknown>)'?)?",
        "gpu",
        "named",
    ),
    Pattern(
        "segv",
        "segfault at",
        r"(?<!\S)<comm:S>\[<pid:d>\]: segfault at .{1,200} in (?P<lib>libnccl\.so[^\s\[]{0,64})\[",
        "software",
        "named",
    ),
)

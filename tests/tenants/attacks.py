"""What hostile tenants do, with real processes, sockets and files: each function is one attack,
and what it returns is called once a second while it lasts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulator.nccl.job import Comm, Job, Peer, Seat
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.recordings import DUMPS
from tests.tenants.fuse import DeadFileSystem
from tests.tenants.node import MALLORY, Node, Tenant, job_of, reply

Step = Callable[[], None]
PORT = 28_300
HUGE = b"9" * 400
XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=42, name=python3, GPU has fallen off the bus."


class Field:
    """Where attacks take place: the node, the job that is attacked, and its kernel log."""

    def __init__(self, node: Node, victim: Mapping[str, str], pids: list[int], kmsg: Path) -> None:
        self.node, self.victim, self.pids, self.kmsg = node, victim, pids, kmsg
        self._job, self._port = 600, PORT
        self.closing: list[Callable[[], None]] = []

    @property
    def ras_port(self) -> int:
        """The port of the attacked job's RAS."""
        return int(self.victim["NCCL_RAS_ADDR"].rpartition(":")[2])

    def job(self) -> str:
        """A job id that nobody has."""
        self._job += 1
        return str(self._job)

    def port(self) -> int:
        """A port that nobody has."""
        self._port += 1
        return self._port

    def close(self) -> None:
        """Undo what outlives processes."""
        for undo in reversed(self.closing):
            undo()


def _lie(field: Field) -> bytes:
    """A report that names the attacked job's processes, and a wrong one as late."""
    return reply(job_of(*field.pids, behind=5, number=9))


def same_address(field: Field) -> Step:
    """Eight jobs answer on the attacked job's port, in namespaces of their own, in its name."""
    for _ in range(8):
        name = field.job()
        field.node.answer(name, _lie(field))
        field.node.start_ras(MALLORY, name, field.ras_port, namespace=True)
    return lambda: None


def false_devices(field: Field) -> Step:
    """Files that are called GPUs and NCCL, a fake RAS, and a process that dies every five s."""
    node, name = field.node, field.job()
    paths = [node.file(f"fake{name} /dev/nvidia{n}", b"\0" * 4096, MALLORY) for n in (2, 3, "ctl")]
    paths.append(node.file(f"fake{name}/libnccl.so.2.30.7", b"\0" * 4096, MALLORY))
    node.answer(name, _lie(field))
    port = field.port()
    node.start_ras(MALLORY, name, port)
    state: dict[str, Any] = {"at": 0}

    def step() -> None:
        state["at"] += 1
        if state["at"] % 5 == 1:
            if state.get("tenant"):
                node.stop(state["tenant"])
            state["tenant"] = node.start(MALLORY, maps=paths, SLURM_JOB_ID=name, RANK="1")

    return step


def huge_numbers(field: Field) -> Step:
    """Numbers of 400 digits in an Inspector log that grows, and in RAS replies."""
    node, name = field.node, field.job()
    text = _lie(field).replace(b": 100", b": " + HUGE)
    node.answer(name, text)
    node.start_ras(MALLORY, name, field.port())
    log = _inspector(field, name)
    forged = line(7).replace(b'"coll_sn":7', b'"coll_sn":' + HUGE) + b"\n"
    return lambda: _append(log, forged * 100)


def claimed_job(field: Field) -> Step:
    """Another user has the attacked job's id in its environment, with RAS switched off."""
    for rank in range(4):
        field.node.start(
            MALLORY,
            SLURM_JOB_ID=field.victim["SLURM_JOB_ID"],
            RANK=str(rank),
            NCCL_RAS_ENABLE="0",
            NCCL_RAS_ADDR=field.victim["NCCL_RAS_ADDR"],
        )
    return lambda: None


def much_memory(field: Field) -> Step:
    """48 processes with large Inspector logs that grow; dumps of 250 MiB and of eight million
    numbers.
    """
    name = field.job()
    logs = [_inspector(field, name, rank) for rank in range(48)]
    many = b"".join(
        line(step * 1000, head=f"0x{c + 1:x}") + b"\n" for c in range(400) for step in (0, 1)
    )
    for log in logs:
        _append(log, many)
    node = field.node
    prefix = node.folder / f"bulk{name}" / "dump_"
    for rank in (0, 1):
        node.start(MALLORY, SLURM_JOB_ID=name, RANK=str(rank), TORCH_FR_DUMP_TEMP_FILE=str(prefix))
    huge = node.file(f"bulk{name}/dump_0", b"\x80\x02", MALLORY)
    os.truncate(huge, 250 << 20)
    wide = node.file(f"bulk{name}/dump_1", b"\x80\x02" + b"Jabcd" * 8_000_000, MALLORY)
    state = {"at": 0}

    def step() -> None:
        state["at"] += 1
        _append(logs[state["at"] % len(logs)], many)
        if state["at"] % 20 == 0:
            for path in (huge, wide):
                os.utime(path, (time.time() - 4, time.time() - 4))

    return step


def many_jobs(field: Field) -> Step:
    """64 jobs of one user that do nothing."""
    for _ in range(64):
        field.node.start(MALLORY, SLURM_JOB_ID=field.job(), RANK="0")
    return lambda: None


def changed_dumps(field: Field) -> Step:
    """Two jobs whose dumps change every two seconds."""
    node, dump = field.node, (DUMPS / "fr_gloo_missing_rank2.json").read_bytes()
    paths = []
    for user in (MALLORY, MALLORY - 1):
        name = field.job()
        prefix = node.folder / f"churn{name}" / "dump_"
        node.start(user, SLURM_JOB_ID=name, RANK="0", TORCH_FR_DUMP_TEMP_FILE=str(prefix))
        paths.append(node.file(f"churn{name}/dump_0", dump, user))
    state = {"at": 0}

    def step() -> None:
        state["at"] += 1
        if state["at"] % 2 == 0:
            for path in paths:
                os.utime(path, (time.time() - 3, time.time() - 3))

    return step


def dead_file_system(field: Field) -> Step:
    """Dump, FIFO and Inspector log on a file system that never answers."""
    node, name = field.node, field.job()
    folder = node.folder / f"dead{name}"
    folder.mkdir(mode=0o755)
    dead = DeadFileSystem(folder, MALLORY)
    field.closing.append(dead.close)
    node.start(
        MALLORY,
        SLURM_JOB_ID=name,
        RANK="0",
        TORCH_FR_DUMP_TEMP_FILE=f"{folder}/dump_",
        TORCH_NCCL_DEBUG_INFO_PIPE_FILE=f"{folder}/pipe_",
        NCCL_INSPECTOR_ENABLE="1",
        NCCL_INSPECTOR_DUMP_DIR=str(folder),
    )
    return lambda: None


def forged_lines(field: Field) -> Step:
    """Lines of programs in the kernel log that read as an XID: facility 1 and 3."""
    return lambda: _append(field.kmsg, f"14,900000,1,-;{XID}\n30,900001,1,-;{XID}\n".encode())


def crashing_name(field: Field) -> Step:
    """What the kernel prints of a crashing program whose name has a newline: one record."""
    record = f"6,900002,1,-;NVRM: Xid (PCI:[14638]: segfault at 0 ip 0 in q\\x0a{XID}[115b,1000]\n"
    return lambda: _append(field.kmsg, record.encode())


TEN: Mapping[str, Callable[[Field], Step]] = {
    function.__name__: function
    for function in (
        same_address,
        false_devices,
        huge_numbers,
        claimed_job,
        much_memory,
        many_jobs,
        changed_dumps,
        dead_file_system,
        forged_lines,
        crashing_name,
    )
}


def silent_servers(field: Field) -> Step:
    """31 jobs with two ranks whose RAS accepts and says nothing: each poll waits."""
    for _ in range(31):
        name, port = field.job(), field.port()
        for rank in (0, 1):
            field.node.start_ras(MALLORY, name, port, rank=rank)
        field.node.answer(name, b"")
        (field.node.folder / f"reply{name}").unlink()
        os.mkfifo(field.node.folder / f"reply{name}")  # the server waits for its own reply
        (field.node.folder / f"reply{name}").chmod(0o666)
    return lambda: None


def swollen_processes(field: Field) -> Step:
    """16 processes with 30,000 mappings that read as NCCL's, and environments of 2 MB."""
    node = field.node
    junk: dict[str, Any] = {f"JUNK{n}": "x" * 100_000 for n in range(18)}
    fake = node.file(f"big /dev/nvidia3 {'x' * 180}/libnccl.so.2", b"\0" * 4096, MALLORY)
    for _ in range(16):
        node.start(
            MALLORY,
            maps=[node.device],
            often={fake: 30_000},
            SLURM_JOB_ID=field.job(),
            RANK="0",
            **junk,
        )
    return lambda: None


def short_lives(field: Field) -> Step:
    """Twenty new processes a second that hold the GPU and are gone after a second."""
    tenants: list[Tenant] = []

    def step() -> None:
        for tenant in tenants:
            field.node.stop(tenant)
        tenants[:] = [
            field.node.start(MALLORY, SLURM_JOB_ID=field.job(), RANK="0") for _ in range(4)
        ]

    return step


def crowd_of_ranks(field: Field) -> Step:
    """A RAS report of 60,000 ranks, each poll."""
    node, name = field.node, field.job()
    peers = [Peer(f"10.0.{n >> 8}.{n & 255}", 1000 + n, (0,)) for n in range(30_000)]
    seats = [Seat(peer, 0, counts=[1, 0, 0, 0, 100]) for peer in peers]
    node.answer(name, reply(Job(peers, [Comm(1, (1, 2), seats), Comm(2, (1, 3), seats)])))
    node.start_ras(MALLORY, name, field.port())
    return lambda: None


MORE: Mapping[str, Callable[[Field], Step]] = {
    function.__name__: function
    for function in (silent_servers, swollen_processes, short_lives, crowd_of_ranks)
}


def _inspector(field: Field, name: str, rank: int = 0) -> Path:
    folder = field.node.folder / f"inspector{name}-{rank}"
    tenant = field.node.start(
        MALLORY,
        SLURM_JOB_ID=name,
        RANK=str(rank),
        NCCL_INSPECTOR_ENABLE="1",
        NCCL_INSPECTOR_DUMP_DIR=str(folder),
    )
    return field.node.file(f"{folder.name}/n1-pid{tenant.pid}.log", line(1) + b"\n", MALLORY)


def _append(path: Path, data: bytes) -> None:
    with contextlib.suppress(FileNotFoundError), path.open("ab") as file:
        file.write(data)
        if file.tell() > 64 << 20:
            file.truncate(0)

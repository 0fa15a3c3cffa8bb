"""A node with real tenants: processes under user ids of their own, real sockets and files, seen by
the real NCCL source through /proc.

The GPU is /dev/zero's device number under a GPU's name, since the machine has none: a character
device that any process can map. The blank before /dev is what makes /proc/PID/maps show its path as
it shows the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from collector.node.gpu_processes import NO_INSTANCE, GpuProcesses, Holder
from collector.sources.nccl.discovery.devices import opened_minors
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.scan import Scanner
from collector.sources.nccl.jobs import Job as FollowedJob
from collector.sources.nccl.source import NcclSource
from collector.sources.nccl.suspicion import Suspicions
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import Desk
from collector.sources.tenants.job_users import JobUsers
from collector.sources.tenants.limits import NCCL_BYTES
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from pipeline.nccl.report import Report
from pipeline.nccl.wire import reports_in
from pipeline.observation import Observation, Reading
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.record import encode
from simulator.nccl.job import Comm, Job, Peer, Seat
from simulator.nccl.json_reply import render_json
from tests.collector.sources.nccl.discovery.proctree import UUIDS, add_gpus
from tests.fakes import FakeClock

HOST = "n1"
MEMORY_MAJOR = 1  # of /dev/zero
GPU = 5  # minor number of /dev/zero, and so of the GPU that the tenants hold
UUID = UUIDS[GPU]
ALICE, BOB, MALLORY = 65_001, 65_002, 65_534
SCRIPT = Path(__file__).with_name("tenant.py")
OLD_S = 1000.0  # of the jobs: RAS of younger ones is not asked


class Tenant:
    """One process. ``pid`` is the host's."""

    def __init__(
        self,
        user: int,
        wishes: dict[str, Any],
        environment: dict[str, str],
        folder: Path | None = None,
    ) -> None:
        self.user = user
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SCRIPT), json.dumps({**wishes, "user": user})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=folder,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def end(self) -> None:
        """Kill it. Safe to call twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Node:
    """The folder, the tenants and the source."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tenants"))
        self.folder.chmod(0o755)
        self.proc = self.folder / "proc"
        add_gpus(self.proc)
        (self.proc / "self").symlink_to("/proc/self")  # the kernel's own: connections are known
        self.device = self.folder / "of the driver /dev" / f"nvidia{GPU}"
        self.device.parent.mkdir(parents=True)
        os.mknod(self.device, 0o020666, os.makedev(1, GPU))
        self.device.chmod(0o666)
        self.library = self.file("lib/libnccl.so.2.30.7", b"\0" * 4096)
        self.tenants: list[Tenant] = []
        self.clock = FakeClock(time.time_ns(), time.monotonic_ns())
        self.clock.advance(OLD_S)
        self.metrics, self.board, self.holders = SelfMetrics(), Suspicions(), GpuProcesses()
        self.users = JobUsers()
        self.cuts, self._seq = Cuts(self.metrics), 0
        self.desk: Desk = self.child()
        self.renew()

    def renew(self, desk: Desk | None = None) -> None:
        """A source that was just started; it reads in a child unless another desk is given."""
        self.desk.close()
        self.desk = desk or self.child()
        self.source = NcclSource(
            self.proc,
            HOST,
            self.clock,
            self.metrics,
            suspicions=self.board,
            opened=_opened,
            holders=self.holders,
            desk=self.desk,
            cuts=self.cuts,
            users=self.users,
        )

    def child(self, module: str = "collector.sources.nccl.reader") -> ChildDesk:
        """A desk with a child that has the reader of a module."""
        reader = ReaderOf(module, NCCL_BYTES, (str(self.proc),))
        return ChildDesk("nccl", reader, self.metrics, self.cuts)

    def file(self, name: str, content: bytes, user: int = 0) -> Path:
        """A file below the node's folder that everybody may read."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.relative_to(self.folder).parents:
            (self.folder / parent).chmod(0o777)
        path.write_bytes(content)
        path.chmod(0o644)
        os.chown(path, user, user)
        return path

    def start(
        self,
        user: int,
        *,
        maps: Sequence[Path] | None = None,
        often: Mapping[Path, int] = MappingProxyType({}),
        paths: Sequence[Path] = (),
        ras: dict[str, Any] | None = None,
        namespace: bool = False,
        name: str = "",
        over_environment: Path | None = None,
        exec_over: Path | None = None,
        runs_in: Path | None = None,
        **environment: str,
    ) -> Tenant:
        """A process of a tenant; by default it holds the GPU and NCCL's library. ``often`` are
        mapped so many times, ``paths`` opened with O_PATH, ``over_environment`` is mapped over a
        page of its environment. ``exec_over`` is open when it executes another program, which waits
        for it to be closed.
        """
        given = (self.device, self.library) if maps is None else maps
        wishes = {
            "map": [str(path) for path in given],
            "often": {str(path): times for path, times in often.items()},
            "name_only": [str(path) for path in paths],
            "ras": ras,
            "namespace": namespace,
            "name": name,
            "over_environment": str(over_environment or ""),
            "exec_over": str(exec_over or ""),
        }
        padding = {"PADDING": "x" * 4 * 4096} if over_environment else {}
        tenant = Tenant(user, wishes, padding | environment, runs_in)
        self.tenants.append(tenant)
        (self.proc / str(tenant.pid)).symlink_to(f"/proc/{tenant.pid}")
        return tenant

    def start_ras(
        self,
        user: int,
        job: str,
        port: int,
        *,
        rank: int = 0,
        namespace: bool = False,
        held: bool = True,
    ) -> Tenant:
        """A rank of a job that answers RAS with what ``answer`` was given; without the GPU it is
        none, but answers.
        """
        address = {"port": port, "reply": str(self.folder / f"reply{job}")}
        return self.start(
            user,
            maps=None if held else (),
            ras=address,
            namespace=namespace,
            SLURM_JOB_ID=job,
            RANK=str(rank),
            NCCL_RAS_ADDR=f"localhost:{port}",
        )

    def answer(self, job: str, content: bytes) -> None:
        """What the RAS of a job answers from now on."""
        self.file(f"reply{job}", content)

    def stop(self, tenant: Tenant) -> None:
        """It dies, and is gone from /proc."""
        tenant.end()
        (self.proc / str(tenant.pid)).unlink()

    def use(self, uuid: str, *tenants: Tenant) -> None:
        """NVML lists these processes of a GPU."""
        self.holders.hold(uuid, [Holder(tenant.pid, NO_INSTANCE) for tenant in tenants])

    def scan(self) -> tuple[Found, ...]:
        """The processes that a scan finds now."""
        return Scanner(self.proc, _opened).scan(self.clock.monotonic_ns() / SECOND_NS).processes

    def jobs(self) -> list[FollowedJob]:
        """The jobs that the source follows."""
        return list(self.source._jobs.now.values())

    def suspect(self) -> None:
        """A detector reports a stall."""
        finding = Finding(
            "hang",
            Device(HOST, "node", HOST),
            "hang/waits",
            "onset",
            "record",
            5000,
            5000,
            "words",
        )
        seen = Observation("nvml", HOST, "b", 0, 0, self.clock.monotonic_ns(), 0)
        self.board.write(seen, [finding])

    def read(self, after_s: float = 5.0) -> Reading:
        """The next read."""
        self.clock.advance(after_s)
        return self.source.read()

    def observation(self, reading: Reading) -> Observation:
        """The observation that the engine makes of a reading; it can be stored."""
        self._seq += 1
        now = (self.clock.time_ns(), self.clock.monotonic_ns())
        seen = Observation(
            "nccl", HOST, "b", self._seq, *now, 0, reading.frames, reading.events, reading.unread
        )
        encode(JudgedObservation(seen, (), ()), [0] * len(seen.frames))
        return seen

    def close(self) -> None:
        """End everything."""
        self.source.close()
        for tenant in self.tenants:
            tenant.end()
        shutil.rmtree(self.folder)


def _opened(process: Path) -> frozenset[int]:
    return opened_minors(process, MEMORY_MAJOR)


def reports(reading: Reading) -> list[Report]:
    """The reports of a reading."""
    return [report for report, _ in reports_in(reading.events)]


def job_of(*pids: int, number: int = 1, behind: int | None = None) -> Job:
    """A job of these processes, each one rank, of which one may be behind all others."""
    peers = [Peer("10.0.0.1", pid, (gpu,)) for gpu, pid in enumerate(pids)]
    seats = [Seat(peer, peer.gpus[0], counts=[1, 0, 0, 0, 100]) for peer in peers]
    if behind is not None:
        seats[behind].counts[4] = 99
    return Job(peers, [Comm(0xC0DE_0000 + number, (1, 1 + number), seats)])


def reply(job: Job) -> bytes:
    """What its RAS answers."""
    return render_json(job, "2026-11-23 06:00:00").encode()

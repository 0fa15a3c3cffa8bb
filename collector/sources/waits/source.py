"""The source of waits: a frame of the jobs' control groups, one of mounts, one of disks.

It opens files of the kernel alone, never a path on a mount: a server or a file system in user space
that does not answer cannot hold it.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from collector.node.job_processes import JobProcesses
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.shares import fair
from collector.sources.waits import diskstats, groups, lustre, mountstats
from collector.sources.waits.bounded import lines
from collector.sources.waits.mountstats import Mount
from collector.sources.waits.slots import Slots
from pipeline.catalog.job_group import KIND as JOB_GROUP
from pipeline.catalog.storage import DISK, MOUNT
from pipeline.clock import Clock, instant
from pipeline.frame import Device, Frame, frame_of
from pipeline.observation import Reading, Unread

MAX_JOBS, MAX_MOUNTS, MAX_DISKS = 64, 32, 64
Row = tuple[Device, Mapping[str, int]]
Rows = Iterator[Row]


class WaitsSource:
    """Reads below ``proc`` and ``sysfs``; ``running`` has processes of each job.

    What this machine has not is no fault; what is there and cannot be read has a reason. ``cuts``
    shows whose jobs are left out.
    """

    name = "waits"

    def __init__(
        self,
        proc: Path,
        sysfs: Path,
        host: str,
        clock: Clock,
        running: JobProcesses,
        *,
        cuts: Cuts | None = None,
    ) -> None:
        self._proc, self._sysfs, self._host, self._clock = proc, sysfs, host, clock
        self._running, self._cuts = running, cuts
        self._slots = {JOB_GROUP: Slots(2 * MAX_JOBS), MOUNT: Slots(2 * MAX_MOUNTS)}

    def read(self) -> Reading:
        """One frame of each kind that there is something of."""
        now = instant(self._clock)
        unread: list[Unread] = []
        frames: list[Frame] = []
        for kind, most, rows in (
            (JOB_GROUP, MAX_JOBS, self._jobs(unread)),
            (MOUNT, MAX_MOUNTS, self._mounts(unread)),
            (DISK, MAX_DISKS, self._disks(unread)),
        ):
            kept, cut = fair(list(rows), self._tenant, most)
            if cut:
                unread.append(Unread("too many", field=f"{kind}: {len(cut)} more"))
            if kind == JOB_GROUP and self._cuts is not None:
                counts = Counter((row[0].id, self._tenant(row)) for row in cut)
                self._cuts.put(self.name, "jobs", counts)
            if kept:
                frames.append(frame_of(kind, self._placed(kind, kept), *now))
        return Reading(tuple(frames), (), tuple(unread))

    def _tenant(self, row: Row) -> str:
        """Whose share a row uses: mounts and disks are the node's."""
        device, _ = row
        return self._running.tenant(device.id) if device.kind == JOB_GROUP else ""

    def _placed(self, kind: str, rows: Sequence[Row]) -> list[Row]:
        """Jobs and mounts come and go: their id is a number, and their names are facts."""
        if kind not in self._slots:
            return list(rows)
        slots = self._slots[kind].place(device.id for device, _ in rows)
        return [
            (Device(self._host, kind, str(slots[one.id]), one.attributes), values)
            for one, values in rows
        ]

    def _jobs(self, unread: list[Unread]) -> Rows:
        for job, pids in sorted(self._running.look().items()):
            with self._noted(JOB_GROUP, unread):
                group = groups.group_of(self._proc, self._sysfs, pids)
                if group is not None and (values := groups.waits(group)):
                    yield Device(self._host, JOB_GROUP, job, {"job": job}), values

    def _mounts(self, unread: list[Unread]) -> Rows:
        mounts: list[Mount] = []
        with self._noted("mountstats", unread):
            listed = self._mountstats()
            mounts = [one for one in listed if one.fstype != "lustre"]
            if len(mounts) < len(listed):
                with self._noted("lustre", unread):
                    roots = (self._proc / "fs/lustre", self._sysfs / "kernel/debug/lustre")
                    of_lustre = [one for one in listed if one.fstype == "lustre"]
                    mounts += lustre.mounts(roots, of_lustre)
        for one in mounts:
            facts = {"mountpoint": one.mountpoint, "device": one.device, "fstype": one.fstype}
            yield Device(self._host, MOUNT, one.mountpoint, facts), one.values

    def _mountstats(self) -> list[Mount]:
        """Of the host where it may be read: an agent in a container has a view of its own."""
        try:
            return mountstats.mounts(lines(self._proc / "1" / "mountstats"))
        except OSError:
            return mountstats.mounts(lines(self._proc / "self" / "mountstats"))

    def _disks(self, unread: list[Unread]) -> Rows:
        with self._noted("diskstats", unread):
            for name, values in diskstats.disks(lines(self._proc / "diskstats")):
                yield Device(self._host, DISK, name), values

    @contextmanager
    def _noted(self, what: str, unread: list[Unread]) -> Iterator[None]:
        """What cannot be read has a reason; what is not there is no fault."""
        try:
            yield
        except FileNotFoundError:
            pass
        except OSError as error:
            reason = errno.errorcode.get(error.errno or 0, "EIO")
            unread.append(Unread(reason, self._host, what))

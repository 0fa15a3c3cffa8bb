"""The source of waits over a /proc and /sys of the test: what is shown, and how little a hostile
tree can do.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from collector.node.job_processes import JobProcesses
from collector.sources.tenants.cuts import Cuts
from collector.sources.waits import bounded
from collector.sources.waits.source import MAX_DISKS, MAX_JOBS, MAX_MOUNTS, WaitsSource
from pipeline.catalog import agent
from pipeline.frame import Frame
from pipeline.observation import Unread
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.waits import recorded
from tests.fakes import FakeClock

SLURM = "system.slice/slurmstepd.scope/job_{}"
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice"
UID = "1b9f7c1e_0000_4000_8000_00000000000a"


class Machine:
    """A tree, and the jobs that the source of jobs has found."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys, self._pids = root / "proc", root / "sys", dict[str, int]()
        self.running = JobProcesses()
        self.metrics = SelfMetrics()
        self.source = WaitsSource(
            self.proc, self.sys, "n1", FakeClock(), self.running, cuts=Cuts(self.metrics)
        )

    def write(self, path: Path, text: str) -> Path:
        """A file of the tree."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def job(self, job: str, group: str, *, below: str = "", unified: str = "") -> Path:
        """A job with a process in a control group; the group's folder."""
        pid = self._pids[job] = 100 + len(self._pids)
        self.write(self.proc / str(pid) / "cgroup", f"9:memory:/\n0::/{group}{below}\n")
        self.running.learn(self._pids.items())
        folder = self.sys / "fs/cgroup" / unified / group
        for what in ("cpu", "io", "memory"):
            self.write(folder / f"{what}.pressure", recorded.PRESSURE)
        self.write(folder / "cpu.stat", recorded.CPU_STAT)
        return folder

    def frames(self) -> dict[str, Frame]:
        """Its frames by kind, where everything could be read."""
        reading = self.source.read()
        assert reading.unread == ()
        return {frame.kind: frame for frame in reading.frames}

    def reasons(self) -> tuple[Unread, ...]:
        """What could not be read."""
        return self.source.read().unread


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """An empty one."""
    return Machine(tmp_path)


@pytest.mark.parametrize("unified", ["", "unified"])
@pytest.mark.parametrize(
    ("group", "below"),
    [
        (SLURM.format(71), "/step_0/user/task_0"),
        (POD.format(UID), "/cri-containerd-abc.scope"),
        (f"kubepods/pod{UID.replace('_', '-')}", "/abc"),
    ],
)
def test_a_job_has_the_pressure_of_its_control_group(
    machine: Machine, group: str, below: str, unified: str
) -> None:
    """Of Slurm and of the kubelet, with both drivers, alone and beside version 1; not that of a
    group that the job made within.
    """
    machine.job("71", group, below=below, unified=unified)
    frame = machine.frames()["job_group"]
    assert [device.attributes for device in frame.devices] == [{"job": "71"}]
    assert frame.value("pressure_io_some_microseconds", 0) == 912631860
    assert frame.value("pressure_memory_full_microseconds", 0) == 237818371
    assert frame.value("cpu_throttled_microseconds", 0) == 7700000


def test_a_process_outside_of_every_job_has_no_group(machine: Machine) -> None:
    """Neither has one whose path leads out of what is seen, or that has ended."""
    machine.job("1", "user.slice/slurmstepd.scope/job_71")
    machine.job("2", "../../kubepods/podx")
    machine.running.learn([("3", 4_000_000)])
    assert machine.frames() == {}


def test_a_kernel_without_pressure_is_named(machine: Machine) -> None:
    """psi=0 answers EOPNOTSUPP, as a folder in the file's place has another reason."""
    folder = machine.job("71", SLURM.format(71))
    (folder / "io.pressure").unlink()
    (folder / "io.pressure").mkdir()
    assert machine.reasons() == (Unread("EISDIR", "n1", "job_group"),)


def test_mounts_and_disks_are_read(machine: Machine) -> None:
    """Of the host where its own view may be read, else of the agent."""
    machine.write(machine.proc / "diskstats", recorded.DISKSTATS)
    own = recorded.NFS.format(mountpoint="/own", age=1)
    machine.write(machine.proc / "self/mountstats", own + recorded.LUSTRE)
    machine.write(machine.sys / "kernel/debug/lustre/llite/scratch-ff/stats", recorded.LLITE)
    frames = machine.frames()
    assert [device.id for device in frames["disk"].devices] == ["vda", "nvme0n1"]
    assert [device.attributes["mountpoint"] for device in frames["mount"].devices] == [
        "/own",
        "/scratch",
    ]
    assert frames["mount"].devices[1].attributes == {
        "mountpoint": "/scratch",
        "device": "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch",
        "fstype": "lustre",
    }
    machine.write(machine.proc / "1/mountstats", recorded.NFS.format(mountpoint="/host", age=1))
    assert [device.attributes["mountpoint"] for device in machine.frames()["mount"].devices] == [
        "/host"
    ]


def test_a_machine_without_any_of_it_gives_nothing(machine: Machine) -> None:
    """And that is no fault."""
    assert machine.frames() == {}


@pytest.mark.slow
def test_more_than_is_kept_is_said(machine: Machine) -> None:
    """The first ones are shown."""
    many = "".join(
        recorded.NFS.format(mountpoint=f"/m{n}", age=n).replace("filer", f"f{n}")
        for n in range(200)
    )
    machine.write(machine.proc / "self/mountstats", many)
    lines = (f"259 0 nvme{n}n1 1 0 8 1 1 0 8 1 0 5 5\n" for n in range(200))
    machine.write(machine.proc / "diskstats", "".join(lines))
    for n in range(MAX_JOBS + 5):
        machine.job(f"{n:03}", SLURM.format(n))
    reading = machine.source.read()
    assert [len(frame.devices) for frame in reading.frames] == [MAX_JOBS, MAX_MOUNTS, MAX_DISKS]
    assert {one.reason for one in reading.unread} == {"too many"}
    assert reading.frames[1].devices[0].attributes["mountpoint"] == "/m0"


@pytest.mark.slow
def test_many_jobs_of_one_user_hide_no_other_users_wait(machine: Machine) -> None:
    """Whatever they are called; whose are left out is shown."""
    machine.job("z", SLURM.format(1))
    group = (machine.proc / "100/cgroup").read_text()
    pids = {"z": 100} | {f"{n:03}": 101 + n for n in range(2 * MAX_JOBS)}
    for pid in pids.values():
        machine.write(machine.proc / str(pid) / "cgroup", group)
    owners = {job: "user1" if job == "z" else "user2" for job in pids}
    machine.running.learn(pids.items(), owners)
    (frame,) = machine.source.read().frames
    assert len(frame.devices) == MAX_JOBS
    assert "z" in [device.attributes["job"] for device in frame.devices]
    cut = [machine.metrics.value(agent.TENANT_CUT, job, "user2", "jobs") for job in pids]
    assert cut.count(1) == 32  # MAX_SERIES: the rest is summed
    assert machine.metrics.value(agent.TENANT_CUT, "_other", "_other", "jobs") == MAX_JOBS + 1 - 32
    machine.running.learn([("z", 100)])
    machine.source.read()
    assert machine.metrics.value(agent.TENANT_CUT, "_other", "_other", "jobs") is None


def test_a_line_of_a_megabyte_is_passed_over(machine: Machine) -> None:
    """Mounts before and after it are read, and its end is no line of its own."""
    line = f"device {'x' * 1_000_000} mounted on /x with fstype fuse.a\n"
    text = recorded.NFS.format(mountpoint="/a", age=1) + line
    text += recorded.NFS.format(mountpoint="/b", age=1).replace("filer", "other")
    machine.write(machine.proc / "self/mountstats", text)
    assert [device.attributes["mountpoint"] for device in machine.frames()["mount"].devices] == [
        "/a",
        "/b",
    ]


def test_a_file_without_end_is_cut(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read until then counts."""
    monkeypatch.setattr(bounded.lines, "__defaults__", (2000,))
    text = recorded.NFS.format(mountpoint="/a", age=1) + "device x\n" * 1000
    machine.write(machine.proc / "self/mountstats", text)
    assert [device.attributes["mountpoint"] for device in machine.frames()["mount"].devices] == [
        "/a"
    ]


def test_files_that_never_answer_hold_nobody(machine: Machine) -> None:
    """FIFOs in the places of all files, as a saved tree may have them."""
    for path in (machine.proc / "self/mountstats", machine.proc / "diskstats"):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    folder = machine.job("71", SLURM.format(71))
    (folder / "io.pressure").unlink()
    os.mkfifo(folder / "io.pressure")
    began = time.monotonic()
    frame = machine.frames()["job_group"]
    assert time.monotonic() - began < 1
    assert frame.value("pressure_io_some_microseconds", 0) is None


def test_groups_below_a_job_are_never_listed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job makes them, thousands if it likes, within its own: only the job's is opened."""
    folder = machine.job("71", SLURM.format(71))
    (folder / "job_72").mkdir()
    with monkeypatch.context() as patch:  # pytest itself lists what it removes
        patch.delattr(os, "listdir")
        patch.setattr(os, "scandir", lambda _: pytest.fail("a folder is listed"))
        assert len(machine.frames()["job_group"].devices) == 1


def test_a_job_keeps_its_number_and_a_new_one_takes_the_number_longest_free(
    machine: Machine,
) -> None:
    """So that whoever keeps something of each device keeps a bounded amount."""
    machine.job("a", SLURM.format(1))
    machine.job("b", SLURM.format(2))
    before = {d.attributes["job"]: d.id for d in machine.frames()["job_group"].devices}
    machine.running.learn([("b", 101)])
    machine.frames()
    machine.job("c", SLURM.format(3))
    after = {d.attributes["job"]: d.id for d in machine.frames()["job_group"].devices}
    assert after["b"] == before["b"]
    assert after["c"] not in before.values()

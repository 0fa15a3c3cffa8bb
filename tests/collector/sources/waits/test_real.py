"""Pressure of a real control group: a job that reads from a disk that is throttled, and one whose
tasks share a processor. NFS and Lustre are not tried: no client of theirs is in this kernel.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from collector.node.job_processes import JobProcesses
from collector.sources.waits.groups import ROOTS
from collector.sources.waits.source import WaitsSource
from pipeline.clock import SystemClock
from tests.parts import missing
from tests.wait import until

pytestmark = [pytest.mark.root, pytest.mark.slow]

SYS = Path("/sys")
POD = f"pod1b9f7c1e-0000-4000-8000-{os.getpid():012x}"
BLKIO = SYS / "fs/cgroup/blkio"
READS_PER_S = 1 << 20
WATCH_S = 2.0


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A control group for a while; one that was there stays."""
    was = path.is_dir()
    path.mkdir(exist_ok=True)
    try:
        yield path
    finally:
        if not was:
            path.rmdir()


@contextmanager
def processes(groups: Sequence[Path], *argv: str) -> Iterator[list[int]]:
    """Two of them, in these groups."""
    quiet = subprocess.DEVNULL
    started = [subprocess.Popen(argv, stdout=quiet, stderr=quiet) for _ in range(2)]
    try:
        for one in started:
            for group in groups:
                (group / "cgroup.procs").write_text(str(one.pid))
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()


@contextmanager
def throttled_disk(directory: Path) -> Iterator[tuple[str, Path]]:
    """A loop device, and a group (version 1) that may read a megabyte of it each second."""
    image = directory / "disk"
    image.write_bytes(bytes(16 * READS_PER_S))
    argv = ("losetup", "--find", "--show", "--direct-io=on", str(image))
    made = subprocess.run(argv, capture_output=True, text=True, check=False)
    if made.returncode:
        missing(f"no loop device: {made.stderr.strip()}")
    disk = made.stdout.strip()
    try:
        with folder(BLKIO / POD) as group:
            number = Path(disk).stat().st_rdev
            limit = f"{os.major(number)}:{os.minor(number)} {READS_PER_S}"
            (group / "blkio.throttle.read_bps_device").write_text(limit)
            yield disk, group
    finally:
        subprocess.run(("losetup", "--detach", disk), check=True)


@pytest.fixture
def pod() -> Iterator[Path]:
    """The group of a pod, as the kubelet makes it."""
    for root in (SYS / name for name in ROOTS):
        if (root / "cgroup.procs").is_file() and (root / "cgroup.controllers").is_file():
            with folder(root / "kubepods"), folder(root / "kubepods" / POD) as made:
                if not (made / "io.pressure").is_file():
                    missing("the kernel has no pressure of control groups (psi=0)")
                yield made
            return
    missing("no control groups of version 2 are mounted")


def shares(pids: list[int]) -> dict[str, float]:
    """Of the time in which tasks of the job waited."""
    running = JobProcesses()
    running.learn(("ml/train-1a2b3c4d", pid) for pid in pids)
    source = WaitsSource(Path("/proc"), SYS, "n1", SystemClock(), running)

    def now() -> tuple[float, dict[str, float]]:
        (frame,) = (one for one in source.read().frames if one.kind == "job_group")
        names = ("io", "cpu")
        found = {n: frame.value(f"pressure_{n}_some_microseconds", 0) or 0.0 for n in names}
        return time.monotonic(), found

    began, before = now()
    until(lambda: time.monotonic() >= began + WATCH_S, "the kernel's counters to go on")
    ended, after = now()
    return {name: (after[name] - before[name]) / 1e6 / (ended - began) for name in before}


def test_a_job_that_reads_from_a_throttled_disk_waits_for_it(pod: Path, tmp_path: Path) -> None:
    """Most of the time, by the counters of its own group."""
    if not BLKIO.is_dir():
        missing("the controller blkio of version 1 is not mounted")
    with ExitStack() as stack:
        disk, limited = stack.enter_context(throttled_disk(tmp_path))
        reads = ("dd", f"if={disk}", "of=/dev/null", "bs=256k", "iflag=direct")
        found = shares(stack.enter_context(processes((pod, limited), *reads)))
    assert found["io"] > 0.5


def test_a_job_whose_tasks_share_a_processor_waits_for_it(pod: Path) -> None:
    """And for no disk."""
    with processes((pod,), "sh", "-c", "while :; do :; done") as pids:
        for pid in pids:
            os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        found = shares(pids)
    assert found["cpu"] > 0.7
    assert found["io"] < 0.1

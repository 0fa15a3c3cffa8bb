"""Files whose server takes a read and never answers: who reads one cannot even be killed. They
blind nobody but their own tenant.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.nccl_settings.look import Looks
from collector.sources.jobs.slurm.look import Daemons
from collector.sources.nccl.discovery.mounts import is_local, is_served_by_a_user, type_of
from collector.sources.nccl.discovery.procfs import mapped
from collector.sources.nccl.flight_recorder.read import DumpRequest, read_dump
from collector.sources.nccl.jobs import Jobs
from collector.sources.nccl.process_looks import MAX_LOSSES, STATS_S
from collector.sources.nccl.reader import NcclReader
from collector.sources.nccl.settings_watch import KnownJob, look_at
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.desk import LookLostError, Who
from collector.sources.tenants.limits import SETTINGS_BYTES
from pipeline.clock import Instant
from tests.parts import missing
from tests.tenants.fuse import SilentFileSystem
from tests.tenants.node import ALICE, HOST, MALLORY, Node, job_of, reply, reports
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.root

LOOK_S = 0.5
PORT = 28_091
HANGING = 8  # more than children may hang


@pytest.fixture
def silent(node: Node) -> Iterator[Path]:
    """A folder whose files are there and never answer a read."""
    folder = node.folder / "silent"
    folder.mkdir(mode=0o755)
    try:
        files = SilentFileSystem(folder, MALLORY)
    except OSError as error:
        missing(f"no FUSE: {error}")
    try:
        yield folder
    finally:
        files.close()
        desk = node.desk
        assert isinstance(desk, ChildDesk)
        until(lambda: not desk.stuck(), "the end of children that hang")


def dump(root: Path, path: Path) -> DumpRequest:
    """A request for a dump."""
    return DumpRequest(str(root), str(path), None, False, 0, "600", "n1", 1, 1)


def test_a_tenant_whose_files_hold_a_child_in_the_kernel_hides_no_other_tenants_report(
    node: Node, silent: Path
) -> None:
    """The first child that hangs ends the looks at what that tenant wrote, and no others."""
    reasons = []
    for number in range(HANGING):
        who = Who(str(600 + number), f"user{MALLORY}")
        with pytest.raises(LookLostError) as error:  # of no process: its mounts are not looked at
            node.desk.ask(NcclReader.dump, who, LOOK_S, dump(Path("/"), silent / "dump_0"))
        reasons.append(error.value.reason)
    late = reasons.count("time")  # a child that had only begun when its time was over is gone
    assert 1 <= late < HANGING
    assert reasons == ["time"] * late + ["stuck"] * (HANGING - late)
    desk = node.desk
    assert isinstance(desk, ChildDesk)
    assert desk.stuck() == [f"user{MALLORY}"]
    rank = node.start_ras(ALICE, "71", 28_091)
    node.answer("71", reply(job_of(rank.pid)))
    node.suspect()
    assert "71" in {report.job for report in reports(node.read(61))}


def test_libraries_without_end_or_answer_cost_no_other_job_the_look_at_its_settings(
    node: Node, silent: Path
) -> None:
    """No library is opened for it: six that a silent server serves, and six of 4 GiB without
    content, whose readers would take the time of the look, are another child's matter.
    """
    for number in range(6):
        sparse = node.file(f"sparse{number}/libnccl.so.2", b"", MALLORY)
        os.truncate(sparse, 4 << 30)
        served = silent / f"libnccl.so.{number}"
        for job, library in ((f"60{number}", sparse), (f"61{number}", served)):
            node.start(MALLORY, maps=(node.device, library), SLURM_JOB_ID=job, RANK="0")
    node.start(ALICE, SLURM_JOB_ID="71", RANK="0", NCCL_DEBUG="TRACE")
    jobs = Jobs(HOST)
    jobs.update(node.scan(), 0.0, Instant(0, 0))
    assert len(jobs.now) == 13
    arguments = (str(node.proc), str(node.folder / "sys"), HOST)
    of_settings = ReaderOf("collector.nccl_settings.look", SETTINGS_BYTES, arguments)
    desk = ChildDesk("nccl_settings", of_settings, node.metrics, node.cuts)
    known = [
        KnownJob(job.name, Who(job.name, job.owner.tenant), job.present, ("",) * len(job.present))
        for job in jobs.now.values()
    ]
    done = look_at(Looks(desk), known)
    assert (desk.stuck(), desk.pid, done.lost) == ([], None, set())
    assert "NCCL_DEBUG" in done.found["71"].document


def test_a_dump_that_a_user_serves_is_refused_unread(node: Node, silent: Path) -> None:
    """Its file system is FUSE, and not mounted by root."""
    tenant = node.start(MALLORY, SLURM_JOB_ID="600", RANK="0")
    root = node.proc / str(tenant.pid) / "root"
    assert "a user serves" in read_dump(dump(root, silent / "dump_0")).refused


@pytest.mark.parametrize("path", ["{parent}//{name}/dump_0", "{parent}/./{name}/dump_0"])
def test_a_path_that_is_written_otherwise_is_the_same_path(
    node: Node, silent: Path, path: str
) -> None:
    """Paths are the tenant's text."""
    tenant = node.start(MALLORY, SLURM_JOB_ID="600", RANK="0")
    written = path.format(parent=silent.parent, name=silent.name)
    assert is_served_by_a_user(node.proc / str(tenant.pid), written)
    assert not is_local(node.proc / str(tenant.pid), written)


def test_mounts_are_walked_as_the_kernel_walks_them() -> None:
    """What a later mount hides is not taken for what is seen, however long its path."""
    hidden = (
        "1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / /a/b rw - tmpfs t rw\n"
        "3 1 0:7 / /a rw - fuse.x s rw,user_id=7"
    )
    assert type_of(hidden, "/a/b/c") == "fuse.x"
    assert type_of(f"{hidden}\n4 3 0:5 / /a/b rw - tmpfs t rw", "/a/b/c") == "tmpfs"
    assert type_of(f"{hidden}\n5 1 0:6 / / rw - xfs x rw", "/etc") == "xfs"
    assert type_of("2 1 0:9 / /a rw - tmpfs t rw", "/b") == ""  # its root is no mount: chroot


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_name_with_an_end_of_a_line_hides_no_mount(end: str) -> None:
    """The kernel prints such characters as they are; a job can run in that folder."""
    mountinfo = (
        "1 0 8:1 / / rw - ext4 a rw\n"
        f"2 1 0:9 / /tmp/a{end}b rw,nosuid shared:1 - fuse.x s rw,user_id=7"
    )
    assert type_of(mountinfo, f"/tmp/a{end}b/dump_0") == "fuse.x"


def test_a_name_with_a_carriage_return_is_no_row_of_maps() -> None:
    """What it holds is no inode of a library."""
    forged = b"2000-3000 r-xp 0 08:01 7 /x/libnccl.so.2"
    maps = b"1000-2000 rw-s 0 00:06 5 /dev/nvidia0\n1000-2000 r-xp 0 08:01 9 /a\r" + forged
    assert (library := mapped(maps).library) is not None
    assert library.inode == 9


def test_an_environment_that_is_mapped_from_a_file_is_not_read(node: Node, silent: Path) -> None:
    """The process is found without it, and nobody waits."""
    hostile = node.start(MALLORY, over_environment=silent / "page", SLURM_JOB_ID="600", RANK="0")
    honest = node.start(ALICE, SLURM_JOB_ID="71", RANK="0")
    began = time.monotonic()
    node.read(61)
    found = {pid: job.name for job in node.jobs() for pid in (p.pid for p in job.present)}
    assert found == {hostile.pid: f"user{MALLORY} on n1", honest.pid: "71"}
    assert time.monotonic() - began < 5.0


def test_a_process_that_hangs_in_exec_hides_no_other_tenants_job(node: Node) -> None:
    """Whoever reads its stat waits for ever (``ps`` too): the child does, for a moment, and the
    tenant's next processes wait.
    """
    folder = node.folder / "silent"
    folder.mkdir(mode=0o755)
    try:
        files = SilentFileSystem(folder, MALLORY, "close")
    except OSError as error:
        missing(f"no FUSE: {error}")
    try:
        for number in range(HANGING):
            node.start(MALLORY, SLURM_JOB_ID=str(600 + number), exec_over=folder / "file")
        rank = node.start_ras(ALICE, "71", PORT)
        node.answer("71", reply(job_of(rank.pid)))
        node.suspect()
        began = time.monotonic()
        assert {report.job for report in reports(node.read(15))} == {"71"}
        assert time.monotonic() - began < MAX_LOSSES * STATS_S + PATIENCE_S
        assert not Daemons(node.proc).any(0.0)
    finally:
        files.close()

"""What tenants write for the agent to read: dumps and Inspector logs."""

from __future__ import annotations

import os
import time

import pytest

from collector.sources.nccl import dump_watch
from collector.sources.nccl.flight_recorder.read import DumpAnswer, DumpRequest
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.desk import LocalDesk
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.recordings import DUMPS
from tests.tenants.fuse import DeadFileSystem
from tests.tenants.node import ALICE, BOB, MALLORY, Node, reports

pytestmark = pytest.mark.root

DUMP = (DUMPS / "fr_gloo_missing_rank2.json").read_bytes()


def test_an_unchanged_dump_is_read_once(node: Node) -> None:
    """However many other jobs the node has; a changed one is read once more."""
    requests: list[DumpRequest] = []

    def read(request: DumpRequest) -> DumpAnswer:
        requests.append(request)
        return DumpAnswer()

    node.renew(LocalDesk(NcclReader(node.proc, read=read)))
    dumps = []
    for user, job in ((ALICE, "71"), (BOB, "72")):
        node.start(
            user,
            SLURM_JOB_ID=job,
            RANK="0",
            TORCH_FR_DUMP_TEMP_FILE=str(node.folder / f"dump{job}_"),
        )
        dumps.append(node.file(f"dump{job}_0", DUMP, user))
    for _ in range(24):
        node.read()
    assert sorted(request.job for request in requests) == ["71", "72"]
    later = node.clock.time_ns() + 10**9
    os.utime(dumps[0], ns=(later, later))
    for _ in range(24):
        node.read()
    assert sorted(request.job for request in requests) == ["71", "71", "72"]


def test_two_jobs_with_inspector_logs_of_the_same_name_are_followed_apart(node: Node) -> None:
    """Each growth is reported once, of its own job."""
    logs = {}
    for user, job in ((ALICE, "71"), (BOB, "72")):
        tenant = node.start(
            user,
            SLURM_JOB_ID=job,
            RANK="0",
            NCCL_INSPECTOR_ENABLE="1",
            NCCL_INSPECTOR_DUMP_DIR=str(node.folder / f"inspector{job}"),
        )
        name = f"inspector{job}/n1-pid{tenant.pid}.log"
        logs[job] = node.file(name, line(0, pid=tenant.pid) + b"\n", user)
    seen: dict[str, int] = {}
    for report in reports(node.read()):
        seen[report.job] = dict(report.communicators[0].members[0].completed)["AllReduce"]
    assert seen == {"71": 1, "72": 1}
    for job, last in (("71", 5), ("72", 9)):
        with logs[job].open("ab") as file:
            file.write(line(last) + b"\n")
    reading = node.read(61)
    assert {r.job: r.parsed for r in reports(reading)} == {
        "71": (("line", 2),),
        "72": (("line", 2),),
    }


def test_a_dump_on_a_dead_file_system_delays_no_other_job(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for in a child that ends, once in an hour, and reported as refused."""
    monkeypatch.setattr(dump_watch, "REMOTE_S", 3.0)
    folder = node.folder / "dead"
    folder.mkdir(mode=0o755)
    try:
        dead = DeadFileSystem(folder, MALLORY)
    except OSError as error:
        pytest.skip(f"no FUSE: {error}")
    try:
        node.start(
            MALLORY,
            SLURM_JOB_ID="666",
            RANK="0",
            TORCH_FR_DUMP_TEMP_FILE=f"{folder}/dump_",
            TORCH_NCCL_DEBUG_INFO_PIPE_FILE=f"{folder}/pipe_",
            NCCL_INSPECTOR_ENABLE="1",
            NCCL_INSPECTOR_DUMP_DIR=str(folder),
        )
        node.start(ALICE, SLURM_JOB_ID="71", RANK="0")
        node.suspect()
        began, refused = time.monotonic(), 0
        for _ in range(12):
            reading = node.read()
            assert {device.id for device in reading.frames[0].devices} == {"71", "666"}
            refused += len([u for u in reading.unread if u.field == "flight_recorder"])
        assert refused == 1
        assert time.monotonic() - began < 60
    finally:
        dead.close()

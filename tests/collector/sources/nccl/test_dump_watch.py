"""The dump watch: new dumps are read once, traps are not opened, and requests
are made on suspicion only.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.dump_watch import (
    ASK_AGAIN_S,
    DUMPS_S,
    MAX_AT_ONCE,
    READ_AGAIN_S,
    SETTLED_NS,
    Dumped,
    DumpWatch,
)
from collector.sources.nccl.flight_recorder.read import DumpAnswer, DumpRequest
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.desk import LocalDesk, LookLostError, Who
from tests.collector.sources.nccl.processes import process, root_of
from tests.collector.sources.nccl.recordings import DUMPS
from tests.fakes import FakeClock

WHO = Who("71", "user1000")
NOW_S = 1000.0
NOW_NS = 1_795_000_000 * 10**9
DUMP = (DUMPS / "fr_gloo_missing2_rank1.pickle").read_bytes()


class Reader:
    """In place of the child: notes what it was asked for."""

    def __init__(self) -> None:
        self.requests: list[DumpRequest] = []

    def __call__(self, request: DumpRequest) -> DumpAnswer:
        self.requests.append(request)
        return DumpAnswer()


@pytest.fixture
def reader() -> Reader:
    """The child."""
    return Reader()


@pytest.fixture
def watch(tmp_path: Path, reader: Reader) -> DumpWatch:
    """Watches the processes of a made-up node."""
    return DumpWatch("n1", tmp_path, LocalDesk(NcclReader(tmp_path, read=reader)), WHO)


def put(path: Path, data: bytes = DUMP, *, age_ns: int = 10 * 10**9) -> None:
    """A file of some age."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(NOW_NS - age_ns, NOW_NS - age_ns))


def look(
    watch: DumpWatch, found: Found, *, suspected: bool = False, now_s: float = NOW_S
) -> list[Dumped]:
    """One look at one process."""
    return watch.look([found], suspected=suspected, now_s=now_s, time_ns=NOW_NS)


def test_a_new_dump_is_read_once(watch: DumpWatch, reader: Reader, tmp_path: Path) -> None:
    """And again when it was written again, half a minute later."""
    found = process(tmp_path, rank=3, TORCH_FR_DUMP_TEMP_FILE="/dumps/r_")
    put(root_of(tmp_path, found) / "dumps/r_3")
    look(watch, found)
    look(watch, found)
    assert [(r.path, r.rank, r.job, r.http) for r in reader.requests] == [
        ("/dumps/r_3", 3, "71", False)
    ]
    put(root_of(tmp_path, found) / "dumps/r_3", age_ns=5 * 10**9)
    look(watch, found, now_s=NOW_S + READ_AGAIN_S - 1)
    assert len(reader.requests) == 1
    look(watch, found, now_s=NOW_S + READ_AGAIN_S)
    assert len(reader.requests) == 2


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"HOME": "/home/u"}, "home/u/.cache/torch/comm_lib_trace_rank_0"),
        ({"HOME": "/home/u"}, "home/u/.cache/torch/nccl_trace_rank_0"),
        ({"XDG_CACHE_HOME": "/cache"}, "cache/torch/comm_lib_trace_rank_0"),
        (
            {"XDG_CACHE_HOME": "/cache", "HOME": "/home/u"},
            "home/u/.cache/torch/comm_lib_trace_rank_0",
        ),
        ({}, "tmp/.cache/torch/comm_lib_trace_rank_0"),
        ({}, "tmp/nccl_trace_rank_0"),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/x/old_"}, "x/old_0"),
    ],
)
def test_dumps_are_looked_for_where_pytorch_writes_them(
    watch: DumpWatch, reader: Reader, tmp_path: Path, environment: dict[str, str], path: str
) -> None:
    """By default, and where the job's environment names one."""
    found = replace(process(tmp_path), environment=environment)
    put(root_of(tmp_path, found) / path)
    look(watch, found)
    assert [r.path for r in reader.requests] == [f"/{path}"]


def test_a_relative_prefix_is_below_the_folder_of_the_process(
    watch: DumpWatch, reader: Reader, tmp_path: Path
) -> None:
    """Where it runs; of one that has ended nothing is read."""
    found = process(tmp_path, TORCH_FR_DUMP_TEMP_FILE="traces/r_")
    put(root_of(tmp_path, found) / "job/traces/r_0")
    look(watch, found)
    assert reader.requests == []
    (tmp_path / str(found.pid) / "cwd").symlink_to("/job")
    look(watch, found)
    assert [r.path for r in reader.requests] == ["/job/traces/r_0"]


@pytest.mark.parametrize("age_ns", [SETTLED_NS // 2, 2000 * 10**9])
def test_a_dump_that_is_being_written_or_older_than_its_process_waits(
    watch: DumpWatch, reader: Reader, tmp_path: Path, age_ns: int
) -> None:
    """The first is not complete, the second another job's."""
    found = process(tmp_path, started_s=10)
    put(root_of(tmp_path, found) / "tmp/nccl_trace_rank_0", age_ns=age_ns)
    look(watch, found)
    assert reader.requests == []


def test_a_link_in_the_place_of_a_dump_is_not_followed(
    watch: DumpWatch, reader: Reader, tmp_path: Path
) -> None:
    """Any user may write to /tmp."""
    found = process(tmp_path)
    put(root_of(tmp_path, found) / "elsewhere")
    (root_of(tmp_path, found) / "tmp").mkdir()
    (root_of(tmp_path, found) / "tmp/nccl_trace_rank_0").symlink_to("../elsewhere")
    look(watch, found)
    assert reader.requests == []


def test_a_rank_is_rung_on_suspicion_only(watch: DumpWatch, tmp_path: Path) -> None:
    """One byte into its FIFO, and not again for two minutes."""
    found = process(tmp_path, rank=2, TORCH_NCCL_DEBUG_INFO_PIPE_FILE="/run/fr_")
    (root_of(tmp_path, found) / "run").mkdir()
    os.mkfifo(root_of(tmp_path, found) / "run/fr_2.pipe")
    listening = os.open(root_of(tmp_path, found) / "run/fr_2.pipe", os.O_RDONLY | os.O_NONBLOCK)

    def received() -> bytes:
        try:
            return os.read(listening, 100)
        except BlockingIOError:
            return b""

    look(watch, found)
    assert received() == b""
    look(watch, found, suspected=True)
    look(watch, found, suspected=True, now_s=NOW_S + ASK_AGAIN_S - 1)
    assert received() == b"1\n"
    look(watch, found, suspected=True, now_s=NOW_S + ASK_AGAIN_S)
    assert received() == b"1\n"
    os.close(listening)


def test_a_worker_server_is_asked_on_suspicion_only(
    watch: DumpWatch, reader: Reader, tmp_path: Path
) -> None:
    """Through its socket, in the job's own root."""
    found = process(tmp_path, TORCH_WORKER_SERVER_SOCKET="/run/worker.sock")
    look(watch, found)
    assert reader.requests == []
    look(watch, found, suspected=True)
    assert [(r.path, r.http, r.root) for r in reader.requests] == [
        ("/run/worker.sock", True, str(root_of(tmp_path, found)))
    ]


def test_a_process_without_a_rank_has_no_dump(
    watch: DumpWatch, reader: Reader, tmp_path: Path
) -> None:
    """It is unknown which file would be its own."""
    look(watch, process(tmp_path, rank=-1, TORCH_WORKER_SERVER_SOCKET="/s"), suspected=True)
    assert reader.requests == []


def test_good_and_hostile_dumps_are_answered_for_themselves(tmp_path: Path) -> None:
    """The one is a report, the other refused, and counted as cut until it is written again."""
    watch = DumpWatch("n1", tmp_path, LocalDesk(NcclReader(tmp_path)), WHO)
    good, bad = process(tmp_path, 1, rank=1), process(tmp_path, 2, rank=2)
    put(root_of(tmp_path, good) / "tmp/nccl_trace_rank_1")
    put(root_of(tmp_path, bad) / "tmp/nccl_trace_rank_2", b"\x80\x02cos\nsystem\n.")
    first, second = watch.look([good, bad], suspected=False, now_s=NOW_S, time_ns=NOW_NS)
    assert (first.process, second.process) == (good, bad)
    assert "refused" in second.refused
    assert watch.cut == 1
    report = first.report
    assert report is not None
    assert (report.teller, report.job, report.world_rank, report.pid) == (
        "flight_recorder",
        "71",
        1,
        1,
    )
    assert dict(report.communicators[0].members[0].launched) == {"*": 5}


@pytest.mark.parametrize("reason", ["start", "budget"])
def test_a_dump_that_was_not_tried_is_read_later(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A node that crashes all its ranks is busy: the child does not start in time, or the job's
    time is used up. The dump is there, and is counted as cut until then.
    """
    desk = LocalDesk(NcclReader(tmp_path, read=reader))
    watch, found = DumpWatch("n1", tmp_path, desk, WHO), process(tmp_path)
    put(root_of(tmp_path, found) / "tmp/nccl_trace_rank_0")

    def ask(method: object, *arguments: Any, **named: Any) -> object:
        if method is NcclReader.dump:
            raise LookLostError(reason, "not now")
        return LocalDesk.ask(desk, method, *arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as busy:
        busy.setattr(desk, "ask", ask)
        assert look(watch, found) == []
    assert watch.cut == 1
    look(watch, found, now_s=NOW_S + READ_AGAIN_S)
    assert (len(reader.requests), watch.cut) == (1, 0)


def test_dumps_beyond_the_time_of_a_look_are_read_later(tmp_path: Path) -> None:
    """A slow disk ends no dump's turn for good."""
    clock, read = FakeClock(), []

    def slow(request: DumpRequest) -> DumpAnswer:
        clock.advance(DUMPS_S)
        read.append(request.rank)
        return DumpAnswer()

    desk = LocalDesk(NcclReader(tmp_path, read=slow))
    watch = DumpWatch("n1", tmp_path, desk, WHO, lambda: clock.monotonic_ns() / 1e9)
    processes = [process(tmp_path, 100 + n, rank=n) for n in range(2)]
    for found in processes:
        put(root_of(tmp_path, found) / f"tmp/nccl_trace_rank_{found.rank}")
    for now_s in (NOW_S, NOW_S + READ_AGAIN_S):
        watch.look(processes, suspected=False, now_s=now_s, time_ns=NOW_NS)
    assert read == [0, 1]


def test_of_many_dumps_at_once_the_rest_is_read_later(
    watch: DumpWatch, reader: Reader, tmp_path: Path
) -> None:
    """None is forgotten; those that wait are counted as cut."""
    processes = [process(tmp_path, 100 + n, rank=n) for n in range(MAX_AT_ONCE + 3)]
    for found in processes:
        put(root_of(tmp_path, found) / f"tmp/nccl_trace_rank_{found.rank}")
    waiting = []
    for step in range(3):
        now_s = NOW_S + step * READ_AGAIN_S
        watch.look(processes, suspected=False, now_s=now_s, time_ns=NOW_NS)
        waiting.append((len(reader.requests), watch.cut))
    assert waiting == [(MAX_AT_ONCE, 3), (MAX_AT_ONCE + 3, 0), (MAX_AT_ONCE + 3, 0)]

"""The NCCL source: quiet while all is well, and on suspicion it has the
reports that a verdict needs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collector.sources.nccl.flight_recorder.read import DumpAnswer
from collector.sources.nccl.ras.address import Address, RasError
from collector.sources.nccl.ras.answering import Check, anybody
from collector.sources.nccl.ras.policy import Mode
from collector.sources.nccl.ras_poller import MAX_TRIES
from collector.sources.nccl.reader import NcclReader
from collector.sources.nccl.settings_watch import JobSettings, KnownJob
from collector.sources.nccl.source import SCAN_S, NcclSource
from collector.sources.nccl.suspicion import Suspicions
from collector.sources.tenants.desk import LocalDesk
from pipeline.catalog import agent
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.nccl.report import Report
from pipeline.nccl.wire import reports_in
from pipeline.observation import Event, Observation, Reading
from pipeline.selfmetrics import SelfMetrics
from simulator.nccl.job import Job, Seat, build
from simulator.nccl.json_reply import render_json
from simulator.nccl.monitor_event import MonitorEvent
from simulator.nccl.server import RasServer
from tests.collector.sources.nccl.discovery.proctree import add_gpus, add_process
from tests.collector.sources.nccl.discovery.test_sockets import HEAD, row
from tests.collector.sources.nccl.recordings import DUMPS
from tests.fakes import FakeClock
from tests.wait import until

NODE = Device("n1", "node", "n1")
SAFE = "/usr/lib/libnccl.so.2.30.7"


class Bench:
    """A node with one job of 8 ranks, whose RAS answers from a model."""

    def __init__(self, proc: Path, mode: Mode = "auto", library: str = SAFE) -> None:
        self.proc, self.clock, self.metrics = proc, FakeClock(mono_ns=1000 * 10**9), SelfMetrics()
        self.job: Job = build(8)
        self.board = Suspicions()
        self.asked: list[Sequence[Address]] = []
        self.error: RasError | None = None
        add_gpus(proc)
        for rank, peer in enumerate(self.job.peers):
            self.add(peer.pid, rank, library)
        self.source = NcclSource(
            proc,
            "n1",
            self.clock,
            self.metrics,
            suspicions=self.board,
            mode=mode,
            desk=LocalDesk(
                NcclReader(
                    proc,
                    ask=self.answer,
                    read=lambda _: DumpAnswer(refused="a trap"),
                    find=lambda path, root: "2.30.7",
                )
            ),
        )

    def add(self, pid: int, rank: int, library: str) -> None:
        """A rank that listens, as all ranks of a node do."""
        environ = f"SLURM_JOB_ID=71 RANK={rank} WORLD_SIZE=8"
        folder = add_process(
            self.proc,
            pid,
            gpus=(rank,),
            library=library,
            environ=environ,
            started=100,
            user=os.getuid(),
        )
        (folder / "net").mkdir(exist_ok=True)
        (folder / "net/tcp").write_text(HEAD + row("0100007F:6D7C", inode=pid))
        (folder / "fd").mkdir(exist_ok=True)
        (folder / "fd/3").symlink_to(f"socket:[{pid}]")
        (folder / "root/tmp").mkdir(parents=True)

    def answer(self, addresses: Sequence[Address], _: Check = anybody) -> bytes:
        self.asked.append(addresses)
        if self.error is not None:
            raise self.error
        return render_json(self.job, "").encode()

    def suspect(self) -> None:
        """A detector reports a stall."""
        finding = Finding("hang", NODE, "hang/waits", "onset", "record", 5000, 5000, "words")
        self.board.write(
            Observation("nvml", "n1", "b", 0, 0, self.clock.monotonic_ns(), 0), [finding]
        )

    def read(self, after_s: float = 5.0) -> Reading:
        """The next read."""
        self.clock.advance(after_s)
        return self.source.read()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A job at work."""
    made = Bench(tmp_path)
    yield made
    made.source.close()


def reports(reading: Reading) -> list[Report]:
    """The reports of a reading."""
    return [report for report, _ in reports_in(reading.events)]


def value(reading: Reading, name: str) -> float | int | None:
    """One number of the one job."""
    (frame,) = reading.frames
    return frame.value(name, 0)


def test_a_job_is_shown_without_being_asked(bench: Bench) -> None:
    """Its processes, its version and what could be had of it; no socket is touched."""
    reading = bench.read()
    (frame,) = reading.frames
    assert [(d.id, d.attributes["nccl"]) for d in frame.devices] == [("71", "2.30.7")]
    assert (value(reading, "processes"), value(reading, "ras_usable")) == (8, 1)
    assert value(reading, "operations_launched") is None
    for _ in range(50):
        assert bench.read().events == ()
    assert bench.asked == []


def test_a_suspicion_brings_two_reports_fifteen_seconds_apart(bench: Bench) -> None:
    """Within half a minute there is what a verdict needs."""
    bench.job.launch("AllReduce")
    bench.read()
    bench.suspect()
    polls = [reports(bench.read()) for _ in range(7)]
    assert [len(each) for each in polls] == [1, 0, 0, 1, 0, 0, 1]
    (report,) = polls[0]
    assert report.trusted
    assert report.job == "71"
    assert {m.world_rank for m in report.communicators[0].members} == set(range(8))
    assert value(bench.read(), "operations_launched") == 1


def test_a_rank_that_is_behind_is_shown(bench: Bench) -> None:
    """The distance of the last from the first, over all communicators."""
    bench.read()
    bench.job.launch("AllReduce")
    bench.job.launch("AllReduce", without=[bench.job.peers[3]])
    bench.suspect()
    assert value(bench.read(), "operations_behind") == 1


def test_a_process_that_is_gone_is_reason_enough(bench: Bench) -> None:
    """No detector has to report it: the others outlive it."""
    bench.read()
    lost = bench.job.peers[3]
    lost.life = "unresponsive"
    shutil.rmtree(bench.proc / str(lost.pid))
    first = bench.read(SCAN_S)
    assert [e.attributes["rank"] for e in first.events if e.kind == "nccl_process_lost"] == [3]
    (report,) = reports(bench.read())
    assert {m.pid for c in report.communicators for m in c.members if m.gone} == {lost.pid}


def test_a_job_that_ends_is_not_asked(bench: Bench) -> None:
    """Its processes go one after the other."""
    bench.read()
    for peer in bench.job.peers[:5]:
        shutil.rmtree(bench.proc / str(peer.pid))
    bench.read(SCAN_S)
    for peer in bench.job.peers[5:]:
        shutil.rmtree(bench.proc / str(peer.pid))
    assert [e.kind for e in bench.read().events if e.kind == "job_ended"] == ["job_ended"]
    assert bench.asked == []


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        ("/usr/lib/libnccl.so.2.28.9", "version_unsafe"),
        ("/usr/lib/libnccl.so.2.27.3", "version_unsafe"),
    ],
)
def test_a_version_that_is_not_safe_is_never_asked(
    tmp_path: Path, library: str, reason: str
) -> None:
    """Whatever is suspected; the reason is shown."""
    bench = Bench(tmp_path, library=library)
    bench.read()
    bench.suspect()
    for _ in range(10):
        assert reports(bench.read()) == []
    assert bench.asked == []
    assert bench.metrics.value(agent.NCCL_NOT_POLLED, reason) == 1
    bench.source.close()


def test_a_version_is_looked_for_once(tmp_path: Path) -> None:
    """A library without a version in its name is searched, in a child, at the first scan."""
    bench = Bench(tmp_path, library="/venv/libnccl.so.2")
    assert bench.read().frames[0].devices[0].attributes["nccl"] == "2.30.7"
    bench.source.close()


def test_a_server_that_fails_is_counted_and_ends_nothing(bench: Bench) -> None:
    """The job is still shown."""
    bench.read()
    bench.suspect()
    bench.error = RasError("silent", "no answer")
    assert value(bench.read(), "processes") == 8
    assert bench.metrics.value(agent.NCCL_POLLS, "silent") == 1


def test_the_user_who_holds_the_port_of_a_job_is_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """NCCL goes on without RAS then, and says so in a log of its own."""
    stranger = os.getuid() + 1
    for peer in bench.job.peers:
        (bench.proc / str(peer.pid) / "net/tcp").write_text(
            HEAD + row("0100007F:6D7C", user=stranger)
        )
    bench.suspect()
    for _ in range(3):
        bench.read(after_s=61)
    lines = [line for line in caplog.messages if "is held by" in line]
    assert lines == [
        f"no RAS of job 71: port 28028 is held by uid {stranger} (NCCL_RAS_ADDR per job)"
    ]
    assert bench.asked == []


def test_another_job_on_the_same_port_is_not_mistaken_for_ours(bench: Bench) -> None:
    """Its report has none of our pids: ours is asked again, a few times."""
    bench.read()
    bench.suspect()
    ours, bench.job = bench.job, build(8, seed=9)
    assert reports(bench.read()) == []
    assert len(bench.asked) == MAX_TRIES
    bench.job = ours
    assert len(reports(bench.read(20))) == 1


def test_a_report_that_may_be_of_two_jobs_is_of_none(bench: Bench) -> None:
    """Two pods in the host's network, whose processes have the same pids in their namespaces."""
    for rank, peer in enumerate(bench.job.peers):
        folder = add_process(
            bench.proc,
            peer.pid + 50_000,
            gpus=(rank,),
            library=SAFE,
            environ=f"SLURM_JOB_ID=72 RANK={rank} WORLD_SIZE=8",
            started=100,
            user=os.getuid(),
            inner=peer.pid,
        )
        (folder / "root/tmp").mkdir(parents=True)
    bench.read()
    bench.suspect()
    assert reports(bench.read()) == []
    assert bench.metrics.value(agent.NCCL_POLLS, "refused") == 1


def test_a_half_initialised_report_is_reported_as_untrusted(bench: Bench) -> None:
    """Nothing is concluded from it, and it does not become the last one that was trusted."""
    bench.read()
    bench.suspect()
    bench.read()
    bench.job.comms[0].seats[2].left = True
    reading = bench.read(15)
    assert [r.trusted for r in reports(reading)] == [False]
    assert [(u.reason, u.field) for u in reading.unread] == [("untrusted", "ras")]


def test_new_dumps_are_read_and_refusals_reported(bench: Bench) -> None:
    """A dump that is a trap is a reason, not an exception."""
    bench.read()
    path = bench.proc / str(bench.job.peers[2].pid) / "root/tmp/nccl_trace_rank_2"
    path.write_bytes((DUMPS / "fr_gloo_missing_rank2.json").read_bytes())
    wall = bench.clock.time_ns() - 3 * 10**9
    os.utime(path, ns=(wall, wall))
    reading = bench.read(0)
    assert bench.metrics.value(agent.NCCL_DUMPS, "refused") == 1
    assert [(u.reason, u.field) for u in reading.unread] == [("refused", "flight_recorder")]


def test_a_node_without_gpus_costs_a_look_now_and_then(tmp_path: Path) -> None:
    """An empty frame, and no children."""
    source = NcclSource(tmp_path, "n1", FakeClock(), SelfMetrics(), suspicions=Suspicions())
    assert source.read().frames[0].devices == ()


@pytest.mark.slow
def test_a_reported_death_is_reason_enough(tmp_path: Path) -> None:
    """With the event stream switched on, a peer that NCCL calls dead is reported, and its job
    asked.
    """
    bench = Bench(tmp_path)
    with RasServer(lambda: bench.job, bench.clock) as server:
        for peer in bench.job.peers:
            folder = tmp_path / str(peer.pid)
            with (folder / "environ").open("ab") as environ:
                environ.write(f"\0NCCL_RAS_ADDR=localhost:{server.port}".encode())
            (folder / "net/tcp").write_text(
                HEAD + row(f"0100007F:{server.port:04X}", inode=peer.pid)
            )
        source = NcclSource(
            tmp_path, "n1", bench.clock, SelfMetrics(), suspicions=bench.board, monitor=True
        )
        source.read()
        until(lambda: bool(server.listeners), "the server to know its listener")
        server.tell(MonitorEvent("PEER_DEAD", bench.job.peers[2]))
        (change,) = until(lambda: reports(source.read()), "the event")
        bench.clock.advance(6)
        (asked,) = reports(source.read())
        source.close()
    assert [p.pid for p in change.dead] == [bench.job.peers[2].pid]
    assert asked.communicators


def test_a_real_server_is_asked_over_the_network(tmp_path: Path) -> None:
    """The same with the real client and the fake server: discovery finds its port
    in the job's environment.
    """
    bench = Bench(tmp_path)
    with RasServer(lambda: bench.job, bench.clock) as server:
        for peer in bench.job.peers:
            folder = tmp_path / str(peer.pid)
            with (folder / "environ").open("ab") as environ:
                environ.write(f"\0NCCL_RAS_ADDR=localhost:{server.port}".encode())
            (folder / "net/tcp").write_text(
                HEAD + row(f"0100007F:{server.port:04X}", inode=peer.pid)
            )
        source = NcclSource(tmp_path, "n1", bench.clock, SelfMetrics(), suspicions=bench.board)
        source.read()
        bench.suspect()
        bench.clock.advance(5)
        (report,) = reports(source.read())
        source.close()
    assert report.trusted
    assert len(report.communicators[0].members) == 8


def test_pods_of_equal_pids_are_one_job(tmp_path: Path) -> None:
    """Two nodes whose processes have the same pids: the report is ours, and only
    our own ranks are joined.
    """
    bench = Bench(tmp_path)
    peers = list(bench.job.peers)
    there = [replace(peer, host="10.9.9.9") for peer in peers]
    bench.job.peers += there
    bench.job.comms[0].seats += [Seat(peer, peer.gpus[0]) for peer in there]
    for peer in peers:
        (tmp_path / str(peer.pid) / "net/fib_trie").write_text(
            f"  |-- {peer.host}\n     /32 host LOCAL\n"
        )
    bench.read()
    bench.suspect()
    (report,) = reports(bench.read())
    members = report.communicators[0].members
    assert [m.world_rank for m in members if m.host == peers[0].host] == list(range(8))
    assert {m.world_rank for m in members if m.host == "10.9.9.9"} == {-1}
    bench.source.close()


class FakeSettings:
    """Finds nothing wrong, and keeps what it was given."""

    def __init__(self) -> None:
        self.asked: list[KnownJob] = []

    def of(self, job: KnownJob) -> JobSettings:
        self.asked.append(job)
        return JobSettings(len(job.processes), "[]")

    def rest(self) -> None:
        """Nothing to end."""


def test_settings_are_looked_at_by_job_with_versions_that_are_known(tmp_path: Path) -> None:
    """A claim to another user's job is a job apart, as in all other events, and no library is
    searched for the look.
    """
    library = "/venv/libnccl.so.2"
    bench, looks = Bench(tmp_path / "proc", library=library), FakeSettings()
    environ = "SLURM_JOB_ID=71 RANK=0"
    add_process(bench.proc, 9001, gpus=(1,), library=library, environ=environ, user=65_534)
    desk = LocalDesk(NcclReader(bench.proc, find=lambda path, root: "2.30.7"))
    source = NcclSource(
        bench.proc,
        "n1",
        bench.clock,
        bench.metrics,
        suspicions=bench.board,
        mode="off",
        desk=desk,
        settings=looks,
    )
    events: list[Event] = []

    def known() -> bool:
        bench.clock.advance(1.0)
        events.extend(one for one in source.read().events if one.kind == "nccl_settings")
        asked = {(len(job.processes), set(job.versions) == {"2.30.7"}) for job in looks.asked}
        return asked >= {(8, True), (1, True)}

    until(known, "looks at both jobs, whose versions are looked for one after the other")
    assert len({event.attributes["job"] for event in events}) == 2
    assert {event.attributes["ranks"] for event in events} == {1, 8}
    assert {job.who.tenant for job in looks.asked} == {f"user{os.getuid()}", "user65534"}

"""Job logs in a child: what ends it costs one look, and no line is lost or read twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.sources.joblog import files
from collector.sources.joblog import reader as joblog
from collector.sources.joblog.reader import LogReader
from collector.sources.joblog.source import SKIP_NS, JobLogSource
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import LocalDesk, LookLostError, Who
from collector.sources.tenants.limits import LOGS_BYTES
from pipeline.clock import SECOND_NS
from pipeline.nccl.wire import hit_of
from pipeline.observation import Reading
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock

LOST = "srun: error: node07: task {}: Killed\n"


def tasks(reading: Reading) -> list[str]:
    """Tasks that the lines of a reading name."""
    return [hit_of(event).fields["t"] for event in reading.events]


@pytest.mark.slow
def test_a_child_that_dies_goes_on_where_it_was(tmp_path: Path) -> None:
    """Lines that were written while there was none are read by the next; no line twice."""
    metrics, clock = SelfMetrics(), FakeClock(wall_ns=tmp_path.stat().st_mtime_ns)
    reader = ReaderOf("collector.sources.joblog.reader", LOGS_BYTES, (f"{tmp_path}/*.out",))
    desk = ChildDesk("joblog", reader, metrics, Cuts(metrics))
    source = JobLogSource(reader.arguments, "n1", clock, metrics, desk=desk)
    path = tmp_path / "slurm-71.out"
    path.write_text("of before\n")
    assert tasks(source.read()) == []
    found = []
    for step in range(3):
        with path.open("a") as file:
            file.write(LOST.format(step) + LOST.format(10 + step))
        (tmp_path / f"slurm-{100 + step}.out").write_text(LOST.format(20 + step))
        clock.advance(31)
        found.append(sorted(tasks(source.read())))
        assert desk.pid is not None
        os.kill(desk.pid, signal.SIGKILL)
    source.close()
    assert found == [["0", "10", "20"], ["1", "11", "21"], ["12", "2", "22"]]
    assert desk.starts == 3


class Losing(LocalDesk):
    """A desk that loses every look at one file."""

    def __init__(self, reader: LogReader, path: str) -> None:
        super().__init__(reader)
        self._path = path

    def ask(
        self, method: Callable[..., Any], who: Who, deadline_s: float, *a: Any, **k: Any
    ) -> Any:
        """Lost, where the file is not left out."""
        if method is LogReader.look and self._path not in a[1]:
            raise LookLostError("time", "no answer", self._path)
        return super().ask(method, who, deadline_s, *a, **k)


def test_a_file_whose_look_is_lost_is_left_alone_for_an_hour(tmp_path: Path) -> None:
    """The others are read with the next look."""
    clock = FakeClock(wall_ns=tmp_path.stat().st_mtime_ns)
    patterns = [f"{tmp_path}/*.out"]
    desk = Losing(LogReader(patterns), str(tmp_path / "hangs.out"))
    source = JobLogSource(patterns, "n1", clock, SelfMetrics(), desk=desk)
    assert [u.field for u in source.read().unread] == [str(tmp_path / "hangs.out")]
    source.read()
    for name in ("hangs.out", "good.out"):
        (tmp_path / name).write_text(LOST.format(len(name)))
    clock.advance(31)
    assert tasks(source.read()) == ["8"]
    clock.advance(SKIP_NS / SECOND_NS)
    assert [u.reason for u in source.read().unread] == ["job log: look lost: time"]


@pytest.mark.root
def test_files_of_one_user_delay_no_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one read may take is used in rounds of one file of each user."""
    monkeypatch.setattr(joblog, "CHUNK", 1000)
    monkeypatch.setattr(joblog, "MAX_BYTES", 3000)
    reader = LogReader([f"{tmp_path}/*.out"])
    reader.begin((), at_start=False)
    for number in range(20):
        (tmp_path / f"slurm-{number}.out").write_text("x" * 50_000 + "\n" * 5_000)
        os.chown(tmp_path / f"slurm-{number}.out", 65_534, 65_534)
    (tmp_path / "slurm-71.out").write_text(LOST.format(5))
    look = reader.look(tmp_path.stat().st_mtime, (), new_files=True)
    reader.close()
    assert [(each.job, each.hit.fields["t"]) for each in look.hits] == [("71", "5")]
    assert {user for _, user, _ in look.behind} == {"user65534"}


@pytest.mark.root
def test_pods_of_one_namespace_take_no_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a file's, nor a line's: the kubelet writes all of their logs, as root."""
    monkeypatch.setattr(joblog, "MAX_EVENTS", 10)
    monkeypatch.setattr(files, "MAX_FILES", 4)
    monkeypatch.setattr(files, "MAX_KNOWN", 4)

    def write(namespace: str, number: int, lines: str, time_s: int) -> None:
        uid = f"00000000-0000-4000-8000-{number:012}"
        log = tmp_path / f"{namespace}_pod-{number}_{uid}" / "main" / "0.log"
        log.parent.mkdir(parents=True)
        log.write_text(lines)
        os.utime(log, (time_s, time_s))

    reader = LogReader([f"{tmp_path}/*/*/*.log"])
    reader.begin((), at_start=False)
    for number in range(10):
        write("red", number, "".join(map(LOST.format, range(20))), 1001)
    write("blue", 71, LOST.format(99), 1000)
    look = reader.look(1002.0, (), new_files=True)
    reader.close()
    assert "99" in [each.hit.fields["t"] for each in look.hits]
    assert len(look.hits) == 10

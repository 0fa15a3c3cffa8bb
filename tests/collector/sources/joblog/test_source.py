"""Job logs are followed: what is appended is read once, whatever is done to the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.sources.joblog import files
from collector.sources.joblog import reader as joblog
from collector.sources.joblog.files import LiveFile, LiveFiles
from collector.sources.joblog.source import JobLogSource
from pipeline.catalog import agent
from pipeline.nccl.wire import hit_of
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock

LOST = "srun: error: node07: task {}: Killed\n"


class Node:
    """A folder of logs and the source that follows it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.metrics = folder, SelfMetrics()
        self.clock = FakeClock(wall_ns=folder.stat().st_mtime_ns)
        self.source = JobLogSource([f"{folder}/*.out"], "n1", self.clock, self.metrics)

    def write(self, text: str, name: str = "slurm-71.out") -> Path:
        """Append."""
        path = self.folder / name
        with path.open("a") as file:
            file.write(text)
        return path

    def tasks(self) -> list[str]:
        """Tasks that the lines of the next read name; new files are looked for."""
        self.clock.advance(31)
        return [hit_of(event).fields["t"] for event in self.events()]

    def events(self) -> tuple[Event, ...]:
        """Events of the next read."""
        return self.source.read().events


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node without logs, at work."""
    made = Node(tmp_path)
    assert made.tasks() == []
    return made


def test_what_is_appended_is_read_once(node: Node) -> None:
    """A file that appears is read from its beginning, then as it grows."""
    node.write(LOST.format(1))
    assert node.tasks() == ["1"]
    node.write(LOST.format(2))
    assert (node.tasks(), node.tasks()) == (["2"], [])


def test_what_stood_there_before_the_start_is_of_before(tmp_path: Path) -> None:
    """A stall of yesterday in the log is no stall of today; the next line counts."""
    (tmp_path / "a.out").write_text(LOST.format(1))
    node = Node(tmp_path)
    assert node.tasks() == []
    node.write(LOST.format(2), "a.out")
    assert node.tasks() == ["2"]


def test_a_line_counts_when_it_is_whole(node: Node) -> None:
    """A half line waits for its end."""
    line = LOST.format(1)
    node.write(line[:20])
    assert node.tasks() == []
    node.write(line[20:])
    assert node.tasks() == ["1"]


def test_a_rotated_log_is_read_on(node: Node) -> None:
    """The old file's rest, then the new one from its beginning."""
    path = node.write(LOST.format(1))
    node.tasks()
    path.rename(path.with_suffix(".old"))
    node.write(LOST.format(2))
    assert node.tasks() == ["2"]


def test_a_truncated_log_is_read_from_its_beginning(node: Node) -> None:
    """NCCL_DEBUG_FILE is overwritten when a job starts again."""
    path = node.write("x" * 100 + "\n")
    node.tasks()
    path.write_text(LOST.format(3))
    assert node.tasks() == ["3"]


def test_the_job_is_known_by_the_name_of_its_log(node: Node) -> None:
    """As discovery names it."""
    node.write(LOST.format(1))
    node.clock.advance(31)
    (event,) = node.events()
    assert (event.attributes["job"], event.device.kind, event.kind) == ("71", "node", "nccl_line")


def test_a_link_is_not_followed(node: Node, tmp_path: Path) -> None:
    """Anyone may write where jobs do: a link may lead to what the agent alone may read."""
    secret = tmp_path / "secret"
    secret.write_text(LOST.format(9))
    (tmp_path / "slurm-1.out").symlink_to(secret)
    node.clock.advance(31)
    reading = node.source.read()
    assert reading.events == ()
    assert [unread.reason for unread in reading.unread] != []


def test_a_flood_is_bounded_and_counted(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """More signs in one read than are kept are dropped, and that is told."""
    monkeypatch.setattr(joblog, "MAX_EVENTS", 10)
    node.write("".join(LOST.format(n) for n in range(25)))
    assert len(node.tasks()) == 10
    assert node.metrics.value(agent.JOB_LOG_LINES, "dropped") == 15


def test_one_read_takes_no_more_than_its_share(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of a large log is read with the next ticks."""
    monkeypatch.setattr(joblog, "CHUNK", 1000)
    monkeypatch.setattr(joblog, "MAX_BYTES", 3000)
    node.write("".join(LOST.format(n) for n in range(200)))
    first = node.tasks()
    assert 0 < len(first) < 200
    rest = [task for _ in range(10) for task in node.tasks()]
    assert [*first, *rest] == [str(n) for n in range(200)]


def test_logs_that_nobody_writes_to_are_let_go(tmp_path: Path) -> None:
    """A day of silence ends it; so does a name that is gone."""
    path = tmp_path / "a.out"
    path.touch()
    os.utime(path, (1e9, 1e9))
    live = LiveFiles([f"{tmp_path}/*.out"], lambda subject, tenant: None)
    assert live.look(1e9 + 86_399) == [LiveFile(str(path), os.getuid())]
    assert live.look(1e9 + 86_400) == []


DAY_S = 86_400


def test_a_log_that_is_written_again_after_a_day_goes_on(tmp_path: Path) -> None:
    """A server that had nothing to do: what it wrote before is not read again, whether the agent
    ran then or not.
    """
    before = tmp_path / "before.out"
    before.write_text(LOST.format(1))
    os.utime(before, (1e9, 1e9))
    node = Node(tmp_path)
    assert node.tasks() == []
    path = node.write(LOST.format(2))
    assert node.tasks() == ["2"]
    node.clock.advance(DAY_S)
    assert node.tasks() == []
    for number, file in ((3, before), (4, path)):
        node.write(LOST.format(number), file.name)
        now_s = node.clock.time_ns() / 1e9
        os.utime(file, (now_s, now_s))
    assert sorted(node.tasks()) == ["3", "4"]


def test_a_log_that_found_no_place_at_the_start_is_read_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all that were there: it gets a place when it is written to."""
    monkeypatch.setattr(files, "MAX_FILES", 1)
    for number in (1, 2):
        path = tmp_path / f"{number}.out"
        path.write_text(LOST.format(number))
        os.utime(path, (1e9 + number, 1e9 + number))
    node = Node(tmp_path)
    node.clock = FakeClock(wall_ns=(10**9 + 9) * 10**9)
    node.source = JobLogSource([f"{tmp_path}/*.out"], "n1", node.clock, node.metrics)
    assert node.tasks() == []
    path = node.write(LOST.format(3), "1.out")
    os.utime(path, (1e9 + 30, 1e9 + 30))
    assert node.tasks() == ["3"]


def test_a_new_log_of_an_old_name_is_read_from_its_beginning(node: Node) -> None:
    """Names are used again."""
    path = node.write(LOST.format(1))
    assert node.tasks() == ["1"]
    path.unlink()
    assert node.tasks() == []
    node.write(LOST.format(2) + LOST.format(3))
    assert node.tasks() == ["2", "3"]


def test_without_patterns_nothing_is_read(tmp_path: Path) -> None:
    """The source is silent until somebody says where logs are."""
    assert JobLogSource([], "n1", FakeClock(), SelfMetrics()).read().events == ()

"""A job log is the word of the user whose file it is, about that user's jobs, and takes no place of
another user's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.joblog import files
from collector.sources.joblog.files import LiveFiles
from collector.sources.joblog.reader import MAX_EVENTS
from collector.sources.joblog.source import JobLogSource
from collector.sources.joblog.walk import MAX_OF_A_USER
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.job_users import KEPT_S
from collector.sources.tenants.limits import LOGS_BYTES
from pipeline.catalog.agent import TENANT_CUT
from pipeline.clock import SECOND_NS
from pipeline.nccl.wire import hit_of
from tests.tenants.fuse import SilentFileSystem
from tests.tenants.node import ALICE, BOB, HOST, MALLORY, Node

pytestmark = pytest.mark.root

LOST = "srun: error: node07: task {}: Killed\n"
CANCELLED = "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-11-23T22:00:00 ***\n"
NAMES = 120_000  # a list of them is more than the child may have
LOOK_S = 31.0  # new files are looked for


class Logs:
    """The followed folders of a node, and the source, which reads in its child."""

    def __init__(self, node: Node) -> None:
        self.node = node
        patterns = (f"{node.folder}/logs/*.out", f"{node.folder}/home/*/*.out")
        for name in ("logs", "home/alice", "home/mallory"):
            node.file(f"{name}/.keep", b"")
        reader = ReaderOf("collector.sources.joblog.reader", LOGS_BYTES, patterns)
        self.desk = ChildDesk("joblog", reader, node.metrics, node.cuts)
        self.source = JobLogSource(
            patterns,
            HOST,
            node.clock,
            node.metrics,
            desk=self.desk,
            cuts=node.cuts,
            users=node.users,
        )
        self.source.read()

    def write(self, user: int, name: str, text: str) -> Path:
        """A user appends to a file of its own."""
        path = self.node.folder / name
        if not path.exists():
            self.node.file(name, b"", user)
        with path.open("a") as file:
            file.write(text)
        return path

    def read(self) -> list[tuple[str, str]]:
        """Job and text of each line of the next look that means something."""
        self.node.clock.advance(LOOK_S)
        events = self.source.read().events
        return [(str(event.attributes["job"]), hit_of(event).text) for event in events]


@pytest.fixture
def logs(node: Node) -> Iterator[Logs]:
    """Folders without logs. Alice runs job 71."""
    node.start(ALICE, SLURM_JOB_ID="71", SLURM_STEP_ID="0", RANK="0")
    node.read(15)
    made = Logs(node)
    yield made
    made.source.close()


def test_a_log_called_after_another_users_job_says_nothing_about_it(logs: Logs) -> None:
    """Neither that it was cancelled, which would hide its stall, nor that it lost a rank."""
    logs.write(MALLORY, "logs/slurm-71.out", CANCELLED + LOST.format(3))
    logs.write(ALICE, "home/alice/slurm-71.out", LOST.format(5))
    found = logs.read()
    assert {job for job, text in found if "task 5" in text} == {"71"}
    assert {job for job, text in found if "task 5" not in text} == {f"user{MALLORY}"}


def test_a_folder_that_becomes_a_link_makes_no_line_another_users(logs: Logs) -> None:
    """Neither does it take a place of that user's logs: a log is its owner's by the open file."""
    for name in ("logs/slurm-71.out", "home/alice/slurm-71.out"):
        logs.write(ALICE, name, "begun\n")
    mine = logs.write(MALLORY, "home/mallory/slurm-71.out", "begun\n")
    logs.read()
    folder, aside = mine.parent, logs.node.folder / "aside"
    folder.rename(aside)
    folder.symlink_to("alice")
    with (aside / mine.name).open("a") as file:
        file.write(CANCELLED)
    logs.write(ALICE, "home/alice/slurm-71.out", LOST.format(5))
    assert [(job, "task 5" in text) for job, text in logs.read()] == [("71", True)]
    live = LiveFiles([f"{logs.node.folder}/home/*/*.out"], lambda subject, tenant: None)
    live._known = {str(mine): (0.0, MALLORY)}
    assert str(mine) not in {file.path for file in live.look(time.time())}


def test_a_log_without_a_job_is_not_taken_for_the_only_job_of_the_node(logs: Logs) -> None:
    """It is of the only job of its own user, where there is one."""
    logs.write(MALLORY, "logs/train.out", LOST.format(3))
    logs.write(ALICE, "logs/alice.out", LOST.format(5))
    assert {job for job, _ in logs.read()} == {"71", f"user{MALLORY}"}
    logs.node.start(ALICE, SLURM_JOB_ID="72", RANK="0")
    logs.node.read(15)
    logs.write(ALICE, "logs/alice.out", LOST.format(6))
    assert {job for job, _ in logs.read()} == {f"user{ALICE}"}


def test_a_log_is_of_its_job_for_a_while_after_its_end(logs: Logs) -> None:
    """What a launcher says of the end comes last; a job of the same number later is another."""
    logs.node.stop(logs.node.tenants[0])
    logs.node.read(15)
    logs.write(ALICE, "logs/slurm-71.out", LOST.format(1))
    assert {job for job, _ in logs.read()} == {"71"}
    logs.node.clock.advance(KEPT_S)
    logs.write(ALICE, "logs/slurm-71.out", LOST.format(2))
    assert {job for job, _ in logs.read()} == {f"user{ALICE}"}


def test_a_flood_of_lines_that_match_takes_no_place_of_another_users(logs: Logs) -> None:
    """What one read may give is in shares of the users."""
    for number in range(4):
        text = "".join(LOST.format(n) for n in range(MAX_EVENTS))
        logs.write(MALLORY, f"logs/{number}.out", text)
    logs.write(ALICE, "home/alice/slurm-71.out", LOST.format(5))
    assert ("71", LOST.format(5).strip()) in logs.read()


@pytest.mark.slow
def test_a_flood_of_files_hides_no_other_users_log(logs: Logs) -> None:
    """Names are looked at some at a time; who has more files than a share is shown."""
    folder = logs.node.folder / "logs"
    for number in range(NAMES):
        os.mknod(folder / f"{number:0>60}.out")
        os.chown(folder / f"{number:0>60}.out", MALLORY, MALLORY)
    logs.write(ALICE, "home/alice/slurm-71.out", LOST.format(5))
    logs.write(ALICE, "logs/slurm-71.out", LOST.format(6))
    found: list[tuple[str, str]] = []
    for _ in range(2 + NAMES // files.MAX_NAMES):
        found += logs.read()
    assert {text.split(":")[3] for _, text in found} == {" task 5", " task 6"}
    assert logs.node.metrics.value(TENANT_CUT, "", f"user{MALLORY}", "logs")
    assert logs.desk.starts == 1


def test_names_in_a_users_own_folder_are_that_users_own(tmp_path: Path) -> None:
    """Beyond a number they are not looked at: nobody else's can be among them."""
    for user, count in (("mallory", MAX_OF_A_USER + 10), ("alice", 3)):
        (tmp_path / user).mkdir(mode=0o755)
        for number in range(count):
            os.mknod(tmp_path / user / f"{number}.out")
        os.chown(tmp_path / user, MALLORY, MALLORY)
    live = LiveFiles([f"{tmp_path}/*/*.out"], lambda subject, tenant: None)
    now_s = tmp_path.stat().st_mtime
    paths = {file.path for file in live.look(now_s)}
    assert {f"{tmp_path}/alice/{n}.out" for n in range(3)} <= paths


def test_a_file_system_that_a_user_serves_is_not_looked_at(logs: Logs) -> None:
    """It never answers, and says of its files that they are Alice's."""
    folder = logs.node.folder / "home" / "bob"
    folder.mkdir(mode=0o755)
    served = SilentFileSystem(folder, BOB)
    try:
        logs.write(ALICE, "home/alice/slurm-71.out", LOST.format(5))
        assert [job for job, _ in logs.read()] == ["71"]
        assert logs.desk.starts == 1
    finally:
        served.close()


def test_times_of_another_age_are_no_harm(logs: Logs) -> None:
    """The time of a file is its owner's to choose."""
    for name, second in (("a", 1 << 55), ("b", -(1 << 55)), ("c", 1 << 34)):
        path = logs.write(MALLORY, f"logs/{name}.out", LOST.format(9))
        os.utime(path, ns=(second * SECOND_NS, second * SECOND_NS))
    logs.write(ALICE, "home/alice/slurm-71.out", LOST.format(5))
    assert "71" in {job for job, _ in logs.read()}

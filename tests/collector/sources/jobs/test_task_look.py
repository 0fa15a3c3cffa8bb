"""The look at Slurm's tasks: where it is needed, and what is known when one is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.sources.jobs.slurm.look import SKIP_S, Daemons, TaskLook
from collector.sources.jobs.slurm.tasks import AGAIN_S, Tasks
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import LocalDesk, LookLostError, Who
from collector.sources.tenants.limits import TASKS_BYTES
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.jobs.tree import Proc


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """A tree with one task of job 71."""
    made = Proc(tmp_path)
    made.task(10, "71")
    return made


@pytest.fixture
def desk(proc: Proc) -> Iterator[ChildDesk]:
    """A child that reads below it."""
    metrics = SelfMetrics()
    reader = ReaderOf("collector.sources.jobs.slurm.tasks", TASKS_BYTES, (str(proc.root),))
    made = ChildDesk("jobs", reader, metrics, Cuts(metrics))
    yield made
    made.close()


@pytest.mark.slow
def test_a_child_reads_the_same_tasks(proc: Proc, desk: ChildDesk) -> None:
    """As a reader in this process does."""
    here, there = TaskLook(proc.root), TaskLook(proc.root, desk)
    here.look(0.0)
    there.look(0.0)
    assert list(there.all()) == list(here.all()) != []
    assert there.of(10) == here.of(10)


class Losing(LocalDesk):
    """A desk that loses looks at one process."""

    def ask(
        self, method: Callable[..., Any], who: Who, deadline_s: float, *a: Any, **k: Any
    ) -> Any:
        """Lost, where process 11 is there and not left out."""
        if (self.proc.root / "11").exists() and 11 not in a[1]:
            raise LookLostError("time", "no answer", "11")
        return super().ask(method, who, deadline_s, *a, **k)

    proc: Proc


def test_a_process_whose_look_is_lost_is_left_alone_for_an_hour(proc: Proc) -> None:
    """Meanwhile the tasks of the last look are known, and others are looked at."""
    desk = Losing(Tasks(proc.root))
    desk.proc = proc
    look = TaskLook(proc.root, desk)
    look.look(0.0)
    proc.task(11, "72")
    with pytest.raises(LookLostError):
        look.look(1.0)
    assert [task.job for task in look.all()] == ["71"]
    proc.task(12, "73")
    look.look(2.0)
    assert sorted(task.job for task in look.all()) == ["71", "73"]
    with pytest.raises(LookLostError):
        look.look(1.0 + SKIP_S)


def test_a_node_without_slurmstepd_needs_no_look(tmp_path: Path) -> None:
    """Processes are known by the names that the kernel keeps, each looked at once in a while."""
    for pid, name in ((5, "sshd"), (6, "python3")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/comm").write_text(f"{name}\n")
    daemons = Daemons(tmp_path)
    assert not daemons.any(0.0)
    (tmp_path / "5/comm").write_text("slurmstepd\n")
    assert not daemons.any(1.0)
    assert daemons.any(2.0 * AGAIN_S)
    (tmp_path / "7").mkdir()
    (tmp_path / "7/comm").write_text("slurmstepd\n")
    for name in ("5/comm", "7/comm"):
        (tmp_path / name).unlink()
        (tmp_path / name[0]).rmdir()
    assert not daemons.any(2.0 * AGAIN_S + 1)

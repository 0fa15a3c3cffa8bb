"""Jobs that really ran on a real Slurm, read from a real slurmdbd that is away for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.cli.main import main
from history.economics.allocated import by_end
from history.economics.sacct import NodeEvent, Run
from history.economics.slurm import AwayError, read_node_events, read_runs
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from tests.pipeline.store.stored import StoreMaker
from tests.slurm import Slurm, slurm
from tests.wait import until

pytestmark = pytest.mark.integration

# Nobody waits for a node that is away.
MORE = "JobRequeue=1\nMinJobAge=300\n"
SMALL = ("--mem=10", "--ntasks=1", "--gres=gpu:1")
# Shell that waits until the controller knows how the first step ended. A job that ends before that
# keeps no state of the step: on a busy machine the two reports come in either order.
STEP_IS_OVER = "while squeue -h -s $SLURM_JOB_ID.0 | grep -q .; do sleep 0.1; done"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    """Two nodes with 8 GPUs each, and their accounting."""
    with slurm(accounting=True, more=MORE) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def late(cluster: Slurm) -> str:
    """A job that meets its time limit, which takes a minute or two, while the others are tried."""
    job = cluster.submit("sleep 600", *SMALL, "--time=1", "--nodelist=gpu01")
    running(cluster, job)
    return job


@pytest.fixture(autouse=True)
def _asked(cluster: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.environ.items():
        monkeypatch.setenv(name, value)


def now() -> datetime:
    """In UTC, as reports have it."""
    return datetime.now(UTC)


def known(job: str) -> list[Run]:
    """Rows of a job of this hour, by every id that it has."""
    hour = timedelta(hours=1)
    return [run for run in read_runs(now() - hour, now() + hour) if run.job == job]


def ended(job: str, state: str, rows: int = 1) -> Run:
    """The last run of a job, once so many are there and the last has ended in that state."""

    def found() -> Run | None:
        every = known(job)
        last = every[-1] if len(every) == rows else None
        return last if last and last.has_ended and last.state == state else None

    run = until(found, f"job {job} to be {state}: {known(job)}")
    assert run is not None
    return run


def running(cluster: Slurm, job: str) -> None:
    """Wait for its start."""
    until(lambda: cluster.job_state(job) == "RUNNING", f"job {job} to run")


def test_each_kind_of_job_is_read_as_it_ran(cluster: Slurm) -> None:
    """An array, a heterogeneous job, a failure with a step that crashed: each task and part is a
    run with its GPUs and its state; steps are none.
    """
    array = cluster.submit("sleep 1", *SMALL, "--array=0-2")
    parts = cluster.submit("sleep 1", *SMALL, ":", "--mem=10", "--ntasks=1", "--gres=gpu:2")
    crash = cluster.submit(f"srun sh -c 'kill -SEGV $$'; {STEP_IS_OVER}; exit 3", *SMALL)
    tasks = [ended(f"{array}_{task}", "COMPLETED") for task in range(3)]
    assert {run.gpus for run in tasks} == {1}
    assert array in {run.key[1] for run in tasks}  # one task keeps the raw id of the array
    assert [ended(f"{parts}+{part}", "COMPLETED").gpus for part in range(2)] == [1, 2]
    assert ended(crash, "FAILED").exit_code == "3:0"
    until(lambda: known(crash)[0].derived_exit_code == "0:11", "the step's signal")
    assert len(known(crash)) == 1


def test_a_requeued_job_has_two_runs(cluster: Slurm) -> None:
    """Both count: the first used GPUs too."""
    job = cluster.submit("sleep 2", *SMALL, "--requeue")
    running(cluster, job)
    cluster.run("scontrol", "requeue", job)
    until(lambda: len(known(job)) == 2, f"two rows of job {job}")
    cluster.run("scancel", job)  # it would wait for two minutes before it starts again
    assert next(run.state for run in known(job)) == "REQUEUED"
    assert len({run.key for run in known(job)}) == 2


def test_a_node_that_fails_is_down_and_its_job_is_lost(cluster: Slurm) -> None:
    """From the event to its end, with who did it; a drain is none of down."""
    job = cluster.submit("sleep 600", *SMALL, "--nodelist=gpu02", "--no-requeue")
    running(cluster, job)
    cluster.run("scontrol", "update", "nodename=gpu02", "state=down", "reason=fell over")
    lost = ended(job, "NODE_FAIL")
    assert lost.nodes == ("gpu02",)
    cluster.run("scontrol", "update", "nodename=gpu02", "state=resume")
    cluster.run("scontrol", "update", "nodename=gpu01", "state=drain", "reason=tocsin:test")

    def events() -> dict[str, NodeEvent]:
        hour = timedelta(hours=1)
        found = read_node_events(now() - hour, now() + hour)
        return {one.node: one for one in found if one.reason in ("fell over", "tocsin:test")}

    until(lambda: "gpu01" in events() and events()["gpu02"].end_s, "both events")
    cluster.run("scontrol", "update", "nodename=gpu01", "state=resume")
    assert (events()["gpu02"].is_down, events()["gpu01"].is_down) == (True, False)
    lasted = (events()["gpu02"].end_s or 0) - events()["gpu02"].begin_s
    assert 0 <= lasted < 200


def store_of(root: Path, minutes: int) -> list[str]:
    """Minutes of both nodes, all GPUs at work; the options of a report about them. The minute that
    runs is the last: a report is of whole minutes, and the jobs of a test began in this one.
    """
    end_s = int(time.time()) // 60 * 60 + 60
    maker = StoreMaker(root)
    for minute in range(-minutes, 0):
        at = (end_s + 60 * minute) * SECOND_NS
        for host in ("gpu01", "gpu02"):
            gpus = [Device(host, "gpu", f"GPU-{host}-{n}", {"index": str(n)}) for n in range(8)]
            values = {"gpu_utilization_percent": 90, "state": 1}
            frame = frame_of("gpu", [(gpu, values) for gpu in gpus], at, at)
            maker.add(host, at, source="nvml", frames=(frame,))
    maker.close()
    since, ended_at = (datetime.fromtimestamp(s, UTC) for s in (end_s - 60 * minutes, end_s))
    span = ("--since", since.isoformat(), "--until", ended_at.isoformat())
    return ["report", "--storage.path", str(root), *span, "--slurm"]


def test_a_slurmdbd_that_is_away_costs_a_report_its_teams_only(
    cluster: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is said in the report and on stderr; jobs that ran meanwhile come when it is
    back, with their exit codes.
    """
    before = cluster.submit("sleep 1", *SMALL)
    ended(before, "COMPLETED")
    argv = store_of(tmp_path, 10)
    cluster.account(answers=False)
    meanwhile = cluster.submit("exit 7", *SMALL)
    until(lambda: cluster.job_state(meanwhile) == "FAILED", f"job {meanwhile} to end")
    with pytest.raises(AwayError, match=r"sacct exited with 1: .*Connection refused"):
        read_runs(now() - timedelta(days=1), now())
    assert main(argv) == 0
    shown = capsys.readouterr()
    assert "Without Slurm's accounting of jobs from 20" in shown.out
    assert "sacct exited with 1" in shown.out
    assert "Without Slurm's accounting of nodes: sacctmgr exited with 1" in shown.out
    assert "Without Slurm's accounting" in shown.err
    assert "2 nodes, 16 GPUs" in shown.out
    cluster.account(answers=True)
    until(lambda: [run.exit_code for run in known(meanwhile)] == ["7:0"], f"job {meanwhile}")
    assert main(argv) == 0
    shown = capsys.readouterr()
    assert "Without" not in shown.out
    assert "How runs of jobs ended" in shown.out


def test_a_job_past_its_limit_ran_until_it_was_stopped(late: str) -> None:
    """From its start to the limit, and a little more: Slurm checks each half minute."""
    stopped = ended(late, "TIMEOUT")
    assert stopped.begin_s is not None
    assert stopped.end_s is not None
    assert 60 <= stopped.end_s - stopped.begin_s < 200
    assert abs(stopped.end_s - time.time()) < 1800  # UTC: zones are half hours and more away


def test_gpu_hours_are_those_of_the_runs(cluster: Slurm) -> None:
    """By their states, within the time that is asked for."""
    hour = timedelta(hours=1)
    begin, end = now() - hour, now() + hour
    every = read_runs(begin, end)
    sums = by_end(every, begin.timestamp(), end.timestamp())
    lasted = sum(
        run.gpus * ((run.end_s or end.timestamp()) - run.begin_s)
        for run in every
        if run.begin_s is not None
    )
    assert sum(one.gpu_hours for one in sums.values()) == pytest.approx(lasted / 3600)
    assert set(sums) >= {"COMPLETED", "TIMEOUT"}

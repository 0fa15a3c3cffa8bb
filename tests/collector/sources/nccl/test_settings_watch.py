"""Settings of jobs are looked at seldom, only what is new is reported, and no tenant costs another
its look.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Event
from typing import Any

import pytest

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.settings_watch import (
    AGAIN_S,
    EVERY_S,
    SLOW,
    JobSettings,
    KnownJob,
    Round,
    SettingsWatch,
    aside,
)
from collector.sources.tenants.desk import LookLostError, Who
from pipeline.clock import Instant
from pipeline.frame import Device
from tests.wait import PATIENCE_S

NODE, AT = Device("n1", "node", "n1"), Instant(5, 5)
WRONG: list[Any] = [{"level": "wrong"}]


class FakeLooks:
    """What looks find, why the looks at some jobs are lost, and what was asked in which round."""

    def __init__(self) -> None:
        self.problems: list[Any] = WRONG
        self.lost: dict[str, str] = {}
        self.rounds: list[list[str]] = [[]]

    def of(self, job: KnownJob) -> JobSettings:
        self.rounds[-1].append(job.name)
        if reason := self.lost.get(job.name):
            raise LookLostError(reason, "away")
        return JobSettings(len(job.processes), json.dumps(self.problems))

    def rest(self) -> None:
        self.rounds.append([])


def job(name: str, *pids: int, tenant: str = "user7", version: str = "2.27.3") -> KnownJob:
    """A job of these processes."""
    found = tuple(Found(pid, pid, 7, "python", 1.0, name, 0) for pid in pids)
    return KnownJob(name, Who(name, tenant), found, (version,) * len(pids))


def at_once(look: Callable[[], Round]) -> Future[Round]:
    """A round that is over when it has begun."""
    looking: Future[Round] = Future()
    looking.set_result(look())
    return looking


def reported(
    watch: SettingsWatch, now_s: float, jobs: Sequence[KnownJob]
) -> list[tuple[str, list[Any]]]:
    """Job and problems of each event."""
    return [
        (str(event.attributes["job"]), json.loads(str(event.attributes["document"])))
        for event in watch.read(jobs, now_s, AT)
    ]


def test_a_job_is_reported_when_something_else_is_known_of_it() -> None:
    """After ten minutes, or one where processes came, went, or their version became known; a look
    that is lost costs nothing.
    """
    looks = FakeLooks()
    watch = SettingsWatch(looks, NODE, at_once)
    assert reported(watch, 0.0, []) == []
    assert reported(watch, 0.0, [job("71.0", 1, 2, version="")]) == [("71.0", WRONG)]
    assert reported(watch, AGAIN_S - 1, [job("71.0", 1, 2)]) == []
    assert (reported(watch, AGAIN_S, [job("71.0", 1, 2)]), len(looks.rounds)) == ([], 3)
    assert reported(watch, AGAIN_S + EVERY_S - 1, [job("71.0", 1, 2)]) == []
    assert (reported(watch, AGAIN_S + EVERY_S, [job("71.0", 1, 2)]), len(looks.rounds)) == ([], 4)
    assert (reported(watch, 2 * EVERY_S, [job("71.0", 1)]), len(looks.rounds)) == ([], 5)
    looks.lost = {"71.0": "time"}
    assert reported(watch, 3 * EVERY_S, [job("71.0", 1)]) == []
    looks.lost = {}
    assert reported(watch, 4 * EVERY_S, [job("71.0", 1)]) == []
    looks.problems = []
    assert reported(watch, 5 * EVERY_S, [job("71.0", 1)]) == [("71.0", [])]


def test_nobody_waits_for_a_round_that_jobs_make_last() -> None:
    """Reading goes on; what was found comes with a later reading, without the jobs that ended
    meanwhile, and no second round begins.
    """
    looks, over = FakeLooks(), Event()
    begun: list[Future[Round]] = []

    def start(look: Callable[[], Round]) -> Future[Round]:
        def slow() -> Round:
            assert over.wait(PATIENCE_S)
            return look()

        begun.append(aside(slow))
        return begun[-1]

    watch, jobs = SettingsWatch(looks, NODE, start), [job("71.0", 1), job("72.0", 2)]
    assert reported(watch, 0.0, jobs) == reported(watch, 2 * EVERY_S, jobs) == []
    over.set()
    begun[0].result(PATIENCE_S)
    assert reported(watch, 2 * EVERY_S + 1, jobs[:1]) == [("71.0", WRONG)]
    assert len(begun) == 1


@pytest.mark.parametrize("reason", sorted(SLOW))
def test_a_tenant_that_keeps_others_waiting_costs_them_one_look_a_round(reason: str) -> None:
    """Its other jobs come first in the next round, so that one of them does not hide the rest."""
    looks = FakeLooks()
    watch = SettingsWatch(looks, NODE, at_once)
    evil = [job(f"a{number}", number, tenant="user666") for number in range(3)]
    jobs = [*evil, job("z1", 8), job("z2", 9)]
    looks.lost = {"a0": reason}
    assert [name for name, _ in reported(watch, 0.0, jobs)] == ["z1", "z2"]
    assert {name for name, _ in reported(watch, EVERY_S, jobs)} == {"a1", "a2"}
    assert looks.rounds[:2] == [["a0", "z1", "z2"], ["a1", "z1", "a2", "z2", "a0"]]


@pytest.mark.parametrize("reason", ["withheld", "budget", "failed", "stuck"])
def test_a_look_that_kept_nobody_waiting_costs_only_itself(reason: str) -> None:
    """The tenant's other jobs are looked at in the same round."""
    looks = FakeLooks()
    looks.lost = {"a0": reason}
    watch = SettingsWatch(looks, NODE, at_once)
    assert reported(watch, 0.0, [job("a0", 1), job("a1", 2)]) == [("a1", WRONG)]


def test_a_round_that_fails_is_made_again() -> None:
    """An error of the look itself, in the thread, ends nothing but that round."""
    looks = FakeLooks()
    failed: Future[Round] = Future()
    failed.set_exception(RuntimeError("the look failed"))
    first = [failed]
    watch = SettingsWatch(looks, NODE, lambda look: first.pop() if first else at_once(look))
    assert reported(watch, 0.0, [job("71", 1)]) == []
    assert reported(watch, EVERY_S, [job("71", 1)]) == [("71", WRONG)]

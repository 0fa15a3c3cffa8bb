"""Settings of jobs are looked at seldom, and only what is new is reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Event
from typing import Any

from collector.node.trainings import Training, Trainings
from collector.sources.nccl.settings_watch import (
    AGAIN_S,
    EVERY_S,
    MAX_DOCUMENT,
    SettingsWatch,
    Triage,
    aside,
)
from pipeline.clock import Instant
from pipeline.frame import Device
from tests.wait import PATIENCE_S

NODE, AT = Device("n1", "node", "n1"), Instant(5, 5)
POD = "1b9f7c1e-0000-4000-8000-00000000000a"


class Looks:
    """What a look finds, and how many there were."""

    def __init__(self) -> None:
        self.found: Mapping[str, Any] = {"71.0": {"ranks": 2, "problems": [{"level": "wrong"}]}}
        self.count = 0

    def __call__(self) -> Mapping[str, Any]:
        self.count += 1
        if not self.found:
            raise OSError("away")
        return self.found


def at_once(triage: Triage) -> Future[Mapping[str, Any]]:
    """A look that is over when it has begun."""
    looking: Future[Mapping[str, Any]] = Future()
    try:
        looking.set_result(triage())
    except OSError as error:
        looking.set_exception(error)
    return looking


def reported(watch: SettingsWatch, now_s: float, *pids: int) -> list[tuple[str, list[Any]]]:
    """Job and problems of each event."""
    return [
        (str(event.attributes["job"]), json.loads(str(event.attributes["document"])))
        for event in watch.read(frozenset(pids), now_s, AT)
    ]


def test_a_job_is_reported_when_something_else_is_known_of_it() -> None:
    """After ten minutes, or one where processes came or went; a look that fails costs nothing."""
    looks = Looks()
    watch = SettingsWatch(looks, NODE, Trainings(), at_once)
    assert reported(watch, 0.0) == []
    assert reported(watch, 0.0, 1, 2) == [("71.0", [{"level": "wrong"}])]
    assert reported(watch, EVERY_S - 1, 1, 2) == []
    assert reported(watch, EVERY_S, 1, 2) == []
    assert looks.count == 2
    assert reported(watch, EVERY_S + AGAIN_S, 1, 2, 3) == []
    assert looks.count == 3
    looks.found = {}
    assert reported(watch, 3 * EVERY_S, 1) == []
    looks.found = {"71.0": {"ranks": 2, "problems": []}}
    assert reported(watch, 4 * EVERY_S, 1) == [("71.0", [])]


def test_nobody_waits_for_a_look_that_jobs_make_last() -> None:
    """Reading goes on; the look's answer comes with a later reading, and no second one begins."""
    looks, over = Looks(), Event()

    def slow() -> Mapping[str, Any]:
        assert over.wait(PATIENCE_S)
        return looks()

    begun = []

    def start(triage: Triage) -> Future[Mapping[str, Any]]:
        begun.append(aside(triage))
        return begun[-1]

    watch = SettingsWatch(slow, NODE, Trainings(), start)
    assert reported(watch, 0.0, 1) == reported(watch, 2 * EVERY_S, 1) == []
    over.set()
    begun[0].result(PATIENCE_S)
    assert reported(watch, 2 * EVERY_S + 1, 1) == [("71.0", [{"level": "wrong"}])]
    assert len(begun) == 1


def test_a_problem_without_end_hides_no_other() -> None:
    """A job may set a variable to as much as it likes."""
    looks = Looks()
    looks.found = {"71": {"ranks": 1, "problems": [{"why": "x" * MAX_DOCUMENT}, {"why": "y"}]}}
    assert reported(SettingsWatch(looks, NODE, Trainings(), at_once), 0.0, 1) == [
        ("71", [{"why": "y"}])
    ]


def test_a_pod_is_its_training() -> None:
    """As everywhere."""
    trainings, looks = Trainings(), Looks()
    trainings.learn({}, {POD: Training("ml/llm.1a2b", "ml", "llm", "PyTorchJob")})
    looks.found = {f"pod{POD}": {"ranks": 1, "problems": []}}
    watch = SettingsWatch(looks, NODE, trainings, at_once)
    assert reported(watch, 0.0, 1) == [("ml/llm.1a2b", [])]

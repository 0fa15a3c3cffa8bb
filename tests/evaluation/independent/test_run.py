"""A world of another author, judged and scored: its rows, events, jobs and truth arrive as they
were written, and what is wrong with it is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from evaluation.independent import WORLDS
from evaluation.independent.interface import (
    CLASSES,
    Device,
    Event,
    Family,
    Fault,
    Job,
    Rows,
    Tick,
    World,
)
from evaluation.independent.run import run_of
from evaluation.metrics.classes import class_of
from evaluation.runs import run as runs
from evaluation.runs.cost_estimate import seconds_of
from evaluation.runs.run import Job as Asked
from evaluation.runs.truths import plain_truths
from pipeline.observation import Observation
from simulator.fleet import load_scenario, scenario_ids

GPUS = tuple(
    Device(host, "gpu", f"GPU-{host}-{n}", {"index": str(n), "rack": "r1"})
    for host in ("a", "b")
    for n in range(4)
)
BROKEN = GPUS[5]
LOST = Fault("lost", "xid", "page", "gpu", BROKEN.id, 1800.0, 3600.0, 60.0)
PERIOD_S = 30.0


def a_world(columns: Mapping[str, Any] | None = None, **changes: Any) -> World:
    """Two nodes of four GPUs for an hour; one falls off the bus after half of it."""

    def ticks() -> Iterator[Tick]:
        for number in range(1, 121):
            at = number * PERIOD_S
            values = {"power_milliwatts": np.full(8, 3e5), "energy_millijoules": np.full(8, 9 * at)}
            rows = Rows("nvml", "gpu", GPUS, values | dict(columns or {}))
            happened = Event(at - 20, "kmsg", BROKEN, "xid", {"code": 79, "pci": "0:1:0"})
            yield Tick(at, (rows,), (happened,) if at == LOST.since_s + PERIOD_S else ())

    jobs = (Job("7", tuple(gpu.id for gpu in GPUS[2:]), 100.0, 1900.0, outcome="failed"),)
    return replace(World(GPUS, PERIOD_S, 3600.0, ticks, jobs, (LOST,)), **changes)


def family(world: World, cases: int = 1) -> Family:
    """A family of this one world."""
    return Family("two nodes", 2, 1 / 24, cases, lambda _: world)


def read(world: World) -> list[Observation]:
    """What is read in it."""
    return list(run_of("X01", family(world), 1, "test").observations())


def test_rows_become_frames_with_the_same_values() -> None:
    """Gauges and counters stand under their names; null is not observed; counters are whole."""
    watts, joules = np.full(8, 3e5), np.full(8, 12.9)
    watts[3], joules[4] = nan, nan
    frames = [
        frame
        for observation in read(a_world({"power_milliwatts": watts, "energy_millijoules": joules}))
        for frame in observation.frames
    ]
    assert len(frames) == 120
    assert frames[0].devices is GPUS
    assert np.array_equal(frames[0].gauge("power_milliwatts"), watts, equal_nan=True)
    counted, seen = frames[0].counter("energy_millijoules")
    assert counted.tolist() == [12, 12, 12, 12, 0, 12, 12, 12]
    assert seen.tolist() == [True] * 4 + [False] + [True] * 3


def test_jobs_start_and_end_on_each_host_with_their_own_gpus() -> None:
    """A job has two of four GPUs of one host and all of the other."""
    events = [e for o in read(a_world()) if o.source == "jobs" for e in o.events]
    assert [(e.kind, e.device.host, str(e.attributes.get("gpus"))) for e in events][:2] == [
        ("job_started", "a", "GPU-a-2 GPU-a-3"),
        ("job_started", "b", " ".join(gpu.id for gpu in GPUS[4:])),
    ]
    assert [e.attributes["outcome"] for e in events[2:]] == ["failed", "failed"]


def test_the_truth_is_that_of_the_suite() -> None:
    """Peers of the broken GPU are near it, its node contains it."""
    (truth,) = plain_truths(run_of("X01", family(a_world()), 1, "test"))
    assert {entity.id for entity in truth.exact} == {BROKEN.id}
    assert {"b", "7"} <= {entity.id for entity in truth.wider}
    assert {gpu.id for gpu in GPUS} - {BROKEN.id} <= {entity.id for entity in truth.near}
    assert truth.deadline_ns - truth.onset_ns == 60 * 10**9


@pytest.mark.slow
def test_it_is_scored_as_a_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's result has its one case, found in time at fleet horizon and by the agents."""
    monkeypatch.setattr(runs, "WORLDS", {**WORLDS, "X01": family(a_world())})
    asked = Asked("X01", "nominal", 1, "test", (("ours", "fleet"), ("ours", "node")))
    results = runs.run_job(asked)
    assert results["kind"] == "fault"
    for part in results["results"]:
        assert [runs.case_from(case).in_time for case in part["cases"]] == [True], part["scope"]
        assert part["false"] == []


def test_every_registered_world_has_a_price() -> None:
    """Its cost is known before it is made, as the suite needs it; no id is taken twice."""
    assert not set(WORLDS) & set(scenario_ids())
    for name in WORLDS:
        assert seconds_of(Asked(name, "nominal", 1, "test", (("ours", "fleet"),))) > 0


def test_classes_are_those_of_the_suite() -> None:
    """Every class that the suite asks for can be written, and each is one that is scored."""
    asked = {load_scenario(name).verdict.fault for name in scenario_ids() if name[0] == "F"}  # type: ignore[union-attr] # faults have one
    assert asked <= set(CLASSES)
    assert {class_of(word) for word in ("xid", "nvlink/lanes", "ib_ber")} <= set(CLASSES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"faults": (replace(LOST, fault="gremlin"),)}, "'gremlin' is none of"),
        ({"faults": (replace(LOST, entity="GPU-z"),)}, "'GPU-z' is no device"),
        ({"faults": (replace(LOST, until_s=5.0),)}, "ends before it begins"),
        ({"jobs": (Job("7", ("GPU-z",), 1.0, 2.0),)}, "'GPU-z' that is no device"),
        ({"devices": (*GPUS, GPUS[0])}, "two devices have one id"),
    ],
)
def test_what_is_wrong_with_a_world_is_named(changes: dict[str, Any], message: str) -> None:
    """A class, a device, a time or a name that cannot be."""
    with pytest.raises(ValueError, match=message):
        run_of("X01", family(a_world(**changes)), 1, "test")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"power_watts": np.zeros(8)}, "table gpu has no column 'power_watts'"),
        ({"power_milliwatts": np.zeros(3)}, r"gpu.power_milliwatts: \(3,\) values for 8 devices"),
    ],
)
def test_rows_that_fit_no_table_are_refused(columns: dict[str, Any], message: str) -> None:
    """A column that the table does not have, or another number of values than devices."""
    with pytest.raises(ValueError, match=message):
        read(a_world(columns))


def test_an_unknown_kind_of_event_is_refused() -> None:
    """Nobody would ever judge it."""
    ticks = lambda: iter([Tick(30.0, (), (Event(9.0, "kmsg", BROKEN, "xidd"),))])  # noqa: E731
    with pytest.raises(ValueError, match="'xidd' is no kind of event"):
        read(a_world(ticks=ticks))

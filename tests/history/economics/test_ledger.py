"""Each GPU-second has one cause, and known lost hours come out as they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from history.economics.evidence import CAUSES, JobSpan, NodeEvidence, Span
from history.economics.gather import _by_scheduler, _Node
from history.economics.ledger import by, ledger_of
from history.economics.repairs import repairs
from history.economics.sacct import NodeEvent
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.store.query.busy import Busy
from tests.history.economics.quarter import quarter

MINUTE = 60_000
instants = st.integers(-5 * MINUTE, 40 * MINUTE)
spans = st.builds(
    lambda cause, a, b, gpu: Span(cause, min(a, b), max(a, b), gpu, "f"),
    st.sampled_from(("down", "repair", "lost", "stalled")),
    instants,
    instants,
    st.integers(-1, 2),
)
jobs = st.builds(
    lambda a, b, gpus: JobSpan("7", min(a, b), max(a, b), tuple(sorted(gpus)), "ml"),
    instants,
    instants,
    st.sets(st.integers(0, 2), min_size=1),
)
percent = st.sampled_from((0.0, 50.0, -1.0, float("nan")))


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(percent, percent, percent), min_size=1, max_size=30),
    st.lists(spans, max_size=6),
    st.lists(jobs, max_size=4),
)
def test_the_sum_is_wall_time_times_gpus(
    busy: list[tuple[float, float, float]], some: list[Span], owners: list[JobSpan]
) -> None:
    """To the millisecond, whatever overlaps, and at whatever instants."""
    node = NodeEvidence(
        "n1",
        ("a", "b", "c"),
        0,
        MINUTE,
        np.array(busy, np.float32),
        tuple(some),
        tuple(owners),
    )
    assert sum(ledger_of(node).values()) == len(busy) * MINUTE * 3


def node(
    *busy: float, spans: tuple[Span, ...] = (), jobs: tuple[JobSpan, ...] = ()
) -> NodeEvidence:
    """One GPU, a minute each."""
    return NodeEvidence("n1", ("a",), 0, MINUTE, np.array([busy], np.float32).T, spans, jobs)


def causes(one: NodeEvidence) -> dict[str, int]:
    """Seconds by cause."""
    return {cause: ms // 1000 for cause, ms in by(ledger_of(one))[()].items()}


@pytest.mark.parametrize("first", range(len(CAUSES) - 6))
def test_the_first_cause_that_holds_counts(first: int) -> None:
    """A node that is down is not under repair as well."""
    open_ones = tuple(Span(cause, 0, 2 * MINUTE) for cause in CAUSES[first:4])
    assert causes(node(0.0, 0.0, spans=open_ones)) == {CAUSES[first]: 120}


def test_a_gpu_that_works_on_is_not_lost_to_an_open_fault() -> None:
    """A page about a part is no lost time by itself."""
    assert causes(node(90.0, 0.0, spans=(Span("lost", 0, 2 * MINUTE),))) == {"used": 60, "lost": 60}


def test_a_gpu_that_works_on_in_a_drained_node_is_used() -> None:
    """A drain and a cordon wait for the job; maintenance does not."""
    assert [
        causes(node(90.0, 0.0, spans=(Span("repair", 0, 2 * MINUTE, part="node", waits=waits),)))
        for waits in (True, False)
    ] == [{"used": 60, "repair": 60}, {"repair": 120}]


@pytest.mark.parametrize(
    ("state", "waits"),
    [("DRAIN", True), ("IDLE+DRAIN", True), ("DOWN*+DRAIN", False), ("MAINT+DRAIN", False)],
)
def test_which_of_a_schedulers_words_wait_for_a_job(state: str, waits: bool) -> None:
    """A node that is down or in maintenance runs none of ours."""
    event = NodeEvent("n1", 0.0, 60.0, state, "x", "root(0)")
    (span,) = _by_scheduler([event], "n1", MINUTE)
    assert span.waits is waits


@pytest.mark.parametrize(
    ("user", "waits"), [("kubernetes", True), ("slurm", False), ("ada", False)]
)
def test_a_cordon_that_the_agent_saw_waits_for_jobs(user: str, waits: bool) -> None:
    """It takes the node out of service as people's maintenance does, and evicts nobody."""
    started = Event(0, 0, Device("n1", "node", ""), "maintenance_started", {"user": user})
    one = Busy("n1", ("a",), 0, np.full((1, 1), 90.0, np.float32), ())
    (span,) = _Node(one, [started], {}).out_of_service()
    assert span.waits is waits


def test_a_repair_waits_for_jobs_until_its_first_act() -> None:
    """What makes a GPU busy afterwards is the burn-in check."""
    steps = ("drained", 0), ("reset", 1), ("burning_in", 1), ("returned", 1)
    device = Device("n1", "gpu", "a")
    events = [
        Event(at * MINUTE * 10**6, 0, device, "repair_step", {"step": s, "attempt": n})
        for at, (s, n) in enumerate(steps)
    ]
    one = Busy("n1", ("a",), 0, np.full((4, 1), 90.0, np.float32), ())
    spans = tuple(_Node(one, events, {}).repairs())
    assert [span.waits for span in spans] == [True, False, False]
    assert causes(node(90.0, 90.0, 90.0, 90.0, spans=spans)) == {"used": 120, "repair": 120}
    (whole,) = repairs([node(90.0, 90.0, 90.0, 90.0, spans=spans)])
    assert whole.took.hours == pytest.approx(0.05)


def test_a_spinning_gpu_of_a_stalled_job_is_stalled() -> None:
    """NCCL waits at full utilisation."""
    assert causes(node(100.0, spans=(Span("stalled", 30_000, 60_000),))) == {
        "used": 30,
        "stalled": 30,
    }


def test_pauses_of_a_job_are_start_up_checkpoints_and_idleness() -> None:
    """Before the first work, between work for less than half an hour, and for longer."""
    busy = [0.0] * 3 + [90.0] * 5 + [0.0] * 4 + [90.0] + [0.0] * 40 + [90.0]
    job = JobSpan("7", 0, len(busy) * MINUTE, (0,), "ml")
    assert causes(node(*busy, jobs=(job,))) == {
        "start_up": 180,
        "used": 7 * 60,
        "checkpoint": 240,
        "idle": 2400,
    }
    assert "checkpoint" not in causes(node(*busy))


@pytest.mark.slow
def test_a_quarter_of_64_nodes_gives_its_lost_hours() -> None:
    """Each cause within five percent of what is known, and all of them in one sum."""
    truth: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for one in quarter(64):
        truth.update(one.truth)
        found.update(by(ledger_of(one.evidence()))[()])
    assert sum(found.values()) == sum(truth.values())
    for cause in CAUSES[:-1]:
        assert found[cause] == pytest.approx(truth[cause], rel=0.05), cause
    assert found["unknown"] / sum(found.values()) < 0.003  # the minutes that were not read

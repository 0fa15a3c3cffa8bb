"""Detectors run over a fleet: together or host by host, restarted or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from detectors.incidents import Incidents
from detectors.kit.snapshot import State
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.metrics.scope import ByHost
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device, frame_of
from pipeline.observation import Event, Observation, Unread
from tests.detectors.hot import Hot

HOSTS = ("n1", "n2", "n3")


def gpu(host: str, slot: int = 0) -> Device:
    """A GPU of a host."""
    return Device(host, "gpu", f"GPU-{host}-{slot}")


def fleet(
    *rows: tuple[Device, float], at_s: int = 0, energy: int = 0, events: tuple[Event, ...] = ()
) -> Observation:
    """One reading of these GPUs' temperatures, and the same energy from all."""
    values = [
        (device, {"temperature_celsius": value, "energy_millijoules": energy})
        for device, value in rows
    ]
    frame = frame_of("gpu", values, at_s * SECOND_NS, at_s * SECOND_NS)
    return Observation(
        "nvml",
        "fleet",
        "boot",
        at_s,
        at_s * SECOND_NS,
        at_s * SECOND_NS,
        0,
        (frame,),
        events,
        (Unread("lost", gpu("n2").id, ""),),
    )


def day(seconds: int = 60) -> Iterator[Observation]:
    """n1 is hot from 20 to 39 s, n2 from 28 s on, n3 never."""
    for t in range(seconds):
        heat = {"n1": 20 <= t < 40, "n2": t >= 28, "n3": False}
        yield fleet(
            *((gpu(host), 90.0 if heat[host] else 50.0) for host in HOSTS), at_s=t, energy=1000 * t
        )


def test_a_host_sees_its_own_rows_only() -> None:
    """Rows that lie together and rows that do not, values, counters and identities: each
    host gets exactly its own.
    """
    mixed = fleet(
        (gpu("n1"), 1.0), (gpu("n2"), 2.0), (gpu("n1", 1), 3.0), (gpu("n3"), 4.0), energy=5
    )
    parts = dict(ByHost().split(mixed))
    assert {h: p.frames[0].gauge("temperature_celsius").tolist() for h, p in parts.items()} == {
        "n1": [1.0, 3.0],
        "n2": [2.0],
        "n3": [4.0],
    }
    assert parts["n1"].frames[0].devices == (gpu("n1"), gpu("n1", 1))
    assert parts["n1"].frames[0].counter("energy_millijoules")[0].tolist() == [5, 5]
    assert [p.host for p in parts.values()] == list(parts)


def test_events_and_what_was_not_read_go_to_their_host() -> None:
    """An event of n2 is n2's alone, one of a host without frames makes
    an observation of its own.
    """
    event, other = (
        Event(0, 0, Device(host, "node", host), "clock_step", {"seconds": 1.0})
        for host in ("n2", "n9")
    )
    parts = dict(ByHost().split(fleet((gpu("n1"), 1.0), (gpu("n2"), 2.0), events=(event, other))))
    assert {h: p.events for h, p in parts.items()} == {"n1": (), "n2": (event,), "n9": (other,)}
    assert {h: len(p.unread) for h, p in parts.items()} == {"n1": 0, "n2": 1, "n9": 0}


def test_a_device_that_comes_is_seen() -> None:
    """The cut is made again when the fleet's devices change."""
    cut = ByHost()
    list(cut.split(fleet((gpu("n1"), 1.0))))
    assert [host for host, _ in cut.split(fleet((gpu("n1"), 1.0), (gpu("n2"), 2.0)))] == [
        "n1",
        "n2",
    ]


def test_a_detector_that_needs_no_peers_has_the_same_findings_in_both_scopes() -> None:
    """Findings of each host alone are those of the fleet, and both are right: n1 at 22
    s until 40 s, n2 at 30 s.
    """
    both = [Candidate(scope, scope, Panel(lambda: [Hot()], scope)) for scope in ("node", "fleet")]
    judge(day(), both, {"nvml": 1.0})
    found = [
        [(f.device.host, f.phase, f.time_ns // SECOND_NS) for f in candidate.findings]
        for candidate in both
    ]
    assert found[0] == found[1] == [("n1", "onset", 22), ("n2", "onset", 30), ("n1", "cleared", 40)]


class Sums:
    """Keeps the increments it was shown."""

    name = "sums"

    def __init__(self, seen: list[list[float]]) -> None:
        self.seen = seen

    def update(self, observation: Observation) -> tuple[()]:
        self.seen.append(observation.frames[0].increase("energy_millijoules").tolist())
        return ()


def test_increments_are_made_before_anybody_looks() -> None:
    """A thousand millijoules a second on every GPU, none in the first frame, host by host."""
    seen: list[list[float]] = []
    judge(day(3), [Candidate("c", "node", Panel(lambda: [Sums(seen)], "node"))], {"nvml": 1.0})
    assert np.array_equal(np.array(seen), ([[np.nan]] + [[1000.0]] * 2) * 3, equal_nan=True)


def test_a_restarted_detector_that_remembers_is_not_noticed() -> None:
    """Restarted at 29 s, when n2 has been hot for one reading: the page at
    30 s comes all the same.
    """
    candidate = Candidate("c", "fleet", Panel(lambda: [Hot()], "fleet"))
    judge(day(), [candidate], {"nvml": 1.0}, restart_at_ns=29 * SECOND_NS)
    assert candidate.twin is not None
    assert candidate.differences == []
    assert candidate.panel.forgetful() == ()


class Forgets(Hot):
    """Loses its count of hot readings in a restart."""

    def state(self) -> State:
        state = dict(super().state())
        return state | {"run": np.zeros_like(state["run"])}


def test_a_restarted_detector_that_forgets_is_noticed() -> None:
    """n2's page comes two seconds late, n1 never clears: the differences
    say in which observations.
    """
    candidate = Candidate("c", "fleet", Panel(lambda: [Forgets()], "fleet"))
    judge(day(), [candidate], {"nvml": 1.0}, restart_at_ns=29 * SECOND_NS)
    assert [line.split(" of ")[0] for line in candidate.differences][:1] == ["observation 30"]


def test_a_detector_without_memory_is_named() -> None:
    """Equal findings by luck are no restart equivalence."""
    assert Panel(lambda: [Sums([])], "fleet").forgetful() == ("sums",)


def test_what_is_only_recorded_counts_though_it_opens_no_incident() -> None:
    """Congestion is a record: it counts as found, and what an incident holds
    already is not reported twice.
    """
    record = Finding("d", gpu("n1"), "f", "onset", "record", 0, 0, "s")
    page, held = (
        replace(record, device=gpu("n2"), severity="page"),
        replace(record, device=gpu("n3")),
    )
    incident = Incident("i", gpu("n2"), "f", "page", "NONE", 0, (page.id, held.id), "s")
    alerts = Panel(lambda: [Hot()], "fleet", Incidents).alerts(
        [record, page, held], [(0, incident)]
    )
    assert [(alert.root.id, alert.severity) for alert in alerts] == [
        (gpu("n2").id, "page"),
        (gpu("n1").id, "record"),
    ]


def test_agents_that_restart_go_on_with_a_complete_saved_state() -> None:
    """Restarted at 30 s, when n1 is hot: with a complete state it is reported once; without, it is
    again, as a new agent would.
    """
    onsets = {}
    for saved in ("whole", "damaged"):
        one = Candidate("hot", "fleet", Panel(lambda: [Hot()], "fleet"))
        judge(day(), [one], {"nvml": 1.0}, restarts=[(30 * SECOND_NS, saved)])
        onsets[saved] = sum(f.phase == "onset" and f.device.host == "n1" for f in one.findings)
    assert onsets == {"whole": 1, "damaged": 2}


class KeepsJobs:
    """Keeps the events of jobs."""

    name = "keeps-jobs"

    def __init__(self, makes: list[list[str]]) -> None:
        self.jobs: list[str] = []
        makes.append(self.jobs)

    def update(self, observation: Observation) -> tuple[()]:
        self.jobs += [f"{event.attributes['job']} {event.kind}" for event in observation.events]
        return ()


def test_agents_that_restart_find_the_jobs_that_run() -> None:
    """A source of jobs that starts reports those it finds, and not those that are over."""

    def jobs() -> Iterator[Observation]:
        changes = {5: ("a", "job_started"), 6: ("b", "job_started"), 20: ("a", "job_ended")}
        for t in range(40):
            events = (
                [
                    Event(
                        t * SECOND_NS,
                        0,
                        Device("n1", "node", "n1"),
                        changes[t][1],
                        {"job": changes[t][0]},
                    )
                ]
                if t in changes
                else []
            )
            yield fleet((gpu("n1"), 50.0), at_s=t, events=tuple(events))

    kept: list[list[str]] = []
    one = Candidate("keeps-jobs", "fleet", Panel(lambda: [KeepsJobs(kept)], "fleet"))
    judge(jobs(), [one], {"nvml": 1.0}, restarts=[(30 * SECOND_NS, "damaged")])
    assert kept == [["a job_started", "b job_started", "a job_ended"], ["b job_started"]]


def test_a_twin_judges_no_longer_than_was_asked_for() -> None:
    """Restarted at 35 s, one that forgets reports all heat again at 37 s:
    it is not compared by then.
    """
    differences = {}
    for compare_s in (2, 10):
        one = Candidate("hot", "fleet", Panel(lambda: [Forgets()], "fleet"))
        judge(
            day(),
            [one],
            {"nvml": 1.0},
            restart_at_ns=35 * SECOND_NS,
            compare_ns=compare_s * SECOND_NS,
        )
        assert one.compared
        differences[compare_s] = len(one.differences)
    assert differences[2] == 0 < differences[10]

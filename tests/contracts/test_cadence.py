"""What each detector says that it needs is enough: the same faults are found in the slow readings
of a site's exporters, and nothing is claimed there that is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache

import pytest

from detectors import DETECTORS, PAGES
from detectors.incidents import Incidents
from pipeline.catalog import KINDS, fields_of
from pipeline.clock import SystemClock
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from simulator.fleet import Run, load_scenario, render
from tests.history.simulated_site import as_exported, exported

pytestmark = pytest.mark.slow

NATIVE_S = 10.0  # the step of the scored suite
SOURCES = {"kmsg", "nccl", "dcgm-exporter"}
AS_EXPORTED = {f"{column.kind}.{column.name}" for column in exported().values()} | {"gpu.state"}


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_needs_what_exists(name: str) -> None:
    """Columns of the catalogue, sources that are read, and a time between readings."""
    needs = PAGES[name].needs
    known = {f"{kind}.{field.name}" for kind in KINDS for field in fields_of(kind)}
    assert {column for group in needs.columns for column in group} <= known
    assert set(needs.sources) <= SOURCES
    for part in needs.parts:
        assert part.columns or part.sources
        assert set(part.columns) <= known
        assert set(part.sources) <= SOURCES
    assert not list(needs.unseen(known, SOURCES))
    assert needs.columns or needs.sources
    assert 1.0 <= needs.every_s <= 60.0
    everything = list(needs.lacking(known, SOURCES, 1.0))
    assert not everything
    assert list(needs.lacking((), (), 3600.0))


def judgeable(step_s: float) -> list[str]:
    """Detectors that dcgm-exporter's default fields and node_exporter's ports can feed."""
    sources = {"dcgm-exporter"}
    return [n for n, p in PAGES.items() if not [*p.needs.lacking(AS_EXPORTED, sources, step_s)]]


def findings(
    observations: Iterable[Observation], names: Collection[str], step_s: float
) -> Iterator[Finding]:
    """What these detectors alert on."""
    sources = ("nvml", "infiniband", "host", "kmsg", "jobs", "dcgm-exporter", "node_exporter")
    judge = Judge(
        [make() for name, make in DETECTORS.items() if name in names],
        SelfMetrics(),
        SystemClock(),
        periods_s=dict.fromkeys(sources, step_s),
        fusion=Incidents(),
    )
    for observation in observations:
        for finding in judge.judge(observation).findings:
            assert finding.fault != "detector_failed", finding.summary
            if finding.phase == "onset" and finding.severity != "record":
                yield finding


@cache
def run(scenario: str, step_s: float) -> Run:
    """Half a day of eight nodes."""
    return render(load_scenario(scenario), 4711, step_s=step_s, days=0.5, nodes=8)


def found(made: Run, alerts: Iterable[Finding]) -> list[bool]:
    """Which truths had an alert of their node while they lasted."""
    seen = list(alerts)
    return [
        any(
            alert.device.host in {one.host for one in truth.members} | _host(truth.entity)
            and truth.onset_ns <= alert.time_ns <= truth.end_ns + 3600 * 10**9
            for alert in seen
        )
        for truth in made.truth
    ]


def _host(entity: Device | str) -> set[str]:
    return {entity.host} if isinstance(entity, Device) else set()


@pytest.mark.parametrize(
    ("scenario", "name", "step_s"), [("F16", "straggler", 60.0), ("F27", "ib_rail", 30.0)]
)
def test_the_same_faults_are_found_natively_and_in_slow_readings(
    scenario: str, name: str, step_s: float
) -> None:
    """With all columns at 10 s, and as exporters show them; others are in benchmarks/coarse."""
    native = run(scenario, NATIVE_S)
    assert native.truth
    assert all(found(native, findings(native.observations(), (name,), NATIVE_S)))
    assert name in judgeable(step_s)
    coarse = run(scenario, step_s)
    shown = map(as_exported, coarse.observations())
    assert all(found(coarse, findings(shown, (name,), step_s)))


def test_no_detector_claims_anything_of_a_healthy_fleet_at_a_minute() -> None:
    """None that says it can judge such readings."""
    made = render(load_scenario("H00"), 12, step_s=60.0, days=0.25, nodes=8)
    names = judgeable(60.0)
    assert {"xid", "ecc", "availability", "straggler", "ib_ber"} < set(names)
    shown = map(as_exported, made.observations())
    assert not [one.summary for one in findings(shown, names, 60.0)]

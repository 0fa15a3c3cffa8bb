"""A detector that fails over many nodes costs itself only; what is known of nodes can be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import pytest

from detectors import DETECTORS, all_detectors
from detectors.incidents import Incidents
from detectors.kit.snapshot import dump, load
from detectors.node_horizon import NodeHorizon
from detectors.paging import in_service
from pipeline.finding import Finding
from pipeline.guard import Guard
from pipeline.interfaces import Detector
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.contracts.horizon.sides import Said, by_count, take
from tests.contracts.horizon.world import noisy
from tests.fakes import FakeClock

PERIODS = dict.fromkeys(("nvml", "infiniband", "host", "kmsg"), 30.0)
TICKS, FROM, UNTIL = 6, 5, 12  # batches in which the detector fails, of some twenty


class Broken:
    """A detector's update that raises after its work where a node is in sight, for a while."""

    def __init__(self, update: Callable[[Observation], Iterable[Finding]], host: str) -> None:
        self._update, self._host, self.now = update, host, False

    def __call__(self, observation: Observation) -> list[Finding]:
        found = list(self._update(observation))
        hosts = observation.nodes.names if observation.nodes else (observation.host,)
        if self.now and self._host in hosts:
            raise ZeroDivisionError(observation.source)
        return found


def judged(names: Sequence[str], broken: str = "") -> dict[str, list[Finding]]:
    """What is found by host, where one detector fails for a while at readings of n1."""
    failing: list[Broken] = []

    def make() -> list[Detector]:
        made = [DETECTORS[name]() for name in names]
        for detector in made:
            if detector.name == broken:
                failing.append(Broken(detector.update, "n1"))
                setattr(detector, "update", failing[-1])  # noqa: B010 - mypy: a method is replaced
        return made

    judge = NodeHorizon(make, None, PERIODS, guard=Guard(SelfMetrics(), FakeClock()))
    found: dict[str, list[Finding]] = {}
    for number, batch in enumerate(by_count(noisy(2, ticks=TICKS, seed=3))):
        for one in failing:
            one.now = FROM <= number < UNTIL
        for said in judge.judge(batch):
            found.setdefault(said.observation.host, []).extend(said.findings)
    return found


def without(found: dict[str, list[Finding]], *names: str) -> dict[str, list[str]]:
    """What the others say."""
    return {h: [repr(f) for f in one if f.detector not in names] for h, one in found.items()}


@pytest.fixture(scope="module")
def healthy() -> dict[str, list[Finding]]:
    """What all detectors find where none fails."""
    return judged(list(DETECTORS))


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_that_raises_costs_itself_only(
    name: str, healthy: dict[str, list[Finding]]
) -> None:
    """The others say the same, the failure is reported of its node and ends; of the other node it
    is over as soon as that is judged by itself.
    """
    other = next(n for n in DETECTORS if n != name)
    found = judged([name, other], name)
    others = set(DETECTORS) - {other}
    assert without(found, name, "engine") == without(healthy, *others)
    failed = {h: [f for f in one if f.fault == "detector_failed"] for h, one in found.items()}
    phases = [(f.device.host, f.phase) for f in failed["n1"]]
    assert phases
    assert set(phases) == {("n1", "onset"), ("n1", "cleared")}
    later = islice(by_count(noisy(2, ticks=TICKS, seed=3)), UNTIL, None)
    for source in {one.source for batch in later for one in batch if one.host == "n1"}:
        of_source = [f for f in failed["n1"] if f"readings of {source}:" in f.summary]
        assert len(of_source) % 2 == 0
    first = {f.onset_ns for f in failed["n0"]}
    for onset_ns in first:
        ends = [f.time_ns for f in failed["n0"] if f.phase == "cleared" and f.onset_ns == onset_ns]
        assert ends
        assert min(ends) <= max(f.time_ns for f in failed["n1"] if f.phase == "cleared")


@pytest.mark.slow
def test_what_a_joined_judge_knows_of_its_nodes_can_be_kept() -> None:
    """One with the saved memory of another goes on like it."""
    batches = list(islice(by_count(noisy(3, ticks=16, seed=7)), 60))
    half = len(batches) // 2

    def new() -> NodeHorizon:
        return NodeHorizon(all_detectors, Incidents, PERIODS)

    first, second = new(), new()
    for batch in batches[:half]:
        first.judge(batch)
    assert load(dump([first]), [second]) == ()
    said: tuple[Said, Said] = ({}, {})
    for batch in batches[half:]:
        for judge, into in zip((first, second), said, strict=True):
            for one in judge.judge(batch):
                take(into, one)
    assert sum(map(len, said[0].values())) > 100
    assert said[0] == said[1]


@pytest.mark.slow
def test_detectors_in_shadow_mode_find_records() -> None:
    """As the agent's: of nodes judged together too, whatever the device."""
    judge, plain = (
        NodeHorizon(make, None, PERIODS)
        for make in (lambda: in_service(disabled=("all",)), all_detectors)
    )
    severities = set()
    for batch in islice(by_count(noisy(2, ticks=TICKS, seed=3)), 12):
        for shadowed, shown in zip(judge.judge(batch), plain.judge(batch), strict=True):
            assert [f.id for f in shadowed.findings] == [f.id for f in shown.findings]
            severities |= {f.severity for f in shadowed.findings}
    assert severities == {"record"}

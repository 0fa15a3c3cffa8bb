"""What every registered detector promises, whatever it looks for and however it is set: a new one
is held to this before its author writes a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from detectors import DETECTORS, all_detectors
from detectors.drift import Drift
from detectors.faults import FAULTS
from detectors.kit.findings import RANK
from detectors.kit.snapshot import Snapshotable, SnapshotError, dump, load
from detectors.outlier import Outlier
from detectors.paging import in_service
from detectors.power_limit import PowerLimit
from pipeline.finding import SEVERITIES, Finding
from pipeline.frame import Device, Frame, blank, frame_of, schema_of
from pipeline.interfaces import Detector
from pipeline.observation import Observation
from pipeline.rates import Rates
from pipeline.xid import table as xid
from simulator.fleet import load_scenario, render
from tests.contracts.noise import PERIOD_S, Noise

pytestmark = pytest.mark.slow

TICKS = 400
OWN_TABLE = "xid, in shadow mode, by a site's own table"
# Every switch that a detector has, turned; in shadow mode it is wrapped, whichever it is.
SWITCHED: dict[str, Callable[[], Detector]] = {
    "drift, declared": lambda: Drift({"gpu.driver_version": healthy_driver()}),
    "power_limit, declared": lambda: PowerLimit({"gpu.power_limit": "500"}),
    "outlier, early and loose": lambda: Outlier(warm_ns=0, tail=0.05),
    OWN_TABLE: lambda: in_service(["xid"], disabled=["xid"])[0],
}
MAKERS = {**DETECTORS, **SWITCHED}
ALL = sorted(MAKERS)
# These judge single readings. Trends, peers and jobs need longer and saner lives: tests of each,
# and scoring, restart them mid-finding.
FACTS = {
    "availability",
    "ecc",
    "ib_adapter",
    "ib_errors",
    "ib_link",
    "ib_saturation",
    "nvlink",
    "pcie",
    "power_limit",
    "throttle",
    "xid",
}
each = pytest.mark.parametrize("name", ALL, indirect=True)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A detector and how it is set; a site's own table of XIDs is in force while it is asked."""
    if request.param == OWN_TABLE:
        file: Path = request.getfixturevalue("tmp_path") / "mine.csv"
        file.write_text(
            f"{xid.HEADER}\n"
            "31,MMU,ours,RESET_GPU,hw-reset,page,call,\n"
            "9999,NEW,new,RESET_GPU,hw-reset,ticket,none,\n"
        )
        xid.use(file)
    yield request.param
    xid.use(None)


@cache
def noise(seed: int = 1, ticks: int = TICKS) -> tuple[Observation, ...]:
    """Anything may happen."""
    return tuple(Noise(seed).observations(ticks))


def contents(observations: Iterable[Observation]) -> Iterator[bytes]:
    """All arrays that a detector is shown, bit for bit."""
    for frame in (frame for observation in observations for frame in observation.frames):
        yield frame.gauges.tobytes()
        yield frame.counters.tobytes()
        if frame.increments is not None:
            yield frame.increments.delta.tobytes()


@cache
def untouched() -> list[bytes]:
    """What is in a short stream before any detector has seen it."""
    return list(contents(Noise(3).observations(60)))


@cache
def healthy(hours: float = 4.0) -> tuple[Observation, ...]:
    """Two nodes that work as they should, with increments."""
    return with_rates(render(load_scenario("H00"), 11, days=hours / 24, nodes=2).observations())


def healthy_driver() -> str:
    """The driver that those two nodes have."""
    return next(
        f.devices[0].attributes["driver_version"]
        for o in healthy()
        for f in o.frames
        if f.kind == "gpu"
    )


def said(detector: Detector, observations: Iterable[Observation]) -> list[Finding]:
    """Everything it says."""
    return [finding for observation in observations for finding in detector.update(observation)]


def words(findings: Iterable[Finding]) -> list[str]:
    """Findings as text, so that numbers that are not known are equal; attributes of
    devices may change under way.
    """
    return [
        repr(replace(finding, device=Device(*identity(finding.device)))) for finding in findings
    ]


class Life(NamedTuple):
    """What a detector said of each observation of a wild stream, also in words; what it remembered
    every hundred ticks, in bytes; itself at the end.
    """

    findings: tuple[tuple[Finding, ...], ...]
    words: tuple[list[str], ...]
    sizes: tuple[int, ...]
    detector: Detector

    @property
    def all(self) -> list[Finding]:
        """Everything it said."""
        return [finding for findings in self.findings for finding in findings]


@cache
def lived(name: str) -> Life:
    """A life in which anything happens, for all tests that look at one. Asked by tests that have
    ``name``: the table of XIDs belongs to it.
    """
    detector, findings, sizes = MAKERS[name](), [], []
    for number, observation in enumerate(noise()):
        findings.append(tuple(detector.update(observation)))
        if number % 400 == 399:
            sizes.append(size_of(detector))
    return Life(tuple(findings), tuple(map(words, findings)), tuple(sizes), detector)


def identity(device: Device) -> tuple[str, str, str]:
    """What makes it this device."""
    return device.host, device.kind, device.id


def replaced(observations: Sequence[Observation]) -> Iterator[Observation]:
    """The same again, later, with other GPUs and adapters in all slots."""
    hours = round(PERIOD_S * 1e9) * len(observations)

    def other(device: Device) -> Device:
        return (
            replace(device, id=f"new {device.id}") if device.kind in ("gpu", "ib_port") else device
        )

    for o in observations:
        frames = tuple(
            replace(
                f,
                time_ns=f.time_ns + hours,
                mono_ns=f.mono_ns + hours,
                devices=tuple(map(other, f.devices)),
            )
            for f in o.frames
        )
        yield replace(
            o,
            boot_id=observations[-1].boot_id,
            time_ns=o.time_ns + hours,
            mono_ns=o.mono_ns + hours,
            frames=frames,
            events=(),
        )


def alarms(findings: Iterable[Finding]) -> list[Finding]:
    """Those that somebody is told of."""
    return [finding for finding in findings if finding.severity != "record"]


def with_rates(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """The same with increments made from what is in them."""
    rates: dict[tuple[str, str], Rates] = {}
    return tuple(
        replace(
            o,
            frames=tuple(
                rates.setdefault((o.source, f.kind), Rates(f.schema, 10.0)).add(f, o.boot_id)
                for f in o.frames
            ),
        )
        for o in observations
    )


# Streams are made once for all detectors: making one costs more than judging it.
@cache
def unobserved() -> tuple[Observation, ...]:
    """The devices and times of healthy life, nothing read and no events."""

    def empty(f: Frame) -> Frame:
        return Frame(
            f.schema, f.time_ns, f.mono_ns, f.devices, *blank(f.kind, f.devices), f.sampled_ns
        )

    return with_rates(replace(o, frames=tuple(map(empty, o.frames)), events=()) for o in healthy())


@cache
def with_gaps() -> tuple[Observation, ...]:
    """Healthy life of which the first quarter of every hour is missing."""
    return with_rates(o for o in healthy() if o.mono_ns // 10**9 % 3600 > 900)


@cache
def coming_and_going() -> tuple[Observation, ...]:
    """Healthy life in which every other half hour shows half of the devices only."""
    halves: dict[tuple[str, int], tuple[object, ...]] = {}

    def half(frame: Frame, which: int) -> Frame:
        own = halves.setdefault((frame.kind, which), tuple(frame.devices[which::2]))
        parts = (
            frame.gauges[:, which::2],
            frame.counters[:, which::2],
            frame.observed[:, which::2],
            frame.sampled_ns[which::2],
        )
        return Frame(frame.schema, frame.time_ns, frame.mono_ns, own, *parts)  # type: ignore[arg-type] # devices, by their rows

    def shown() -> Iterator[Observation]:
        for o in healthy():
            phase = o.mono_ns // 10**9 // 1800 % 4
            frames = o.frames if phase % 2 == 0 else tuple(half(f, phase // 2) for f in o.frames)
            yield replace(o, frames=frames)

    return with_rates(shown())


def size_of(detector: Detector) -> int:
    """Bytes that it remembers."""
    assert isinstance(detector, Snapshotable)
    return sum(np.asarray(array).nbytes for array in detector.state().values())


@each
def test_it_is_registered_under_its_name_and_every_instance_is_new(name: str) -> None:
    """What one agent's detector learns is not known to another."""
    first, second = MAKERS[name](), MAKERS[name]()
    assert first.name == second.name == name.partition(",")[0]
    assert first is not second
    said(first, noise()[400:800])
    assert words(said(second, noise()[:400])) == [*chain(*lived(name).words[:400])]


@each
def test_it_survives_anything_and_says_it_well(name: str) -> None:
    """No input makes it raise; every finding is whole, as the table of faults has it, and lives
    from its onset to its end.
    """
    standing: dict[str, Finding] = {}
    for finding in lived(name).all:
        assert finding.detector == name.partition(",")[0]
        assert finding.severity in SEVERITIES
        row = FAULTS[finding.fault]
        assert finding.detector in row.detectors
        assert RANK[finding.severity] <= RANK[row.severity]
        assert finding.action in row.actions
        assert finding.device.kind
        assert finding.device.id
        assert finding.onset_ns <= finding.time_ns or finding.phase != "onset", (
            "begins in the future"
        )
        assert finding.summary.endswith(".")
        assert finding.evidence or finding.severity == "record", "no evidence"
        assert all(type(number) is float for number in (finding.value, finding.expected))
        if finding.phase == "onset":
            assert finding.id not in standing, "told twice"
            standing[finding.id] = finding
        else:
            assert finding.id in standing, f"{finding.phase} without an onset"
            assert finding.fault == standing[finding.id].fault
            if finding.phase == "cleared":
                del standing[finding.id]


@each
def test_the_same_observations_give_the_same_findings(name: str) -> None:
    """No clock, no chance: live and replayed are equal."""
    assert words(said(MAKERS[name](), noise())) == words(lived(name).all)


@each
def test_it_leaves_its_input_alone(name: str) -> None:
    """Other detectors and the store see the same arrays after it."""
    said(MAKERS[name](), noise(3, 60))
    assert list(contents(noise(3, 60))) == untouched()


@each
def test_healthy_life_is_silent(name: str) -> None:
    """Four hours of two nodes at work: nobody is told anything."""
    assert alarms(said(MAKERS[name](), healthy())) == []


@each
def test_what_is_not_observed_is_no_fault(name: str) -> None:
    """Devices are listed and nothing of them can be read."""
    assert alarms(said(MAKERS[name](), unobserved())) == []


@each
def test_an_observation_of_nothing_is_silent(name: str) -> None:
    """A source that failed, a frame without devices, a kind that is not its own."""
    detector = MAKERS[name]()
    empty = [frame_of(kind, [], 0, 0) for kind in ("gpu", "nvlink", "ib_port", "node")]
    rates = [Rates(schema_of(f.kind), 1.0).add(f) for f in empty]
    for frames in ((), tuple(rates)):
        assert (
            list(
                detector.update(
                    Observation("nvml", "n", "b", 0, 0, 0, 0, frames, outcome="failed", error="no")
                )
            )
            == []
        )


@each
def test_gaps_are_silent(name: str) -> None:
    """The collector is away for a quarter of an hour in every hour."""
    assert alarms(said(MAKERS[name](), with_gaps())) == []


@each
def test_readings_that_come_twice_or_late_are_survived(name: str) -> None:
    """Each observation twice, and the one before it after it; nobody is
    told of a fault for that.
    """
    stream = healthy()[: len(healthy()) // 6]
    mixed = (late for before, now in pairwise(stream) for late in (now, now, before))
    assert alarms(said(MAKERS[name](), mixed)) == []


@each
def test_devices_that_come_and_go_are_silent(name: str) -> None:
    """Every other half hour the frames hold half of the devices only."""
    assert alarms(said(MAKERS[name](), coming_and_going())) == []


@each
def test_what_stands_about_a_part_leaves_with_it(name: str) -> None:
    """A GPU or an adapter that was replaced is not paged about for ever: another one sits in its
    slot (users' case: conditions orphaned by a swap).
    """
    detector, standing = deepcopy(lived(name).detector), {}
    for finding in lived(name).all:
        standing[finding.id] = finding
    for finding in said(detector, replaced(noise()[-60:])):
        standing[finding.id] = finding
    about = [f for f in standing.values() if f.active and f.device.kind in ("gpu", "ib_port")]
    assert [(f.fault, f.device.id) for f in about if not f.device.id.startswith("new ")] == []


@each
def test_it_goes_on_after_a_restart_as_if_there_had_been_none(name: str) -> None:
    """Kept and restored at many points of a wild stream, each time into a new instance."""
    detector = MAKERS[name]()
    for number, observation in enumerate(noise()):
        if number % 97 == 0:
            detector, kept = MAKERS[name](), dump([detector])
            assert load(kept, [detector]) == ()
        assert words(detector.update(observation)) == lived(name).words[number], (
            f"observation {number}"
        )


@each
def test_a_snapshot_of_something_else_leaves_it_cold_and_well(name: str) -> None:
    """Damaged, cut short, or of another detector: refused, and it works on."""
    full, fresh = MAKERS[name](), MAKERS[name]()
    said(full, noise()[:200])
    state = dict(full.state())  # type: ignore[attr-defined] # it remembers
    for key in state:
        wrong = {**state, key: np.array(["no"])}
        with pytest.raises((ValueError, KeyError, IndexError, TypeError)):
            fresh.restore(wrong)  # type: ignore[attr-defined]
        without = {k: v for k, v in state.items() if k != key}
        with pytest.raises((ValueError, KeyError, IndexError, TypeError)):
            fresh.restore(without)  # type: ignore[attr-defined]
    assert words(said(fresh, noise()[:200])) == [*chain(*lived(name).words[:200])]


@each
def test_memory_is_bounded(name: str) -> None:
    """Ten times as long a life with the same devices does not need more than
    what its windows may hold.
    """
    sizes = lived(name).sizes
    assert sizes[-1] < 2 * sizes[0] + 200_000


def test_every_detector_remembers() -> None:
    """A restarted agent judges like one that never stopped."""
    assert [name for name in ALL if not isinstance(MAKERS[name](), Snapshotable)] == []


def test_a_damaged_snapshot_is_refused_as_a_whole() -> None:
    """Cut short at any of several places."""
    data = dump(all_detectors())
    for cut in (0, 10, len(data) // 2, len(data) - 5):
        with pytest.raises(SnapshotError):
            load(data[:cut], all_detectors())


def test_the_stream_is_as_wild_as_it_is_meant_to_be() -> None:
    """Detectors of facts, and those whose switch makes them look, find something in it; otherwise
    these tests would test little.
    """
    loud = {
        name
        for name in ALL
        if (said(MAKERS[name](), noise()) if name == OWN_TABLE else lived(name).all)
    }
    assert loud >= FACTS | SWITCHED.keys() - {"outlier, early and loose"}
    assert PERIOD_S * TICKS > 3 * 3600

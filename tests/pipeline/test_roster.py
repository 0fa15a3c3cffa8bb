"""The roster: each host's values at its rows, and rows that stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.arrival import Arrival
from pipeline.bus.batch import Batch, Decoder, encode
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, frame_of
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation, Unread
from pipeline.roster import Roster

NOW_NS = 1_800_000_000 * SECOND_NS


def seen(host: str, *watts: float, at_s: float = 0.0) -> Observation:
    """An observation of a host's GPUs."""
    gpus = [
        (Device(host, "gpu", f"{host}-{n}"), {"power_milliwatts": each, "energy_millijoules": n})
        for n, each in enumerate(watts)
    ]
    time_ns = NOW_NS + round(at_s * SECOND_NS)
    return Observation("nvml", host, "b", 0, time_ns, 7, 0, (frame_of("gpu", gpus, time_ns, 7),))


def test_hosts_stand_one_after_the_other_with_their_values() -> None:
    """At the latest of their times."""
    joined = Roster().join([seen("a", 1, 2), seen("b", 3, at_s=0.5)])
    (frame,) = joined.frames
    assert [d.id for d in frame.devices] == ["a-0", "a-1", "b-0"]
    assert frame.gauge("power_milliwatts").tolist() == [1, 2, 3]
    assert frame.counter("energy_millijoules")[0].tolist() == [0, 1, 0]
    assert joined.time_ns == frame.time_ns == NOW_NS + SECOND_NS // 2


def test_a_host_that_is_late_keeps_its_rows() -> None:
    """With nothing observed in them; the tuple of devices stays the same object."""
    roster = Roster()
    (before,) = roster.join([seen("a", 1), seen("b", 2)]).frames
    (frame,) = roster.join([seen("b", 4, at_s=1)]).frames
    assert frame.devices is before.devices
    assert np.isnan(frame.gauge("power_milliwatts")).tolist() == [True, False]
    assert frame.counter("energy_millijoules")[1].tolist() == [False, True]


def test_who_came_first_makes_no_difference() -> None:
    """Rows, events and what was not read are in the order of the hosts' names."""

    def spoke(host: str) -> Observation:
        device = Device(host, "node", host)
        return replace(
            seen(host, 1),
            events=(Event(NOW_NS, 0, device, "booted"),),
            unread=(Unread("late", host),),
        )

    hosts = [spoke(name) for name in ("a", "b", "c", "d")]
    rosters = Roster(), Roster()
    one = [rosters[0].join(hosts[:1]), rosters[0].join(hosts)][-1]
    other = [rosters[1].join([hosts[3], hosts[1]]), rosters[1].join(hosts[::-1])][-1]
    assert [[d.id for d in frame.devices] for frame in other.frames] == [
        ["a-0", "b-0", "c-0", "d-0"]
    ]
    assert [frame.devices for frame in one.frames] == [frame.devices for frame in other.frames]
    assert [e.device.host for e in one.events] == [e.device.host for e in other.events]
    assert one.unread == other.unread


def test_a_host_that_is_forgotten_loses_its_rows() -> None:
    """And one whose devices changed has the new ones."""
    roster = Roster()
    roster.join([seen("a", 1), seen("b", 2)])
    roster.forget(["a"])
    (frame,) = roster.join([seen("b", 2, 3)]).frames
    assert [d.id for d in frame.devices] == ["b-0", "b-1"]


def test_nothing_stays_of_a_source_whose_last_host_is_forgotten() -> None:
    """A host names its sources as it likes; what others send stays."""
    roster = Roster()
    for number in range(100):
        roster.join([replace(seen("a", 1), source=f"s{number}")])
    roster.join([seen("b", 2)])
    roster.forget(["a"])
    assert [*roster._rows] == [*roster._rooms] == [("nvml", "gpu")]
    (frame,) = roster.join([replace(seen("a", 3), source="s0")]).frames
    assert frame.gauge("power_milliwatts").tolist() == [3]


def test_an_attribute_that_changes_is_taken_over() -> None:
    """A driver's version, an epoch: detectors read them from the joined frame."""
    roster, first = Roster(), seen("a", 1)
    roster.join([first])
    (frame,) = first.frames
    named = tuple(Device(d.host, d.kind, d.id, {"epoch": "2"}) for d in frame.devices)
    (joined,) = roster.join([replace(first, frames=(replace(frame, devices=named),))]).frames
    assert [d.attributes.get("epoch") for d in joined.devices] == ["2"]


def test_each_row_says_when_its_host_was_read_before() -> None:
    """By the host's own clock; nothing where it is not read now, 0 for the first of a boot; a
    restart of the gateway changes nothing.
    """
    roster = Roster()

    def passed(*observations: Observation) -> list[float]:
        (frame,) = roster.join(observations).frames
        assert frame.passed_s is not None
        return list(map(float, frame.passed_s))

    def at(host: str, mono_s: float, boot: str = "b") -> Observation:
        one = seen(host, 1, at_s=mono_s)
        (frame,) = one.frames
        return replace(
            one, boot_id=boot, frames=(replace(frame, mono_ns=round(mono_s * SECOND_NS)),)
        )

    assert passed(at("a", 1), at("b", 1)) == [0, 0]
    assert str(passed(at("a", 2))) == "[1.0, nan]"
    state, roster = roster.state(), Roster()
    roster.resume(state)
    assert passed(at("a", 3), at("b", 16)) == [1, 15]
    assert passed(at("a", 4), at("b", 5, "another")) == [1, 0]


def test_time_never_goes_back() -> None:
    """For durations: a corrected clock may."""
    roster = Roster()
    times = [roster.join([seen("a", 1, at_s=s)]).mono_ns for s in (5, 1, 6)]
    assert times == sorted(set(times))


def test_blocks_of_other_columns_are_joined_as_their_frames_are() -> None:
    """Hosts of two models, one between two of the other, and one that does not observe all."""
    sent = [
        seen("a", 1, 2),
        with_columns("b", {"temperature_celsius": 40.5}, {"temperature_celsius": None}),
        seen("c", 3),
        with_columns("d", {"energy_millijoules": 7}, {"energy_millijoules": None}),
    ]
    arrived = [arrival(one) for one in sent]
    assert isinstance(arrived[0], Arrival)
    (frame,), (other,) = Roster().join(arrived).frames, Roster().join(sent).frames
    assert frame == other


def with_columns(host: str, *values: dict[str, float | None]) -> Observation:
    """An observation of GPUs with these columns."""
    gpus = [(Device(host, "gpu", f"{host}-{n}"), each) for n, each in enumerate(values)]
    frame = frame_of("gpu", gpus, NOW_NS, 7)
    return Observation("nvml", host, "b", 0, NOW_NS, 7, 0, (frame,))


def arrival(one: Observation) -> Arrival:
    """As it arrives at a gateway."""
    raw = encode(Batch(one.host, "s", 0, -1, one.time_ns, (JudgedObservation(one),)))
    return Decoder().decode(raw).arrivals[0]


def test_a_frame_that_is_held_keeps_its_values() -> None:
    """Arrays are used again, but only those that nobody sees, not even by a column."""
    roster = Roster()
    columns = []
    for second in range(6):
        (frame,) = roster.join([seen("a", second), seen("b", 7, at_s=second)]).frames
        columns.append((frame.gauge("power_milliwatts"), frame.sampled_ns))
        del frame
    assert [column[0] for column, _ in columns] == [*range(6)]


def test_arrays_that_nobody_holds_are_used_again_with_nothing_in_them() -> None:
    """Nor what another host or another column had there."""
    roster = Roster()
    (frame,) = roster.join([seen("a", 1), seen("b", 2)]).frames
    its = id(frame.gauges.base)
    del frame
    gpu = Device("b", "gpu", "b-0")
    times_ns = (NOW_NS + SECOND_NS, 7)
    other = frame_of("gpu", [(gpu, {"temperature_celsius": 40.0})], *times_ns)
    (frame,) = roster.join([Observation("nvml", "b", "b", 0, *times_ns, 0, (other,))]).frames
    assert id(frame.gauges.base) == its
    assert np.isnan(frame.gauge("power_milliwatts")).all()
    assert frame.counter("energy_millijoules")[1].tolist() == [False, False]
    assert np.isnan(frame.gauge("temperature_celsius")).tolist() == [True, False]

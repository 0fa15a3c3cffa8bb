"""Faults of links: counters of both ends, states, kernel lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.frame import Device
from simulator.fleet import Truth, load_scenario, render
from simulator.fleet.faults.error_counters import COUNTED
from simulator.links import HEALTHY_BER
from tests.scenarios.traces import Floats, rendered, trace, traces

pytestmark = pytest.mark.slow

ERRORS, TWIN = "symbol_errors", "symbol_errors_extended"
EIGHTH = "nvlink_fec_8_codewords"


def gained(column: Floats) -> float:
    """What a counter gained over all its readings."""
    seen = column[~np.isnan(column)]
    return float(seen[-1] - seen[0])


def peer(truth: Truth, devices: tuple[Device, ...]) -> Device:
    """The other end of a link."""
    assert isinstance(truth.entity, Device)
    return next(device for device in devices if device.id == truth.entity.attributes["peer"])


def test_f19_both_ends_ramp() -> None:
    """F19: both ends' symbol errors follow the ramp, by the fabric's signalling rate; the register
    of 16 bits ends at 65535.
    """
    run = rendered("F19", days=1.0, magnitude=12.0, step_s=60)
    assert run.truth
    shown = trace(run, "ib_port", ERRORS, TWIN)
    wire = run.topology.profile.ports.signalling_gigabits_per_second * 1e9
    for truth in run.truth:
        evident = shown.at(truth.evident_ns)
        hours = 12.0
        # Integral of an exponential ramp from 1e-16 to 1e-13, which takes three fifths of it.
        expected = wire * HEALTHY_BER * 3600 * hours * (10**3 - 1) / (5 * np.log(10))
        for end in (truth.entity, peer(truth, shown.devices)):
            column = shown.column(end, ERRORS)
            assert gained(column[shown.at(truth.onset_ns) : evident]) == pytest.approx(
                expected, rel=0.5
            )
            assert np.nanmax(column) <= 65535
    assert np.nanmax(shown.values[ERRORS]) == 65535


def test_f21_one_end_only() -> None:
    """F21: the blamed end receives thousands of errors, the other one none to speak of."""
    run = rendered("F21", days=1.0, magnitude=6.0, step_s=60)
    shown = trace(run, "ib_port", ERRORS)
    hosts = set()
    for truth in run.truth:
        until = shown.at(truth.end_ns)
        assert gained(shown.column(truth.entity, ERRORS)[:until]) > 1000
        assert gained(shown.column(peer(truth, shown.devices), ERRORS)[:until]) < 10
        hosts.add(truth.entity.host.partition("-")[0])  # type: ignore[union-attr] # a port
    assert hosts == {"node", "leaf"}


def test_f22_the_reading_that_shows_it_arrives() -> None:
    """F22: where most readings are lost, the first after each onset is not: a deadline of one
    reading is one of those that arrive.
    """
    scenario = load_scenario("F22")
    run = render(
        replace(scenario, world=replace(scenario.world, loss=0.8)), 1, nodes=16, days=0.2, step_s=60
    )
    shown = trace(run, "ib_port", ERRORS)
    firsts = [shown.column(truth.entity, ERRORS)[shown.at(truth.onset_ns)] for truth in run.truth]
    assert len(firsts) >= 6
    assert not np.isnan(firsts).any()
    assert np.isnan(shown.values[ERRORS]).mean() > 0.5


def test_f20_both_ends_count() -> None:
    """F20: each flap shows as down for at least 25 s, then active; both ends count it; evidence is
    the third within six hours.
    """
    run = rendered("F20", days=2.5)
    shown = trace(run, "ib_port", "state", "link_downed")
    for truth in run.truth:
        if truth.severity == "record":
            continue
        state, onset, end = (
            shown.column(truth.entity, "state"),
            shown.at(truth.onset_ns),
            shown.at(truth.end_ns) + 2,
        )
        state = state[onset - 1 : end]
        downs = np.flatnonzero(np.diff((state[~np.isnan(state)] == 1).astype(int)) == 1)
        counts = [
            gained(shown.column(each, "link_downed")[onset - 20 : end])
            for each in (truth.entity, peer(truth, shown.devices))
        ]
        assert counts[0] == counts[1] >= 3
        assert counts[0] == pytest.approx(len(downs), abs=1)  # a reading may be lost
        reported = shown.reported(
            truth, "link_down", truth.entity if isinstance(truth.entity, Device) else None
        )
        assert len(reported) == counts[0]
        if truth.severity == "page":
            assert (truth.evident_ns - reported[0].time_ns) / 3.6e12 < 24


def test_f22_full() -> None:
    """F22: the counter reaches the end of its register at the onset and stays there; nobody
    answers for a 64-bit twin.
    """
    run = rendered("F22")
    shown = trace(run, "ib_port", ERRORS, "link_downed", TWIN)
    assert np.isnan(shown.values[TWIN]).all()
    for truth in run.truth:
        tops = []
        for name, top in ((ERRORS, 65535), ("link_downed", 255)):
            before, after = shown.during(truth, truth.entity, name)
            if np.nanmax(after) == top:
                tops.append(name)
                assert top - 20 < np.nanmin(before[1:]) < top
                assert np.nanmin(after) == top
        assert len(tops) == 1


def test_f23_lanes_and_links() -> None:
    """F23: half the lanes at half the rate, or an NVLink less with XID 74."""
    run = rendered("F23", step_s=60, nodes=16, days=1.0)
    ports, gpus = traces(run, ib_port=("width_lanes", "rate_bits_per_second"), gpu=("nvlinks_up",))
    assert {truth.fault for truth in run.truth} == {"ib", "nvlink"}
    for truth in run.truth:
        if truth.fault == "ib":
            _, width = ports.during(truth, truth.entity, "width_lanes")
            assert set(width[~np.isnan(width)]) == {2.0}
            assert np.nanmax(ports.during(truth, truth.entity, "rate_bits_per_second")[1]) == 200e9
        else:
            _, up = gpus.during(truth, truth.entity, "nvlinks_up")
            assert set(up[~np.isnan(up)]) == {17.0}
            assert gpus.reported(truth, "xid", truth.entity)[0].attributes["code"] == 74


def test_f48_tails_grow_and_those_of_h51_do_not() -> None:
    """F48: from the first to the second day after the onset the eighth bin gains ten times as much
    and more; H51: of a GPU whose links are well it is as full in the last day as in the first, but
    for tides, noise and steps.
    """
    run = rendered("F48", step_s=60, days=3.0)
    gpus, day = trace(run, "gpu", EIGHTH), 1440
    assert run.truth
    for truth in run.truth:
        column, onset = gpus.column(truth.entity, EIGHTH), gpus.at(truth.onset_ns)
        first, second = (gained(column[onset + d * 600 : onset + d * 600 + 120]) for d in (0, 3))
        assert second > 10 * max(first, 1), truth.id
    calm = trace(rendered("H51", step_s=60, nodes=4, days=4.0), "gpu", EIGHTH)
    columns = [calm.column(device, EIGHTH) for device in calm.devices]
    change = [gained(x[-day:]) / max(gained(x[:day]), 1) for x in columns]
    assert 0.2 < np.median(change) < 5
    assert max(gained(x) for x in columns) > 0


def test_f49_one_counter_gains_at_one_port() -> None:
    """F49: each counter of the list gains at the port of one case, and at no healthy one; as many
    as drawn.
    """
    run = rendered("F49", step_s=60, magnitude=20.0)
    shown = trace(run, "ib_port", *COUNTED)
    moved = set()
    for truth in run.truth:
        span = slice(shown.at(truth.onset_ns) - 5, shown.at(truth.end_ns))
        gains = {name: shown.column(truth.entity, name)[span] for name in COUNTED}
        (name,) = (name for name, column in gains.items() if gained(column) > 0)
        minutes = (truth.end_ns - truth.onset_ns) / 60e9
        full = np.nanmax(gains[name]) in (15, 255, 65535)
        expected = 20.0 * COUNTED[name] * minutes
        assert full or gained(gains[name]) == pytest.approx(expected, rel=0.5), name
        moved.add(name)
    assert len(moved) >= len(COUNTED) - 2  # a case may find no room
    well = [d for d in shown.devices if d not in {truth.entity for truth in run.truth}]
    assert all(gained(shown.column(device, name)) == 0 for device in well for name in COUNTED)


def test_f24_waits_without_errors() -> None:
    """F24: the ports of one leaf switch gain wait ticks many times faster than the
    others', and nobody sees errors.
    """
    run = rendered("F24", nodes=16, days=1.0)
    shown = trace(run, "ib_port", "transmit_wait_ticks", ERRORS)
    truth = run.truth[0]
    rows = np.array([device in truth.members for device in shown.devices])
    onset, end = shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1
    rise = np.nanmax(shown.values["transmit_wait_ticks"][onset:end], axis=0) - np.nanmin(
        shown.values["transmit_wait_ticks"][onset:end], axis=0
    )
    assert rows.sum() == 32
    assert np.median(rise[rows]) > 20 * np.max(rise[~rows])
    errors = np.nanmax(shown.values[ERRORS], axis=0)
    assert errors[rows].mean() < 2 * errors[~rows].mean() + 1


def test_f28_adapter_dies() -> None:
    """F28: a line of mlx5_core within the tick, the port down, and in two of three cases absent
    with nothing else to read.
    """
    run = rendered("F28", nodes=16, days=1.0)
    shown = trace(run, "ib_port", "state", "receive_words")
    for truth in run.truth:
        assert shown.reported(truth, "hca_health", truth.entity)
        _, state = shown.during(truth, truth.entity, "state")
        state = state[2:-2]
        assert set(state[~np.isnan(state)]) in ({1.0}, {16.0})
        if np.nanmax(state) == 16:
            assert np.isnan(shown.during(truth, truth.entity, "receive_words")[1][2:-2]).all()
    assert {np.nanmax(shown.during(t, t.entity, "state")[1][2:-2]) for t in run.truth} == {
        1.0,
        16.0,
    }

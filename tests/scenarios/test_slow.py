"""Faults that slow a job down: clocks, rails, PCIe."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.frame import Device
from simulator.fleet import Truth
from tests.scenarios.traces import Floats, Trace, rendered, trace

pytestmark = pytest.mark.slow

CLOCK = "sm_clock_megahertz"


def against_peers(shown: Trace, truth: Truth, name: str, entity: Device) -> Floats:
    """A field of a device over the median of its job's others."""
    job = shown.run.topology.job_at(entity.host, max(truth.evident_ns, truth.onset_ns) + 10**9)
    assert job is not None
    peers = [
        d for d in shown.devices if d.host in {f"node-{n:04d}" for n in job.nodes} and d != entity
    ]
    return np.asarray(
        shown.column(entity, name)
        / np.nanmedian([shown.column(peer, name) for peer in peers], axis=0)
    )


def test_f16_clock_falls_silently() -> None:
    """F16: the clock falls by the magnitude against the job's other GPUs, and
    no slowdown counter moves.
    """
    run = rendered("F16", nodes=16, days=1.0, magnitude=0.2)
    reasons = (
        "throttled_sw_thermal_nanoseconds",
        "throttled_hw_thermal_nanoseconds",
        "throttled_hw_power_brake_nanoseconds",
    )
    shown = trace(run, "gpu", CLOCK, *reasons)
    assert len(run.truth) > 4
    for truth in run.truth:
        assert isinstance(truth.entity, Device)
        relative, onset = against_peers(shown, truth, CLOCK, truth.entity), shown.at(truth.onset_ns)
        after = relative[onset + 1 : onset + 60]
        assert np.nanmedian(after) / np.nanmedian(relative[onset - 180 : onset]) == pytest.approx(
            0.8, abs=0.03
        )
        for reason in reasons:
            assert np.nanmax(shown.column(truth.entity, reason)) == 0


def test_f17_comes_and_goes() -> None:
    """F17: for a sixth of the time the clock is low by the magnitude, in
    excursions of about two minutes.
    """
    run = rendered("F17", nodes=32, days=1.0, magnitude=0.3)
    shown = trace(run, "gpu", CLOCK)
    truth = run.truth[0]
    assert isinstance(truth.entity, Device)
    relative = against_peers(shown, truth, CLOCK, truth.entity)[
        shown.at(truth.onset_ns) : shown.at(truth.onset_ns) + 900
    ]
    low = relative < 0.85
    starts = np.flatnonzero(np.diff(low.astype(int)) == 1)
    assert 0.13 < low.mean() < 0.27
    assert len(starts) >= 8


def test_f18_of_gpus() -> None:
    """F18: fewer lanes, a lower generation under load, or replays at the magnitude times
    what is allowed per minute.
    """
    run = rendered("F18", days=1.0, nodes=16)
    shown = trace(
        run,
        "gpu",
        "pcie_width_current",
        "pcie_generation_current",
        "pcie_replays",
        "compute_processes",
    )
    seen = set()
    for truth in (truth for truth in run.truth if truth.entity_kind == "gpu"):
        _, width = shown.during(truth, truth.entity, "pcie_width_current")
        _, generation = shown.during(truth, truth.entity, "pcie_generation_current")
        _, replays = shown.during(truth, truth.entity, "pcie_replays")
        at = np.flatnonzero(~np.isnan(replays))
        per_minute = (replays[at[-1]] - replays[at[0]]) / (at[-1] - at[0]) * 6
        loaded = shown.during(truth, truth.entity, "compute_processes")[1] > 0
        if truth.severity == "ticket":
            seen.add("replays")
            assert per_minute == pytest.approx(4 * 31, rel=0.1)
        elif np.nanmax(width) < 16:
            seen.add("lanes")
            assert set(width[~np.isnan(width)]) <= {4.0, 8.0}
        else:
            seen.add("generation")
            assert np.nanmax(generation[loaded]) < 5
    assert seen == {"replays", "lanes", "generation"}


def test_f18_of_adapters() -> None:
    """F18: fewer lanes or a lower generation than adapter and slot allow, as long as it lasts;
    the neighbours have all.
    """
    run = rendered("F18", days=1.0, nodes=16)
    names = (
        "pcie_width_current",
        "pcie_width_maximum",
        "pcie_generation_current",
        "pcie_generation_maximum",
    )
    shown = trace(run, "ib_port", *names)
    seen = set()
    for truth in (truth for truth in run.truth if truth.entity_kind == "port"):
        assert truth.severity == "page"
        assert isinstance(truth.entity, Device)
        during = {name: shown.during(truth, truth.entity, name)[1] for name in names}
        now, most = (
            np.array([np.nanmin(during[f"pcie_{what}_{end}"]) for what in ("width", "generation")])
            for end in ("current", "maximum")
        )
        assert most.tolist() == [16.0, 5.0]
        assert np.count_nonzero(now < most) == 1
        seen.add("lanes" if now[0] < most[0] else "generation")
        onset = shown.at(truth.onset_ns)
        others = [
            device
            for device in shown.devices
            if device.host == truth.entity.host and device != truth.entity
        ]
        assert {
            np.nanmin(shown.column(other, "pcie_width_current")[onset : onset + 30])
            for other in others
        } == {16.0}
    assert seen == {"lanes", "generation"}


def test_f27_half_a_rail() -> None:
    """F27: the port moves the share of its job's ports that the magnitude
    leaves, at full width and rate.
    """
    run = rendered("F27", nodes=12, days=1.0)
    shown = trace(run, "ib_port", "transmit_words", "rate_bits_per_second", "width_lanes")
    for truth in run.truth:
        entity = truth.entity
        assert isinstance(entity, Device)
        job = run.topology.job_at(entity.host, truth.onset_ns)
        assert job is not None
        peers = [
            d
            for d in shown.devices
            if d.host in {f"node-{n:04d}" for n in job.nodes} and d != entity
        ]
        onset = shown.at(truth.onset_ns)

        def moved(device: Device, onset: int = onset) -> float:
            column = shown.column(device, "transmit_words")[onset : onset + 60]
            column = column[~np.isnan(column)]
            return float(column[-1] - column[0])

        assert moved(entity) / np.median([moved(peer) for peer in peers]) == pytest.approx(
            0.5, abs=0.05
        )
        assert np.nanmin(shown.column(entity, "width_lanes")) == 4
        assert np.nanmin(shown.column(entity, "rate_bits_per_second")) == 400e9

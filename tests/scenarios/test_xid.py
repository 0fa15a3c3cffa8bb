"""What the driver says: events of both reporters, states of GPUs, jobs that die."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.fleet import Truth
from tests.scenarios.traces import Trace, codes, rendered, trace

pytestmark = pytest.mark.slow


def logged(shown: Trace, truth: Truth) -> bool:
    """Whether the node's kernel log could be read."""
    return any(
        event.attributes["origin"] == "kmsg" for event in shown.reported(truth, device=truth.entity)
    )


def test_f06_off_the_bus() -> None:
    """F06: XID 79 and 154 where the log is readable; in any case the state is lost, nothing else is
    read, and the node counts seven.
    """
    run = rendered("F06", seed=2, days=2.0)
    shown = trace(run, "gpu", "state", "temperature_celsius", "energy_millijoules")
    seen = {logged(shown, truth) for truth in run.truth}
    assert seen == {True, False}
    for truth in run.truth:
        state = shown.column(truth.entity, "state")
        lost = slice(shown.at(truth.onset_ns), shown.at(truth.end_ns) - 1)
        assert set(state[lost][~np.isnan(state[lost])]) == {1.0}
        assert np.isnan(shown.column(truth.entity, "temperature_celsius")[lost]).all()
        assert np.isnan(shown.column(truth.entity, "energy_millijoules")[lost]).all()
        if logged(shown, truth):
            assert {79, 154} <= set(codes(shown.reported(truth, device=truth.entity)))
            assert truth.detect_by_s < 11
        else:
            assert truth.detect_by_s > 60


def test_f07_hangs() -> None:
    """F07: XID 119 or 120, then a hung call, a GPU in state hung, and 154."""
    run = rendered("F07", days=1.0)
    shown = trace(run, "gpu", "state")
    for truth in run.truth:
        reported = codes(shown.reported(truth, device=truth.entity))
        assert reported[0] in {119, 120}
        assert 154 in reported
        assert shown.reported(truth, "driver_hang")
        _, state = shown.during(truth, truth.entity, "state")
        assert set(state[2:][~np.isnan(state[2:])]) == {2.0}


def test_f08_who_is_to_blame() -> None:
    """F08: with the GPU to blame all bursts name one GPU and one unit; with the job to blame no
    GPU is named by two bursts.
    """
    run = rendered("F08", days=2.0, nodes=12)
    shown = trace(run, "gpu", "state")
    assert {truth.entity_kind for truth in run.truth} == {"gpu", "job"}
    for truth in run.truth:
        bursts = [
            e
            for e in shown.reported(truth)
            if e.attributes["origin"] == "kmsg" and e.attributes.get("code") in {13, 31}
        ]
        if truth.entity_kind == "gpu":
            own = [e for e in bursts if e.device == truth.entity]
            assert len(own) >= 2
            assert len({(e.attributes.get("gpc"), e.attributes.get("tpc")) for e in own}) == 1
        else:
            ours = [e.device for e in bursts if e.device in truth.members]
            assert len(set(ours)) >= 4
            assert len(set(ours)) >= len(ours) - 1  # at most one more by a user's program elsewhere


def test_f09_masking() -> None:
    """F09: all codes of a burst come within ten seconds, in an order that
    differs from case to case.
    """
    run = rendered("F09", days=2.0, nodes=16)
    shown = trace(run, "gpu", "state")
    orders = []
    for truth in run.truth:
        reported = [
            e
            for e in shown.reported(truth, device=truth.entity)
            if e.attributes["origin"] == "kmsg"
        ]
        burst = [e for e in reported if e.time_ns - truth.onset_ns <= 12e9]
        orders.append(tuple(int(e.attributes["code"]) for e in burst))
        assert len(burst) >= 2
    assert len(set(orders)) > 4


def test_both_reporters() -> None:
    """A code comes from the kernel log and from NVML's events, less than two seconds apart: who
    counts must count it once.
    """
    shown = trace(rendered("F03"), "gpu", "state")
    truth = shown.run.truth[0]
    times = {
        origin: [
            e.time_ns
            for e in shown.reported(truth, device=truth.entity)
            if (e.attributes["code"], e.attributes["origin"]) == (95, origin)
        ]
        for origin in ("kmsg", "nvml")
    }
    assert len(times["kmsg"]) == len(times["nvml"]) == 1
    assert 0 < times["nvml"][0] - times["kmsg"][0] < 2e9

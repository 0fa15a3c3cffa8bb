"""Slow storage, uneven rooms, and the stalls in jobs that pause by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.frame import Device
from simulator.fleet.healthy.rooms import Step, Unit
from tests.scenarios.traces import Trace, rendered, trace

pytestmark = pytest.mark.slow

UTILISATION, POWER, PCIE = (
    "gpu_utilization_percent",
    "power_milliwatts",
    "pcie_receive_mebibytes_per_second",
)


def during(name: str, *fields: str) -> Trace:
    """A run of some jobs in which something is wrong."""
    return trace(rendered(name, nodes=8, days=0.75), "gpu", *fields)


def test_h40_some_write_while_others_spin() -> None:
    """For minutes a GPU of a node idles while the others are at 100 % and nothing crosses PCIe."""
    run = rendered("H40", seed=2, nodes=8, days=0.75)
    shown = trace(run, "gpu", UTILISATION, PCIE)
    busy = shown.values[UTILISATION].reshape(len(shown.values[UTILISATION]), -1, 8)
    quiet = (shown.values[PCIE] < 1).reshape(busy.shape).all(axis=2)
    waits = ((busy == 100).sum(axis=2) >= 7) & quiet
    assert waits.sum() * run.step_s > 600


def test_h41_a_room_cycles() -> None:
    """Inlets of racks move apart and together again by half a kelvin and more."""
    unit = Unit(period_s=900.0, kelvin=2.0, warms=0.2, phase=0.0)
    wave = [unit.at(float(t)) for t in range(0, 1800, 10)]
    assert min(wave) == 0.0
    assert max(wave) == pytest.approx(2.0, abs=0.1)
    assert int(np.argmax(wave)) * 10 == pytest.approx(180, abs=10)
    door = Step((0,), at_s=100.0, kelvin=3.0, ramp_s=60.0, lasts_s=600.0)
    assert [door.at(t) for t in (0.0, 130.0, 400.0, 2000.0)] == [0.0, 1.5, 3.0, 0.0]


def test_f50_the_truth_is_stuck() -> None:
    """From the onset on no GPU of the job works; of a rank that is gone the process is too."""
    shown = during("F50", UTILISATION, "tensor_activity_percent")
    assert shown.run.truth
    for truth in shown.run.truth:
        span = slice(shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1)
        gpus = truth.members or (truth.entity,)
        for gpu in gpus:
            assert isinstance(gpu, Device)
            assert np.nanmax(shown.column(gpu, "tensor_activity_percent")[span]) == 0


def test_f51_one_computes_and_the_others_wait() -> None:
    """At high power, while its peers spin at low power."""
    shown = during("F51", UTILISATION, POWER)
    assert shown.run.truth
    for truth in shown.run.truth:
        span = slice(shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1)
        assert isinstance(truth.entity, Device)
        own = np.nanmedian(shown.column(truth.entity, POWER)[span])
        peers = [d for d in shown.devices if d.host == truth.entity.host and d != truth.entity]
        for peer in peers:
            assert np.nanmedian(shown.column(peer, POWER)[span]) < 0.6 * own
            assert np.nanmin(shown.column(peer, UTILISATION)[span]) == 100


def test_f52_all_crawl() -> None:
    """Utilisation stays, and the tensor cores do a tenth of what they did, or less."""
    shown = during("F52", UTILISATION, "tensor_activity_percent")
    assert shown.run.truth
    for truth in shown.run.truth:
        before, after = shown.during(truth, truth.members[0], "tensor_activity_percent")
        usual = np.nanmedian(before[-360:])
        assert 0 < np.nanmedian(after) < 0.15 * usual


def test_f53_a_node_idles() -> None:
    """All GPUs of a job on one node, whose processes stay."""
    shown = during("F53", UTILISATION, "compute_processes")
    assert shown.run.truth
    for truth in shown.run.truth:
        span = slice(shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1)
        for gpu in truth.members:
            assert np.nanmax(shown.column(gpu, UTILISATION)[span]) == 0
            assert np.nanmin(shown.column(gpu, "compute_processes")[span]) == 1

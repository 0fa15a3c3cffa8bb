"""Faults of jobs, collectors and lemons."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.frame import Device
from tests.scenarios.traces import rendered, trace, traces

pytestmark = pytest.mark.slow


def test_f25_culprit_and_victims() -> None:
    """F25: the culprit is at 0 %, all others of the job at 100 % with no tensor work, no traffic
    and flat low power, until the job dies.
    """
    run = rendered("F25", nodes=16, days=1.0)
    shown = trace(
        run,
        "gpu",
        "gpu_utilization_percent",
        "tensor_activity_percent",
        "power_milliwatts",
        "nvlink_transmit_mebibytes_per_second",
    )
    for truth in run.truth:
        span = slice(shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1)
        assert isinstance(truth.entity, Device)
        job = run.topology.job_at(truth.entity.host, truth.onset_ns)
        assert job is not None
        ranks = [
            device
            for device in shown.devices
            if device.host in {f"node-{n:04d}" for n in job.nodes}
        ]
        busy = {device: shown.column(device, "gpu_utilization_percent")[span] for device in ranks}
        assert np.nanmax(busy[truth.entity]) == 0
        for device in ranks:
            if device != truth.entity:
                assert np.nanmin(busy[device]) == 100
            assert np.nanmax(shown.column(device, "tensor_activity_percent")[span]) == 0
            assert (
                np.nanmax(shown.column(device, "nvlink_transmit_mebibytes_per_second")[span]) == 0
            )
        peer = next(device for device in ranks if device != truth.entity)
        power = shown.column(peer, "power_milliwatts")[span]
        assert np.nanstd(power) < 0.05 * np.nanmean(power) < 0.05 * 160_000
        assert job.outcome == "failed"
        assert run.topology.begin_ns + int(job.end_s * 1e9) <= truth.end_ns + 10**9


def test_f26_starved() -> None:
    """F26: the blamed node idles with its processes there; the others of
    the job idle too, or spin.
    """
    run = rendered("F26", nodes=16, days=1.0)
    shown = trace(run, "gpu", "gpu_utilization_percent", "compute_processes")
    kinds = set()
    for truth in run.truth:
        kinds.add(truth.entity_kind)
        span = slice(shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1)
        host = truth.entity.host if isinstance(truth.entity, Device) else truth.members[0].host
        hosts = {member.host for member in truth.members}
        own = [device for device in shown.devices if device.host == host]
        for device in own:
            assert np.nanmax(shown.column(device, "gpu_utilization_percent")[span]) == 0
            assert np.nanmin(shown.column(device, "compute_processes")[span]) == 1
        job = run.topology.job_at(host, truth.onset_ns)
        assert job is not None
        others = [
            d for d in shown.devices if d.host in {f"node-{n:04d}" for n in job.nodes} - {host}
        ]
        level = {
            float(np.nanmedian(shown.column(device, "gpu_utilization_percent")[span]))
            for device in others
        }
        assert level == ({0.0} if truth.entity_kind == "job" else {100.0})
        assert len(hosts) == (len(job.nodes) if truth.entity_kind == "job" else 1)
    assert kinds == {"node", "job"}


def test_f29_silent_or_frozen() -> None:
    """F29: the node's readings stop and the observation says why, or its energy counters repeat
    themselves while others move.
    """
    run = rendered("F29", nodes=16, days=1.0)
    shown = trace(run, "gpu", "energy_millijoules")
    blamed: list[tuple[int, str]] = []
    kinds = set()
    for observation in run.observations():
        blamed += [(observation.time_ns, unread.device) for unread in observation.unread]
    for truth in run.truth:
        assert isinstance(truth.entity, Device)
        span = slice(shown.at(truth.onset_ns) + 1, shown.at(truth.end_ns) - 1)
        energy = [shown.column(device, "energy_millijoules")[span] for device in truth.members]
        if any(
            host == truth.entity.host and truth.onset_ns < at < truth.end_ns for at, host in blamed
        ):
            kinds.add("silent")
            assert np.isnan(energy).all()
        else:
            kinds.add("frozen")
            assert all(len(set(column[~np.isnan(column)])) == 1 for column in energy)
    assert kinds == {"silent", "frozen"}


def test_f31_six_of_one_node() -> None:
    """F31: six faults strike one node, days apart, the last at the evidence."""
    run = rendered("F31", nodes=4, days=30.0, step_s=120)
    names = (
        "ecc_uncorrected_aggregate",
        "pcie_replays",
        "power_limit_enforced_milliwatts",
        "throttled_sw_thermal_nanoseconds",
    )
    shown, ports = traces(run, gpu=names, ib_port=("symbol_errors", "symbol_errors_extended"))
    truth = run.truth[0]
    rows = [shown.devices.index(device) for device in truth.members if device.kind == "gpu"]
    seen = [
        bool(np.nanmax(shown.values[name][:, rows]) > np.nanmin(shown.values[name][:, rows]))
        for name in names
    ]
    assert seen == [True] * 4
    ours = [ports.devices.index(device) for device in truth.members if device.kind == "ib_port"]
    assert (
        np.nanmax(ports.values["symbol_errors"][:, ours]) == 65535
    )  # which no wider counter makes up for
    assert np.isnan(ports.values["symbol_errors_extended"]).all()
    assert (truth.evident_ns - truth.onset_ns) / 86400e9 > 6
    assert truth.entity_kind == "node"


def test_f32_parts() -> None:
    """F32: two faults of one job name two devices; the one at the start of a
    job begins with the job.
    """
    run = rendered("F32", seed=2, nodes=16, days=2.0)
    ids = {truth.id.rpartition("/")[2] for truth in run.truth}
    assert {"slow", "brake"} <= ids
    starts = {
        run.topology.begin_ns + int(job.start_s // 10 * 10 * 1e9) for job in run.topology.jobs
    }
    at_start = [truth for truth in run.truth if truth.detect_by_s > 2000]
    assert at_start
    assert all(truth.onset_ns in starts for truth in at_start)
    assert all(truth.evident_ns > truth.onset_ns for truth in at_start)

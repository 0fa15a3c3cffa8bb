"""Versions and modes that differ: from what was declared, or from nearly all of the same model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from detectors.drift import Drift
from pipeline.finding import Finding
from pipeline.frame import Device, frame_of
from pipeline.observation import Observation
from tests.detectors.feed import a_gpu, updates

HOUR = 3600.0
STEP_S = 600.0
USUAL = {"driver_version": "580.95.05", "vbios": "96.00.74"}


def fleet(hosts: int, per_host: int = 2) -> dict[str, Device]:
    """GPUs by id, all alike."""
    gpus = [a_gpu(f"n{host}", index, **USUAL) for host in range(hosts) for index in range(per_host)]
    return {gpu.id: gpu for gpu in gpus}


def other(gpu: Device, **facts: str) -> Device:
    """The same device with other facts."""
    return Device(gpu.host, gpu.kind, gpu.id, {**gpu.attributes, **facts})


class Days:
    """Shows a detector the same devices for hours, once in ten minutes."""

    def __init__(self, detector: Drift) -> None:
        self.detector, self._at = detector, 10**15

    def hours(
        self, hours: float, devices: Iterable[Device], kind: str = "gpu", **gauges: float
    ) -> list[Finding]:
        """What it says meanwhile."""
        return self.each(hours, dict.fromkeys(devices, gauges), kind)

    def each(
        self, hours: float, gauges: Mapping[Device, Mapping[str, float]], kind: str = "gpu"
    ) -> list[Finding]:
        """The same, where each device has gauges of its own."""
        findings: list[Finding] = []
        for _ in range(round(hours * HOUR / STEP_S)):
            self._at += round(STEP_S * 1e9)
            frame = frame_of(kind, list(gauges.items()), self._at, self._at)
            findings += self.detector.update(
                Observation("nvml", "n0", "b", 0, self._at, self._at, 0, (frame,))
            )
        return findings


def test_one_gpu_with_another_vbios_than_its_model_is_a_ticket_after_a_day() -> None:
    """A swapped board came with other firmware."""
    gpus = fleet(4)
    gpus["GPU-n2-1"] = other(gpus["GPU-n2-1"], vbios="96.00.11")
    days = Days(Drift())
    assert days.hours(24, gpus.values()) == []
    findings = days.hours(2, gpus.values())
    assert updates(findings) == [("gpu", "GPU-n2-1", "drift/gpu_vbios", "ticket", "onset")]
    assert "96.00.11 instead of 96.00.74" in findings[0].summary


def test_a_driver_is_told_of_its_node_once() -> None:
    """All GPUs of a host share it."""
    gpus = fleet(6)
    mine = {
        name: other(gpu, driver_version="570.1") if gpu.host == "n3" else gpu
        for name, gpu in gpus.items()
    }
    assert updates(Days(Drift()).hours(26, mine.values())) == [
        ("node", "n3", "drift/gpu_driver_version", "ticket", "onset")
    ]


def test_another_model_is_nobodys_peer() -> None:
    """Two of eight are A100s with firmware of their own."""
    gpus = fleet(4)
    mixed = [
        other(gpu, name="NVIDIA A100", vbios="92.00.45") if gpu.host == "n1" else gpu
        for gpu in gpus.values()
    ]
    assert Days(Drift()).hours(30, mixed) == []


def test_a_split_fleet_has_no_majority() -> None:
    """A third of it has another version: it is unknown which is right."""
    gpus = fleet(6)
    split = [other(gpu, vbios="97.0") if gpu.host in ("n1", "n2") else gpu for gpu in gpus.values()]
    assert Days(Drift()).hours(30, split) == []


@pytest.mark.slow
def test_many_hosts_that_differ_alike_are_a_rollout_for_the_record() -> None:
    """Operators change the fleet on purpose, and slowly."""
    gpus = fleet(40)
    new = {f"n{host}" for host in range(6)}
    rolled = [
        other(gpu, driver_version="590.1") if gpu.host in new else gpu for gpu in gpus.values()
    ]
    findings = Days(Drift()).hours(26, rolled)
    assert {f.severity for f in findings} == {"record"}
    assert {f.device.id for f in findings} == new


def test_what_was_declared_counts_against_the_majority_after_an_hour() -> None:
    """All have the old driver: all are wrong."""
    findings = Days(Drift({"gpu.driver_version": "590.1"})).hours(2, fleet(2).values())
    assert updates(findings) == [
        ("node", f"n{host}", "drift/gpu_driver_version", "ticket", "onset") for host in range(2)
    ]
    assert "as was declared" in findings[0].summary


def test_a_mode_is_compared_as_well() -> None:
    """ECC was declared on, and is off."""
    findings = Days(Drift({"gpu.ecc_mode_current": "1"})).hours(
        2, fleet(1, 1).values(), ecc_mode_current=0.0
    )
    assert [f.fault for f in findings] == ["drift/gpu_ecc_mode_current"]


def limited(enforced: float, asked: float, hosts: int = 1) -> dict[Device, dict[str, float]]:
    """GPUs and their power limits in watts."""
    limits = {
        "power_limit_enforced_milliwatts": enforced * 1000,
        "power_limit_requested_milliwatts": asked * 1000,
    }
    return dict.fromkeys(fleet(hosts, 1).values(), limits)


def test_a_power_limit_that_was_declared_is_compared() -> None:
    """The site runs at 600 W, and one node came back from a repair at the board's default."""
    days = Days(Drift({"gpu.power_limit": "600"}))
    findings = days.each(2, limited(700, 700))
    assert updates(findings) == [("gpu", "GPU-n0-0", "drift/gpu_power_limit", "ticket", "onset")]
    assert "Its power limit is 700 W instead of 600 W, as was declared." in findings[0].summary
    assert [f.phase for f in days.each(1, limited(600, 700))] == ["cleared"]


def test_a_power_limit_that_something_out_of_band_lowered_is_left_to_its_own_detector() -> None:
    """`power_limit` reported it an hour before; one that an operator asked for is reported here."""
    days = Days(Drift({"gpu.power_limit": "600"}))
    assert days.each(2, limited(500, 600)) == []
    assert [f.fault for f in days.each(2, limited(500, 500))] == ["drift/gpu_power_limit"]


def test_power_limits_are_not_compared_with_each_other() -> None:
    """Sites cap nodes on purpose."""
    assert Days(Drift()).each(30, limited(700, 700, hosts=8) | limited(500, 500)) == []


def test_of_a_gid_the_subnet_is_compared() -> None:
    """Every port has a GUID of its own; one was cabled to another fabric."""
    ports = [
        Device(
            f"n{n}",
            "ib_port",
            f"0x{n}",
            {"hca_type": "MT4129", "gid": f"fe80:0000:0000:0000:b8ce:f603:00a1:{n:04x}"},
        )
        for n in range(9)
    ]
    ports[4] = other(ports[4], gid="fe80:0000:0000:0002:b8ce:f603:00a1:0004")
    assert updates(Days(Drift()).hours(26, ports, "ib_port")) == [
        ("ib_port", "0x4", "drift/ib_port_gid", "ticket", "onset")
    ]


def test_ethernet_ports_are_no_peers_of_infiniband_ports() -> None:
    """Ten cards of one model and board in a node, of which two were set to Ethernet for storage."""
    card = {"hca_type": "MT4129", "board_id": "MT_0000000838"}
    fabric = {"link_layer": "InfiniBand", "mtu": "4092", "gid": "fec0:0000:0000:0001:1:2:3:4"}
    storage = {"link_layer": "Ethernet", "mtu": "9000", "gid": "fe80:0000:0000:0000:1:2:3:4"}
    ports = [
        Device("n1", "ib_port", f"0x{n}", card | (storage if n >= 8 else fabric)) for n in range(10)
    ]
    assert Days(Drift()).hours(30, ports, "ib_port") == []


def test_a_declared_gid_is_compared_by_its_subnet() -> None:
    """An operator may copy one completely from any port."""
    port = Device(
        "n1",
        "ib_port",
        "0x1",
        {"hca_type": "MT4129", "gid": "fe80:0000:0000:0000:b8ce:f603:00a1:0001"},
    )
    assert (
        Days(Drift({"ib_port.gid": "fe80:0000:0000:0000:b8ce:f603:00a1:0002"})).hours(
            2, [port], "ib_port"
        )
        == []
    )


def test_it_clears_when_the_version_is_that_of_the_others() -> None:
    """With the id of its onset."""
    good = fleet(4)
    bad = {**good, "GPU-n2-1": other(good["GPU-n2-1"], vbios="96.00.11")}
    days = Days(Drift())
    (onset,) = days.hours(26, bad.values())
    (cleared,) = days.hours(1, good.values())
    assert (cleared.id, cleared.phase) == (onset.id, "cleared")


def test_facts_that_are_not_known_are_no_drift() -> None:
    """A board that does not report its VBIOS."""
    gpus = fleet(4)
    gpus["GPU-n0-0"] = other(gpus["GPU-n0-0"], vbios="")
    assert Days(Drift()).hours(30, gpus.values()) == []


def test_a_fact_that_is_not_compared_is_refused_by_name() -> None:
    """A typing error in the configuration."""
    with pytest.raises(ValueError, match=r"gpu\.vbois is not compared; there are .*gpu\.vbios"):
        Drift({"gpu.vbois": "1"})


@pytest.mark.parametrize(
    "declared", [{"gpu.vbios": ""}, {"gpu.ecc_mode_current": "on"}, {"gpu.power_limit": "600 W"}]
)
def test_a_value_that_no_device_can_have_is_refused(declared: dict[str, str]) -> None:
    """Every device would differ from it for ever, or none."""
    with pytest.raises(ValueError, match=r"is empty|neither 0|not a whole number of watts"):
        Drift(declared)


@pytest.mark.slow
def test_the_first_nodes_of_a_rollout_are_no_drift_and_a_node_left_behind_is() -> None:
    """A later version than the others' is watched for a week; an earlier one is a ticket after a
    day.
    """
    gpus = fleet(40)

    def one_with(version: str) -> list[Device]:
        return [
            other(gpu, driver_version=version) if gpu.host == "n0" else gpu for gpu in gpus.values()
        ]

    ahead = Days(Drift())
    assert not ahead.hours(26, one_with("999.10"))
    assert {one.severity for one in ahead.hours(6 * 24, one_with("999.10"))} == {"ticket"}
    assert {one.severity for one in Days(Drift()).hours(26, one_with("1.2"))} == {"ticket"}


def test_who_is_left_of_a_rollout_waits_while_it_goes_on() -> None:
    """Nodes are drained when their jobs end: a day after the last one came, the rest is drift."""
    old = {gpu.host: gpu for gpu in fleet(40, 1).values()}
    new = {host: other(gpu, driver_version="590.1") for host, gpu in old.items()}
    days = Days(Drift())
    left = ["n0", "n1", "n2"]
    for host in left:
        new[host] = old[host]
    assert days.hours(18, new.values()) == []
    new["n2"] = other(old["n2"], driver_version="590.1")
    assert days.hours(23, new.values()) == []
    assert {(f.device.id, f.severity) for f in days.hours(2, new.values())} == {
        ("n0", "ticket"),
        ("n1", "ticket"),
    }


@pytest.mark.slow
def test_a_rollout_that_never_ends_hides_nobody_for_more_than_a_week() -> None:
    """In a large fleet some node is installed again each day."""
    old = {gpu.host: gpu for gpu in fleet(40, 1).values()}
    days, reported = Days(Drift()), list[Finding]()
    for day in range(8):
        left = {"n0", f"n{day + 1}"}
        gpus = [
            gpu if host in left else other(gpu, driver_version="590.1") for host, gpu in old.items()
        ]
        reported += days.hours(24, gpus)
    assert updates(reported) == [("node", "n0", "drift/gpu_driver_version", "ticket", "onset")]


@pytest.mark.slow
def test_a_rollout_that_has_stopped_for_a_week_is_a_ticket() -> None:
    """A seventh of the fleet was forgotten."""
    old = {gpu.host: gpu for gpu in fleet(21, 1).values()}
    gpus = [
        gpu if host in ("n0", "n1", "n2", "n3") else other(gpu, driver_version="590.1")
        for host, gpu in old.items()
    ]
    days = Days(Drift())
    assert {f.severity for f in days.hours(7 * 24 - 1, gpus)} == {"record"}
    tickets = days.hours(2, gpus)
    assert {f.severity for f in tickets} == {"ticket"}
    assert "rollout that has stopped" in tickets[0].summary


def test_a_node_divided_by_mig_is_on_purpose_and_one_gpu_of_it_is_not() -> None:
    """Sites have nodes for slices; a GPU that is left divided is in nobody's plan."""
    gpus = fleet(8, 8)
    divided = {
        gpu: {"mig_mode_current": float(gpu.host == "n1" or gpu.id == "GPU-n2-3")}
        for gpu in gpus.values()
    }
    assert updates(Days(Drift()).each(26, divided)) == [
        ("gpu", "GPU-n2-3", "drift/gpu_mig_mode_current", "ticket", "onset")
    ]


def test_a_mode_of_a_node_that_is_seldom_read_is_compared() -> None:
    """Rows of nodes that a frame did not read are empty; what they had still counts."""
    gpus = devices = tuple(fleet(10).values())
    detector, at, findings = Drift(), 10**15, list[Finding]()
    for step in range(26 * 60):
        at += 60 * 10**9
        # One node is read a minute after each block has ended, the others at the end.
        seldom = step % 10 != 9
        modes = {"ecc_mode_current": float(not seldom)}
        rows = [(gpu, modes if (gpu.host == "n3") == seldom else {}) for gpu in gpus]
        passed = np.array([60.0 if gauges else np.nan for _, gauges in rows])
        frame = replace(frame_of("gpu", rows, at, at), devices=devices, passed_s=passed)
        findings += detector.update(Observation("nvml", "fleet", "b", 0, at, at, 0, (frame,)))
    assert {(f.device.id, f.fault) for f in findings} == {
        (f"GPU-n3-{n}", "drift/gpu_ecc_mode_current") for n in range(2)
    }

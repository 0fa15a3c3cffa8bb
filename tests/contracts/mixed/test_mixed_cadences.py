"""A node that is read seldom is judged beside nodes that are read often as it is alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from detectors import DETECTORS, PAGES
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.contracts.mixed.cases import CASES, Case
from tests.contracts.mixed.fleet import BEGIN_NS, Node, alone, at_horizon_node, in_fleet, readings

pytestmark = pytest.mark.slow

# What is found beside others may come so many of its own steps, and blocks of the detector, later
# or earlier: blocks end at other instants.
STEPS, BLOCKS = 2, 2
OF_EVENTS = {"host", "ib_adapter", "nccl", "xid"}
LONG_S = 4 * 3600  # a case that takes longer is read as seldom as its detector allows


def is_of(device: Device, host: str) -> bool:
    """Whether a device, or a job, is of a node."""
    return host in (device.host, device.id.removeprefix("job of "))


def onsets(findings: Sequence[Finding], host: str) -> dict[tuple[str, str], float]:
    """When each fault of a host's devices was first reported, seconds."""
    seen: dict[tuple[str, str], float] = {}
    for one in findings:
        if is_of(one.device, host) and one.phase == "onset":
            at_s = (one.time_ns - BEGIN_NS) / SECOND_NS
            seen.setdefault((one.fault, one.severity), at_s)
    return seen


def ident(case: Case) -> str:
    """Name of a case."""
    return f"{case.detector}-{case.fault.rpartition('/')[2]}"


def test_every_detector_that_judges_readings_has_a_case() -> None:
    """The others judge events, which come when they come."""
    assert set(DETECTORS) - {case.detector for case in CASES} == OF_EVENTS


@pytest.mark.parametrize("case", CASES, ids=ident)
def test_a_fault_of_a_node_that_is_read_seldom_is_found(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As seldom as its detector allows, beside nodes that are read often, and others of which
    readings are lost; these stay silent.
    """
    for constant, value in case.sooner.items():
        monkeypatch.setattr(constant, value)
    most_s = round(PAGES[case.detector].needs.every_s)
    every_s = min(15, most_s) if case.warm_s + case.bad_s < LONG_S else most_s
    struck = (Node("slow", every_s, 7, struck=True), Node("slower", most_s, 33, struck=True))
    healthy = (Node("fast", max(1, every_s // 3)), Node("seldom", min(30, most_s), 11, missed=0.05))
    nodes = {node: [*readings(case, node)] for node in (*struck, *healthy)}
    wanted = {one.name: onsets(alone(case, one, nodes[one]), one.name) for one in struck}
    ways = (in_fleet, at_horizon_node) if case.of_fleet else (at_horizon_node,)
    for found in (judged(case, nodes) for judged in ways):
        for node in struck:
            alone_s, got = wanted[node.name], onsets(found, node.name)
            assert case.fault in {fault for fault, _ in alone_s}
            assert set(got) == set(alone_s)
            late_s = max(abs(got[fault] - alone_s[fault]) for fault in alone_s)
            assert late_s <= STEPS * node.every_s + BLOCKS * case.block_s
        assert not [f.summary for node in healthy for f in found if is_of(f.device, node.name)]

"""What becomes one incident and what must not: cases that other programs are known to get wrong,
through judge and fusion.
"""

from __future__ import annotations

from typing import Any

import pytest

from collector.sources.kmsg.parse import parse_text
from detectors.incidents import health_of
from pipeline.finding import Incident
from pipeline.frame import Device
from tests.detectors.feed import a_gpu
from tests.detectors.regressions.node import JudgedNode

UNCONTAINED = (
    "NVRM: Xid (PCI:0000:{:02x}:00): 95, pid=1, name=python3, Uncontained: LTC TAG (0x2,0x0)"
)


def loud(node: JudgedNode, *severities: str) -> list[Incident]:
    """Incidents of these severities that opened so far."""
    return [incident for incident in node.incidents.values() if incident.severity in severities]


@pytest.mark.slow
def test_a_rack_of_72_gpus_whose_job_crashed_is_one_incident() -> None:
    """The links of 18 nodes complain within seconds, and every program dies: one incident about the
    domain, no GPU or node by itself.
    """
    gpus = [
        a_gpu(f"n{n}", i, fabric_cluster="domain-1", rack="r1") for n in range(18) for i in range(4)
    ]
    rack = JudgedNode(gpus=gpus, ports=[])
    rack.run(120)
    rack.job("42")
    for n in range(len(gpus)):
        rack.print(
            (
                "NVRM: Xid (PCI:0000:10:00): 145, pid='<unknown>', name=<unknown>, RLW_NEW Fatal "
                "XC0 i0 Link 03 (0x00000000 0x00000100 0x0)"
            ),
            n,
        )
        rack.print("NVRM: Xid (PCI:0000:10:00): 45, pid=4242, name=python3, Ch 00000001", n)
    rack.run(900)
    assert len(loud(rack, "page")) == 1
    assert loud(rack, "ticket") == []


@pytest.mark.slow
def test_a_crashed_job_flags_no_node() -> None:
    """Every GPU of eight nodes reports 43 and 45 when its program is killed: nobody is paged,
    and no GPU gets a ticket.
    """
    gpus = [a_gpu(f"n{n}", i) for n in range(8) for i in range(8)]
    cluster = JudgedNode(gpus=gpus, ports=[])
    cluster.run(120)
    cluster.job("42")
    for n in range(len(gpus)):
        cluster.xid(43, n)
        cluster.xid(45, n)
    cluster.run(900)
    assert loud(cluster, "page", "ticket") == []


@pytest.mark.slow
def test_a_program_that_failed_swallows_no_gpu_of_its_job() -> None:
    """The job's ticket is open when a GPU of it loses memory rows: that is an incident of
    its own, about that GPU.
    """
    node = JudgedNode()
    node.run(120)
    node.job("42")
    node.xid(31, 1)
    node.run(60)
    node.print(UNCONTAINED.format(0x13), 3)
    assert {(i.root.kind, i.root.id, i.severity) for i in node.incidents.values()} == {
        ("job", "42", "ticket"),
        ("gpu", node.gpus[3].id, "page"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_lines_of_the_driver_that_name_no_gpu_are_of_the_one_that_is_gone(first: int) -> None:
    """One page, about the GPU and not also its node, whichever line is the first."""
    lost = (
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus "
        "[NV_ERR_GPU_IS_LOST] (0x0000000F) returned from rmStatus @ kernel_ce_gv100.c:106"
    )
    node = JudgedNode()
    node.run(120)
    for number in (first, 1 - first):
        if number:
            node.report("gpu_driver_error", Device("n1", "node", "n1"), **driver_error(lost))
        else:
            node.print("NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.", 3)
    node.run(120)
    (page,) = {i.id: i for i in loud(node, "page", "ticket") if i.cleared_ns == 0}.values()
    assert (page.root, page.fault) == (node.gpus[3], "xid/gpu")


def driver_error(line: str) -> dict[str, Any]:
    """What a line about no GPU says happened."""
    parsed = parse_text(line)
    assert parsed is not None
    return {**parsed.facts, "text": line}


@pytest.mark.slow
def test_a_gpu_whose_memory_wears_out_is_a_predicted_failure() -> None:
    """Elsewhere memory errors never change the health of a device: here a bank without spare rows
    does, before the remap that fails.
    """
    node = JudgedNode(period_s=60)
    node.run(600, row_remap_banks_none=0)
    worn = node.gpus[1]
    node.run(60, {worn.id: {"row_remap_banks_none": 1}}, row_remap_banks_none=0)
    assert health_of(node.findings)[worn] == "predicted_failure"
    node.run(
        60, {worn.id: {"row_remap_banks_none": 1, "row_remap_failed": 1}}, row_remap_banks_none=0
    )
    assert health_of(node.findings)[worn] == "failed"


@pytest.mark.slow
def test_thousands_of_lines_about_one_gpu_are_one_incident_of_it() -> None:
    """The driver repeats itself 400 times about each of two GPUs."""
    node = JudgedNode()
    node.run(120)
    for _ in range(40):
        node.run(10)
        for _ in range(10):
            for gpu in (2, 5):
                node.print(UNCONTAINED.format(0x10 + gpu), gpu)
    pages = loud(node, "page")
    assert {i.root.id for i in pages} <= {"n1", node.gpus[2].id, node.gpus[5].id}
    assert len(pages) <= 2

"""The NVLink fabric as NVML reports it: what is a fault, whose it is, and when it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectors.nvlink_fabric import NvLinkFabric
from pipeline.frame import Device
from tests.detectors.feed import Feed, a_gpu, open_findings, relapse, updates

MANAGER, REGISTRATION, HEALTH, LIMITED, CONFIGURATION = (
    f"nvlink_fabric/{name}"
    for name in ("manager", "registration", "unhealthy", "limited", "configuration")
)
MINUTE = 60.0
NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED = range(4)
WELL = 0xAA | 1 << 8  # each of four conditions "no", no wrong configuration
Values = dict[str, float | list[float | None] | None]


def fabric(bad: int = 0, **of_bad: float | None) -> Values:
    """What a node of eight GPUs reports, the first ``bad`` of them otherwise."""
    usual: dict[str, float | None] = {
        "fabric_state": COMPLETED,
        "fabric_error_code": 0,
        "fabric_health": 1,
        "fabric_health_mask": WELL,
        "nvlinks_up": 18,
        "nvlinks_down": 0,
        "mig_mode_current": 0,
    }
    return {
        name: [of_bad.get(name, value)] * bad + [value] * (8 - bad) for name, value in usual.items()
    }


def mask(shift: int, value: int) -> int:
    """A healthy mask with one part of it."""
    width = 0xF if shift == 8 else 3
    return WELL & ~(width << shift) | value << shift


@pytest.fixture
def node() -> Feed:
    """Eight GPUs that have been part of the fabric for a minute."""
    feed = Feed(NvLinkFabric())
    assert feed.run(MINUTE, **fabric()) == []
    return feed


def gpu(number: int) -> str:
    """Identity of a GPU of the node."""
    return a_gpu("n1", number).id


@pytest.mark.parametrize(
    ("values", "seconds", "fault"),
    [
        ({"fabric_error_code": 999}, 40, REGISTRATION),
        ({"fabric_state": IN_PROGRESS}, 130, REGISTRATION),
        ({"fabric_state": NOT_STARTED}, 130, REGISTRATION),
        ({"fabric_health": 2}, 40, HEALTH),
        ({"fabric_health_mask": mask(4, 1)}, 40, HEALTH),
    ],
)
def test_one_gpu_that_left_the_fabric_is_a_page_about_it(
    node: Feed, values: dict[str, float], seconds: float, fault: str
) -> None:
    """With what NVML reports; not before it has lasted, and over a minute after it ended."""
    assert node.run(seconds - 20, **fabric(1, **values)) == []
    findings = node.run(20, **fabric(1, **values))
    assert open_findings(findings) == [("gpu", gpu(0), fault, "page")]
    assert findings[0].summary.startswith("GPU 0 on n1: ")
    assert [f.phase for f in node.run(2 * MINUTE, **fabric())] == ["cleared"]


@pytest.mark.parametrize(
    ("values", "fault", "word"),
    [
        ({"fabric_health": 3}, LIMITED, "limited capacity"),
        ({"fabric_health_mask": mask(0, 1)}, LIMITED, "degraded bandwidth"),
        ({"fabric_health_mask": mask(2, 1)}, LIMITED, "route recovery"),
        ({"fabric_health_mask": mask(6, 1)}, LIMITED, "access timeout recovery"),
        ({"fabric_health_mask": WELL | 2 << 14}, LIMITED, "global Fabric Manager"),
        ({"fabric_health_mask": mask(8, 4)}, CONFIGURATION, "in no partition"),
        ({"fabric_health_mask": mask(8, 5)}, CONFIGURATION, "too few NVLinks"),
        ({"fabric_health_mask": mask(8, 14)}, CONFIGURATION, "wrong configuration 14"),
    ],
)
def test_what_a_gpu_can_live_with_is_a_ticket_once_it_has_lasted_ten_minutes(
    node: Feed, values: dict[str, float], fault: str, word: str
) -> None:
    """A recovery of the fabric takes seconds, and says so while it lasts."""
    assert node.run(9 * MINUTE, **fabric(1, **values)) == []
    findings = node.run(2 * MINUTE, **fabric(1, **values))
    assert open_findings(findings) == [("gpu", gpu(0), fault, "ticket")]
    assert word in findings[0].summary


def test_half_of_the_gpus_at_once_is_the_fabric_manager_of_the_node(node: Feed) -> None:
    """First the node, with all of its GPUs in the evidence, then each GPU."""
    findings = node.run(MINUTE, **fabric(4, fabric_error_code=999))
    assert updates(findings)[0] == ("node", "n1", MANAGER, "page", "onset")
    assert {f.device.id for f in findings[1:]} == {gpu(n) for n in range(4)}
    assert "4 of 8 GPUs" in findings[0].summary
    assert len(findings[0].evidence) == 4


def test_three_of_eight_gpus_are_three_gpus(node: Feed) -> None:
    """Fewer than half say nothing about the node."""
    findings = node.run(MINUTE, **fabric(3, fabric_health=2))
    assert {f.device.kind for f in findings} == {"gpu"}
    assert len(findings) == 3


def test_the_manager_of_a_node_is_well_when_fewer_than_half_are_bad(node: Feed) -> None:
    """What is left is about the GPU that is still bad."""
    node.run(MINUTE, **fabric(8, fabric_health=2))
    node.run(3 * MINUTE, **fabric(1, fabric_health=2))
    assert open_findings(node.findings) == [("gpu", gpu(0), HEALTH, "page")]


def test_degraded_bandwidth_of_all_gpus_is_one_ticket_about_the_node(node: Feed) -> None:
    """As when a switch of the rack is out of service."""
    findings = node.run(11 * MINUTE, **fabric(8, fabric_health=3))
    assert updates(findings)[0] == ("node", "n1", MANAGER, "ticket", "onset")


def test_gpus_that_start_up_are_silent_for_ten_minutes(node: Feed) -> None:
    """Registration begins again with each boot, driver load and reset."""
    node.boot = "boot-2"
    assert node.run(8 * MINUTE, **fabric(8, fabric_state=IN_PROGRESS)) == []
    assert node.run(MINUTE, **fabric()) == []
    node.restart_counters()
    assert node.run(8 * MINUTE, **fabric(8, fabric_state=NOT_STARTED)) == []


def test_gpus_that_do_not_register_after_a_boot_are_a_page_about_the_fabric_manager(
    node: Feed,
) -> None:
    """They were registered in the boot before, so that they should be."""
    node.boot = "boot-2"
    findings = node.run(12 * MINUTE, **fabric(8, fabric_state=IN_PROGRESS))
    assert updates(findings)[0] == ("node", "n1", MANAGER, "page", "onset")
    assert "not registered" in findings[0].summary


def test_gpus_that_never_registered_are_a_ticket() -> None:
    """On a host of virtual machines they wait for a partition."""
    feed = Feed(NvLinkFabric())
    findings = feed.run(12 * MINUTE, **fabric(8, fabric_state=IN_PROGRESS))
    assert {(f.device.kind, f.fault, f.severity) for f in findings} == {
        ("node", MANAGER, "ticket"),
        ("gpu", REGISTRATION, "ticket"),
    }


def test_a_gpu_that_never_registered_beside_others_that_did_is_a_page() -> None:
    """It is the only one of its node."""
    feed = Feed(NvLinkFabric())
    findings = feed.run(12 * MINUTE, **fabric(1, fabric_state=IN_PROGRESS))
    assert open_findings(findings) == [("gpu", gpu(0), REGISTRATION, "page")]


@pytest.mark.parametrize(
    "values",
    [
        {"fabric_state": NOT_SUPPORTED},
        {"fabric_state": NOT_SUPPORTED, "fabric_health": 0, "fabric_health_mask": 0},
        {"fabric_state": None},
        {"fabric_state": NOT_STARTED, "nvlinks_up": 0},
        {"fabric_state": IN_PROGRESS, "mig_mode_current": 1},
        {"fabric_health": 0, "fabric_health_mask": 0},
        {"fabric_health_mask": 0xAA},
        {"fabric_state": 200.0, "fabric_health": 77.0, "fabric_health_mask": 2.0**40},
    ],
    ids=str,
)
def test_what_is_no_fault_is_silent(values: dict[str, float | None]) -> None:
    """Models without an NVSwitch, older drivers, MIG, and values that cannot be."""
    assert Feed(NvLinkFabric()).run(30 * MINUTE, **fabric(8, **values)) == []


def test_a_single_gpu_without_others_is_not_expected_to_register() -> None:
    """A virtual machine of one GPU has no fabric, and NVML says so in several ways."""
    feed = Feed(NvLinkFabric(), gpus=1)
    values = {name: value[:1] for name, value in fabric(1, fabric_state=NOT_STARTED).items()}  # type: ignore[index]
    assert feed.run(30 * MINUTE, **values) == []


def test_a_fault_that_comes_back_within_the_hour_is_reported_each_time(node: Feed) -> None:
    """NVML states it, and jobs fail each time; its incident counts them."""
    found = relapse(
        node.clock,
        lambda: node.run(MINUTE, **fabric(1, fabric_health=2)),
        lambda: node.run(2 * MINUTE, **fabric()),
    )
    assert [f.phase for f in found] == ["onset", "cleared"]


def test_a_node_in_maintenance_is_silent(node: Feed) -> None:
    """Its Fabric Manager is being restarted."""
    node.event(Device("n1", "node", "n1"), "maintenance_started", reason="new driver")
    assert node.run(30 * MINUTE, **fabric(8, fabric_state=NOT_STARTED)) == []


def test_a_gpu_that_was_replaced_takes_its_fault_along(node: Feed) -> None:
    """Another one is in its slot."""
    node.run(MINUTE, **fabric(1, fabric_health=2))
    node.gpus[0] = replace(node.gpus[0], id="GPU-new")
    assert [f.phase for f in node.run(MINUTE, **fabric())] == ["cleared"]


def test_gpus_that_cannot_be_read_change_nothing(node: Feed) -> None:
    """What is open about the node stays open until the fabric is read again."""

    def opened() -> list[tuple[str, str, str, str]]:
        return open_findings(node.findings)

    node.run(MINUTE, **fabric(8, fabric_health=2))
    before = opened()
    node.run(10 * MINUTE, **fabric(8, **dict.fromkeys(fabric())))
    assert opened() == before
    assert len(before) == 9

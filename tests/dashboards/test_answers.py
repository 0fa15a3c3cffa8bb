"""Every query of every panel before a real Prometheus: it answers, with the labels that the panel
names, and each fault changes its panel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pytest

from tests.dashboards.day import Day, lived
from tests.dashboards.panels import DASHBOARDS, Target, panels, targets
from tests.dashboards.rare import RARE

pytestmark = pytest.mark.integration

TARGETS = {str(target): target for target in targets()}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """One day for all questions."""
    with lived(tmp_path_factory.mktemp("day")) as seen:
        yield seen


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in RARE])
def test_every_query_is_answered_with_the_labels_that_it_is_named_by(day: Day, name: str) -> None:
    """Prometheus gives data for it, and each series has the labels that its legend shows."""
    target = TARGETS[name]
    series = day.sick(target)
    assert series
    for label in re.findall(r"{{(\w+)}}", target.legend):
        assert all(label in each["metric"] for each in series)


RARELY = {(TARGETS[name].dashboard, TARGETS[name].panel) for name in RARE}
TABLES = [
    (name, panel)
    for name, board in DASHBOARDS.items()
    for panel in panels(board)
    if panel["type"] == "table" and (name, panel["title"]) not in RARELY
]


@pytest.mark.parametrize(
    ("name", "panel"), TABLES, ids=lambda part: part if isinstance(part, str) else part["title"]
)
def test_every_column_of_a_table_is_a_label_or_a_value_of_its_queries(
    day: Day, name: str, panel: dict[str, Any]
) -> None:
    """No column stays empty for a name that is spelt wrong."""
    asked = [
        target for target in targets() if (target.dashboard, target.panel) == (name, panel["title"])
    ]
    labels = {
        label for target in asked for series in day.sick(target) for label in series["metric"]
    }
    values = {"Value"} if len(asked) == 1 else {f"Value #{target.letter}" for target in asked}
    (include,) = (
        step["options"]["include"]
        for step in panel["transformations"]
        if step["id"] == "filterFieldsByName"
    )
    assert set(include["names"]) <= labels | values


class Change(NamedTuple):
    """What a fault does to a panel: how the series of its device changes, and which of
    the same panel must not.
    """

    fault: str
    target: str
    device: Mapping[str, str]
    how: Literal["appears", "rises", "falls"]
    unhurt: Mapping[str, str] | None = None


def _gpu(node: str, number: int) -> Mapping[str, str]:
    return {"instance": f"{node}:9400", "gpu": str(number)}


def _port(name: str) -> Mapping[str, str]:
    return {"instance": "braked:9400", "device": name}


def _node(name: str) -> Mapping[str, str]:
    return {"instance": f"{name}:9400"}


WELL = _gpu("braked", 7)
CHANGES = (
    Change("nccl_stall", "job: Jobs A", {"exported_job": "1000"}, "rises"),
    Change("nccl_stall", "job: Stalled, by node A", _node("stalled"), "rises"),
    Change("nccl_stall", "job: Verdicts A", _node("stalled"), "appears"),
    Change(
        "nccl_stall", "waste: Held and idle A", _gpu("stalled", 4), "appears", _gpu("stalled", 5)
    ),
    Change(
        "nccl_stall",
        "waste: Held and idle B",
        {**_gpu("stalled", 4), "held_by": "1000"},
        "appears",
        _gpu("stalled", 5),
    ),
    Change("nvlink_errors", "node: NVLink errors A", _gpu("braked", 0), "rises", WELL),
    Change("pcie_narrow", "node: PCIe lanes A", _gpu("braked", 1), "falls", WELL),
    Change("pcie_replay", "node: PCIe replays A", _gpu("braked", 2), "rises", WELL),
    Change("thermal", "node: Temperature A", _gpu("braked", 3), "rises", WELL),
    Change("thermal", "thermal: Braked by hardware A", _gpu("braked", 3), "appears", WELL),
    Change("power_brake", "thermal: Braked by hardware A", _gpu("braked", 4), "appears", WELL),
    Change(
        "power_limit", "thermal: Limits below the default A", _gpu("braked", 5), "appears", WELL
    ),
    Change("slow_clock", "node: SM clock A", _gpu("braked", 6), "falls", WELL),
    Change(
        "symbol_errors", "fabric: Bit error ratio A", _port("mlx5_0"), "appears", _port("mlx5_7")
    ),
    Change(
        "link_flap", "fabric: Flaps and recoveries A", _port("mlx5_1"), "appears", _port("mlx5_7")
    ),
    Change(
        "link_down", "fabric: Ports that were down A", _port("mlx5_2"), "appears", _port("mlx5_7")
    ),
    Change(
        "link_down",
        "fabric: Unhealthy ports A",
        _port("mlx5_2"),
        "appears",
        {**_node("dying"), "device": "mlx5_2"},
    ),
    Change("nic_lost", "fleet: Every port A", _port("mlx5_3"), "rises", _port("mlx5_7")),
    Change(
        "ecc_dbe", "memory: Uncorrectable errors A", _gpu("dying", 0), "appears", _gpu("dying", 4)
    ),
    Change(
        "ecc_dbe",
        "memory: GPUs with a memory history C",
        _gpu("dying", 0),
        "appears",
        _gpu("dying", 4),
    ),
    Change("ecc_dbe", "memory: XIDs of memory A", _gpu("dying", 0), "appears", _gpu("dying", 3)),
    Change("remap failed", "memory: To be replaced A", {}, "rises"),
    Change(
        "remap failed",
        "memory: GPUs with a memory history A",
        _gpu("dying", 1),
        "appears",
        _gpu("dying", 4),
    ),
    Change("sram_threshold", "memory: SRAM threshold A", {}, "rises"),
    Change("driver_hang", "node: GPU state A", _gpu("dying", 3), "rises", WELL),
    Change(
        "driver_hang",
        "agents: Driver calls that hung A",
        _node("dying"),
        "appears",
        _node("braked"),
    ),
    Change("gpu_lost", "fleet: Every GPU A", _gpu("dying", 4), "rises", WELL),
    Change("gpu_lost", "fleet: Open pages A", {}, "rises"),
    Change("gpu_lost", "fleet: Open incidents A", _node("dying"), "appears"),
    Change(
        "gpu_lost",
        "node: XIDs A",
        {**_gpu("dying", 4), "xid": "79"},
        "appears",
        {**WELL, "xid": "79"},
    ),
    Change(
        "ecc_storm",
        "gpu: Memory errors A",
        {**_gpu("dying", 5), "type": "corrected"},
        "appears",
        _gpu("dying", 4),
    ),
    Change("remap exhausted", "memory: Banks without spares A", {}, "rises"),
    Change(
        "xid 31", "gpu: XIDs A", {**_gpu("dying", 7), "xid": "31"}, "appears", {**WELL, "xid": "31"}
    ),
    Change("refused upload", "store: Refused A", {}, "appears"),
)


def _values(series: Sequence[Mapping[str, Any]], device: Mapping[str, str]) -> list[float]:
    """All values over time of the series of one device."""
    of_device = [each for each in series if device.items() <= each["metric"].items()]
    return [float(value) for each in of_device for _, value in each["values"]]


def _changed(day: Day, target: Target, device: Mapping[str, str], how: str) -> bool:
    before, after = _values(day.quiet(target), device), _values(day.sick(target), device)
    if how == "appears":
        return bool(after) and not before
    if not before or not after:
        return False
    # A tenth: what a picture shows and noise does not reach.
    return max(after) > 1.1 * max(before) if how == "rises" else min(after) < 0.9 * min(before)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.fault}: {change.target}")
def test_a_fault_changes_the_panel_meant_for_it(day: Day, change: Change) -> None:
    """The series of the hurt device changes in it, and that of an unhurt one does not."""
    target = TARGETS[change.target]
    assert _changed(day, target, change.device, change.how)
    if change.unhurt is not None:
        assert not _changed(day, target, change.unhurt, change.how)


@pytest.mark.parametrize(
    ("count", "colours"), [("Failed devices", {3.0}), ("Degraded devices", {1.0, 2.0})]
)
def test_the_counts_of_the_fleet_are_those_of_its_cells(
    day: Day, count: str, colours: set[float]
) -> None:
    """Red cells are failed devices, yellow and orange ones degraded: at every moment as many."""
    cells = [
        (time, float(value))
        for panel in ("Every GPU", "Every port")
        for each in day.sick(TARGETS[f"fleet: {panel} A"])
        for time, value in each["values"]
    ]
    (counted,) = day.sick(TARGETS[f"fleet: {count} A"])
    numbers = {time: int(value) for time, value in counted["values"]}
    seen = {at: sum(time == at and value in colours for time, value in cells) for at in numbers}
    assert numbers == seen
    assert any(numbers.values())


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("fleet: Open incidents A", {"GPU 4", "port mlx5_2/1"}),
        ("fleet: Open incidents B", {"GPU 4", "port mlx5_2/1"}),
        ("node: Open findings A", {"GPU 4", "port mlx5_2/1"}),
    ],
)
def test_devices_are_named_by_index_and_port(day: Day, target: str, names: set[str]) -> None:
    """Not by UUID or GUID, which nobody knows by heart; each series of the metric once."""
    series = day.sick(TARGETS[target])
    named = {each["metric"]["named"] for each in series}
    assert names <= named
    assert not [name for name in named if name.startswith(("GPU-", "0x"))]
    bare = [tuple({**each["metric"], "named": ""}.items()) for each in series]
    assert len(set(bare)) == len(bare)


def test_prometheus_has_nothing_to_complain_of(day: Day) -> None:
    """Neither pages nor rules nor queries bring a warning into its log."""
    assert day.prometheus.complaints() == []

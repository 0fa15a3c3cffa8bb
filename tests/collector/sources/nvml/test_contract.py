"""For every field of the catalogue: a raw value scripted in the driver is
found, exactly, in the frame.

The real pynvml asks the C stub. Each field is read in every way its ``read`` names: the n-th
reading scripts the n-th way alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.catalog import Field, facts_of, fields_of
from pipeline.frame import Frame
from simulator.nvml_state import (
    DOUBLE,
    INT,
    SLONGLONG,
    ULONGLONG,
    UNSIGNED,
    USHORT,
    NvmlState,
)
from tests.collector.sources.nvml.conftest import Scripted
from tests.collector.sources.nvml.node import ScriptedNode, frame, uuid, values

pytestmark = pytest.mark.slow

KINDS = ("gpu", "gpu_instance", "nvlink")
LINK = 7
INSTANCE = 5
DEVICE = {"gpu": "0", "gpu_instance": f"0.{INSTANCE}", "nvlink": "0"}
FIELDS = [field for kind in KINDS for field in fields_of(kind) if field.read != "source"]
CASES = [(field, number) for field in FIELDS for number in range(len(field.read.split(" | ")))]

# C types narrower than what a field value can carry (nvml.h).
NATURAL_64 = re.compile(
    r"field|MemoryInfo|BAR1|ClocksEvent|ClocksThrottle|TotalEnergy|NvLinkErrorCounter|EccErrors|"
    r"MemoryErrorCounter|(aggregate|volatile)\w+$"
)
BYTE = re.compile(r"FabricInfoV\(\)\.(state|healthSummary)")


def ways(field: Field) -> list[str]:
    """The ways to ask."""
    return field.read.split(" | ")


def raw(field: Field, asked: str) -> tuple[int | float, int]:
    """A value that no other field of its kind has, as large as its C type allows, and
    its type as a field value.
    """
    if asked.startswith("gpm"):
        return field.id + 0.5, DOUBLE
    if asked.endswith("as bit_error_ratio"):
        return (field.id % 13 + 2) << 8 | field.id % 200, ULONGLONG
    if asked.endswith("as valid"):
        return 0, ULONGLONG  # the call's success is the value
    if asked.endswith("_celsius") or field.name.endswith("_celsius"):
        return field.id % 150, UNSIGNED
    if asked.endswith(".length"):
        return field.id % 11 + 1, ULONGLONG
    if BYTE.search(asked):
        return field.id % 251, ULONGLONG
    if NATURAL_64.search(asked) and field.type == "counter":
        return 2**63 + 2**53 + field.id, ULONGLONG
    if NATURAL_64.search(asked):
        return 2**40 + field.id, ULONGLONG
    return 2**31 + field.id if field.type == "counter" else 2**20 + field.id, ULONGLONG


def wanted(field: Field, asked: str) -> float | int:
    """What the frame must hold: the native value."""
    value, _ = raw(field, asked)
    if asked.endswith("as bit_error_ratio"):
        return float(f"{int(value) >> 8}e-{int(value) & 0xFF}")
    return 1 if asked.endswith("as valid") else value


def question(asked: str) -> str:
    """Key of a way in the table: without the codec, the link filled in."""
    return (
        asked.partition(" as ")[0]
        .replace("scope link", f"scope {LINK}")
        .replace("(link", f"({LINK}")
    )


def script(table: NvmlState, number: int) -> None:
    """Let every field that has an n-th way be answered in that way, and nothing else."""
    for field, asked in (
        (field, ways(field)[number]) for field in FIELDS if number < len(ways(field))
    ):
        value, kind = raw(field, asked)
        table.set(f"{DEVICE[field.kind]}/{question(asked)}", value, type=kind)


def prepare(node: ScriptedNode) -> None:
    """One GPU with links 0 to 7 and a MIG instance, as discovery sees them."""
    table = node.table
    for link in range(LINK + 1):
        table.set(f"0/nvmlDeviceGetNvLinkState({link})", 1)
    table.set("0/field 91", LINK + 1)
    table.set("0/nvmlDeviceGetMigMode()[0]", 1)
    table.set("0/nvmlDeviceGetMigDeviceHandleByIndex(0)", INSTANCE)
    table.set(f"0.{INSTANCE}/nvmlDeviceGetUUID()", "MIG-5")
    table.set(f"0.{INSTANCE}/nvmlDeviceGetGpuInstanceId()", INSTANCE)
    table.set(f"0.{INSTANCE}/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)
    table.set("0/nvmlGpmQueryDeviceSupport().isSupportedDevice", 1)


@pytest.fixture(scope="module")
def readings(stub: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Frame]]:
    """Frames by kind, one set per way."""
    read: list[dict[str, Frame]] = []
    for number in range(max(number for _, number in CASES) + 1):
        node = ScriptedNode(tmp_path_factory.mktemp("contract"), stub, 1)
        node.table.set("0/nvmlDeviceGetTemperature(0)", 0, result=3)
        node.table.set("0/field 83", 0, result=3)
        prepare(node)
        script(node.table, number)
        node.read()
        read.append({f.kind: f for f in node.read().frames})
        node.close()
    return read


@pytest.mark.parametrize(
    ("field", "number"),
    CASES,
    ids=lambda case: f"{case.kind}-{case.name}" if isinstance(case, Field) else None,
)
def test_a_scripted_value_is_found_exactly(
    readings: list[dict[str, Frame]], field: Field, number: int
) -> None:
    """What the driver says is what the frame holds, whichever way it was asked."""
    row = LINK if field.kind == "nvlink" else 0
    assert readings[number][field.kind].value(field.name, row) == wanted(field, ways(field)[number])


def test_values_tell_fields_apart() -> None:
    """The scripted counters of a kind are all different: a mixed-up column cannot pass."""
    for kind in KINDS:
        numbers = [raw(f, ways(f)[0])[0] for f in FIELDS if f.kind == kind and f.type == "counter"]
        assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (2**64 - 1, ULONGLONG, 2**64 - 1),
        (2**53 + 1, ULONGLONG, 2**53 + 1),
        (0, ULONGLONG, 0),
        (2**32 - 1, UNSIGNED, 2**32 - 1),
        (2**16 - 1, USHORT, 2**16 - 1),
        (12.0, DOUBLE, 12),
        (-1, SLONGLONG, None),
        (-1, INT, None),
        (7, 99, None),
    ],
)
def test_a_counter_takes_every_type(
    scripted: Scripted, value: float, kind: int, expected: int | None
) -> None:
    """Counters survive at full width in every value type; negative and unknown ones are
    unobserved, never wrapped.
    """
    node = scripted(1)
    node.table.set("0/field 83", value, type=kind)
    assert values(node.read())[0].get("energy_millijoules") == expected


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (-3, INT, -3),
        (-3, SLONGLONG, -3),
        (0.25, DOUBLE, 0.25),
        (2**32 - 5, UNSIGNED, 2**32 - 5),
        (7, 99, None),
    ],
)
def test_a_gauge_takes_every_type(
    scripted: Scripted, value: float, kind: int, expected: float | None
) -> None:
    """Gauges bear the sign and fraction of their value type."""
    node = scripted(1)
    node.table.set("0/field 186", value, type=kind)
    assert values(node.read())[0].get("power_instant_milliwatts") == expected


def test_what_is_left_over_in_a_buffer_is_not_read(scripted: Scripted) -> None:
    """A short value behind a long one in the same entry is read by its own width."""
    node = scripted(1)
    node.table.set("0/field 83", 2**63 + 9)
    node.read()
    node.table.set("0/field 83", 17, type=UNSIGNED)
    assert values(node.read())[0]["energy_millijoules"] == 17


# Facts: what is scripted, and what the attribute must be.
FACTS: dict[str, tuple[str, str | int, str]] = {
    "index": ("0/nvmlDeviceGetIndex()", 0, "0"),
    "uuid": ("0/nvmlDeviceGetUUID()", uuid(0), uuid(0)),
    "name": ("0/nvmlDeviceGetName()", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
    "pci_bus_id": ("0/nvmlDeviceGetPciInfo_v3().busId", "00000000:1B:00.0", "00000000:1B:00.0"),
    "serial": ("0/nvmlDeviceGetSerial()", "1652823", "1652823"),
    "brand": ("0/nvmlDeviceGetBrand()", 14, "NVIDIA"),
    "board_part_number": ("0/nvmlDeviceGetBoardPartNumber()", "692-2G520", "692-2G520"),
    "vbios": ("0/nvmlDeviceGetVbiosVersion()", "96.00.74", "96.00.74"),
    "inforom_image": ("0/nvmlDeviceGetInforomImageVersion()", "G520.0200", "G520.0200"),
    "inforom_oem": ("0/nvmlDeviceGetInforomVersion(0)", "2.1", "2.1"),
    "inforom_ecc": ("0/nvmlDeviceGetInforomVersion(1)", "7.16", "7.16"),
    "inforom_power": ("0/nvmlDeviceGetInforomVersion(2)", "4.2", "4.2"),
    "inforom_checksum": ("0/nvmlDeviceGetInforomConfigurationChecksum()", 123456, "123456"),
    "driver_version": ("-/nvmlSystemGetDriverVersion()", "580.95.05", "580.95.05"),
    "nvml_version": ("-/nvmlSystemGetNVMLVersion()", "13.580", "13.580"),
    "cuda_version": ("-/nvmlSystemGetCudaDriverVersion_v2()", 13000, "13000"),
    "minor_number": ("0/nvmlDeviceGetMinorNumber()", 3, "3"),
    "numa_node": ("0/nvmlDeviceGetNumaNodeId()", 1, "1"),
    "architecture": ("0/nvmlDeviceGetArchitecture()", 9, "Hopper"),
    "compute_capability": ("0/nvmlDeviceGetCudaComputeCapability()[0]", 9, "9.0"),
    "fabric_cluster": (
        "0/nvmlDeviceGetGpuFabricInfoV().clusterUuid",
        "44e08fa2-5a6e-5ac5-9f72-2ad6de66f9a5",
        "44e08fa2-5a6e-5ac5-9f72-2ad6de66f9a5",
    ),
    "platform_guid": (
        "0/nvmlDeviceGetPlatformInfo().ibGuid",
        "a088c203006ca9ad",
        "a088c203006ca9ad",
    ),
    "chassis_serial": (
        "0/nvmlDeviceGetPlatformInfo().chassisSerialNumber",
        "1852663560621",
        "1852663560621",
    ),
    "chassis_slot": ("0/nvmlDeviceGetPlatformInfo().slotNumber", 200, "200"),
    "tray": ("0/nvmlDeviceGetPlatformInfo().trayIndex", 5, "5"),
    "platform_host": ("0/nvmlDeviceGetPlatformInfo().hostId", 2, "2"),
    "peer_type": ("0/nvmlDeviceGetPlatformInfo().peerType", 1, "1"),
    "module": ("0/nvmlDeviceGetPlatformInfo().moduleId", 4, "4"),
}


def test_every_fact_is_found(scripted: Scripted) -> None:
    """Every slow fact of a GPU that the driver gives is an attribute of its device."""
    assert set(FACTS) == {f.name for f in facts_of("gpu") if f.read.startswith("nvml")}
    node = scripted(1)
    for key, value, _ in FACTS.values():
        node.table.set(key, value)
    attributes = frame(node.read(), "gpu").devices[0].attributes
    assert {name: attributes[name] for name in FACTS} == {
        name: text for name, (_, _, text) in FACTS.items()
    }


def test_facts_of_links_are_found(scripted: Scripted) -> None:
    """A link knows its GPU, its number, its version and what is at its other end."""
    node = scripted(1)
    prepare(node)
    node.table.set(f"0/nvmlDeviceGetNvLinkVersion({LINK})", 4)
    node.table.set(f"0/nvmlDeviceGetNvLinkRemoteDeviceType({LINK})", 2)
    node.table.set(f"0/nvmlDeviceGetNvLinkRemotePciInfo({LINK}).busId", "00000000:C1:00.0")
    device = frame(node.read(), "nvlink").devices[LINK]
    assert device.id == f"{uuid(0)}/{LINK}"
    assert dict(device.attributes) == {
        "index": "0",
        "gpu_uuid": uuid(0),
        "link": str(LINK),
        "version": "4",
        "remote_type": "2",
        "remote_pci_bus_id": "00000000:C1:00.0",
    }

"""The default counter set as a page: name, TYPE, HELP, labels, order, in both
generations, on five kinds of node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pipeline.dcgm import Compat
from tests import golden
from tests.pipeline.dcgm import nodes
from tests.pipeline.dcgm.nodes import Node

NODES: dict[str, Callable[[Node], Node]] = {
    "hgx-h100": nodes.hgx,
    "a100-mig": nodes.mig,
    "lost-gpu": nodes.lost,
    "no-nvlink": nodes.without_nvlink,
    "vgpu-guest": nodes.vgpu_guest,
}
MODES = get_args(Compat)

# dcgm-exporter 4.8.2, etc/default-counters.csv, in order of field id: name
# after DCGM_FI_, type, HELP.
DEFAULT = (
    ("DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    ("DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    ("DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
    ("DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."),
    ("DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."),
    ("DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."),
    ("DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."),
    ("DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    ("DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB)."),
    (
        "DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors",
    ),
    ("DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors"),
    ("DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed"),
    (
        "DEV_NVLINK_BANDWIDTH_TOTAL",
        "counter",
        "Total number of NVLink bandwidth counters for all lanes.",
    ),
    ("DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status"),
    ("PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
    ("PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active."),
    (
        "PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
    ),
    (
        "PROF_PCIE_TX_BYTES",
        "gauge",
        (
            "The rate of data transmitted over the PCIe bus - including both protocol headers and "
            "data payloads - in bytes per second."
        ),
    ),
    (
        "PROF_PCIE_RX_BYTES",
        "gauge",
        (
            "The rate of data received over the PCIe bus - including both protocol headers and "
            "data payloads - in bytes per second."
        ),
    ),
)

# The names of dcgm-exporter 4.9.0 (release notes), and the factor between the units.
RENAMED = {
    "DEV_SM_CLOCK": ("DEV_SM_CLOCK_HERTZ", 1e6),
    "DEV_MEM_CLOCK": ("DEV_MEMORY_CLOCK_HERTZ", 1e6),
    "DEV_TOTAL_ENERGY_CONSUMPTION": ("DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3),
    "DEV_GPU_UTIL": ("DEV_GPU_UTIL_RATIO", 1e-2),
    "DEV_MEM_COPY_UTIL": ("DEV_MEMORY_UTIL_RATIO", 1e-2),
    "DEV_ENC_UTIL": ("DEV_ENC_UTIL_RATIO", 1e-2),
    "DEV_DEC_UTIL": ("DEV_DEC_UTIL_RATIO", 1e-2),
    "DEV_FB_FREE": ("DEV_FB_FREE_BYTES", 2.0**20),
    "DEV_FB_USED": ("DEV_FB_USED_BYTES", 2.0**20),
    "DEV_FB_RESERVED": ("DEV_FB_RESERVED_BYTES", 2.0**20),
    "DEV_NVLINK_BANDWIDTH_TOTAL": ("DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1024e3),
    "DEV_MEMORY_TEMP": ("DEV_MEMORY_TEMP_CELSIUS", 1),
    "DEV_GPU_TEMP": ("DEV_GPU_TEMP_CELSIUS", 1),
    "DEV_POWER_USAGE": ("DEV_BOARD_POWER_WATTS", 1),
    "DEV_PCIE_REPLAY_COUNTER": ("DEV_PCIE_REPLAY_TOTAL", 1),
    "DEV_XID_ERRORS": ("DEV_XID_ERROR", 1),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ("DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 1),
    "DEV_CORRECTABLE_REMAPPED_ROWS": ("DEV_ROW_REMAP_CORRECTABLE_TOTAL", 1),
    "DEV_ROW_REMAP_FAILURE": ("DEV_ROW_REMAP_FAILED", 1),
    "PROF_GR_ENGINE_ACTIVE": ("PROF_GR_ENGINE_UTIL_RATIO", 1),
    "PROF_PIPE_TENSOR_ACTIVE": ("PROF_TENSOR_UTIL_RATIO", 1),
    "PROF_DRAM_ACTIVE": ("PROF_DRAM_UTIL_RATIO", 1),
}
NEW_IN_49 = "DEV_FB_CAPACITY_BYTES"


def described(page: str) -> list[tuple[str, str, str]]:
    """(name after DCGM_FI_, type, HELP) of the families of a page in its order."""
    lines = page.splitlines()
    helps = {
        line.split(" ", 3)[2]: line.split(" ", 3)[3] for line in lines if line.startswith("# HELP ")
    }
    kinds = [line.split(" ")[2:] for line in lines if line.startswith("# TYPE ")]
    return [(name.removeprefix("DCGM_FI_"), kind, helps[name]) for name, kind in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("compat", MODES)
@pytest.mark.parametrize("name", NODES)
def test_the_default_set_is_the_golden_page(name: str, compat: Compat) -> None:
    """Every line of the page, and both parsers of prometheus_client read it."""
    node = NODES[name](Node(compat=compat))
    page = node.page()
    assert node.dropped == {"duplicate": 0, "not_finite": 0, "negative_counter": 0}
    golden.check(f"dcgm/{name}.{compat}.prom", page)
    assert list(parse_text(page))
    assert list(parse_openmetrics(node.page(openmetrics=True) + "# EOF\n"))  # type: ignore[no-untyped-call]  # not annotated


def test_48_is_described_as_dcgm_exporter_describes_it() -> None:
    """Names, types, HELP texts and their order by field id, from its own counters file."""
    assert described(nodes.hgx(Node()).page()) == list(DEFAULT)


def test_49_has_the_renamed_families_and_the_new_one() -> None:
    """Each legacy name has gone and its successor stands, in order of name."""
    found = [name for name, _, _ in described(nodes.hgx(Node(compat="dcgm-4.9")).page())]
    wanted = {RENAMED.get(name, (name, 1))[0] for name, _, _ in DEFAULT} | {NEW_IN_49}
    assert found == sorted(wanted)


def test_both_has_each_family_of_either_once() -> None:
    """The union of the two generations; never two units under one name."""
    found = [name for name, _, _ in described(nodes.hgx(Node(compat="both")).page())]
    wanted = {name for name, _, _ in DEFAULT} | {new for new, _ in RENAMED.values()} | {NEW_IN_49}
    assert found == sorted(wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "factor"), [(old, new, factor) for old, (new, factor) in RENAMED.items()]
)
def test_49_values_are_the_same_in_other_units(old: str, new: str, factor: float) -> None:
    """Side by side on one page, up to what the old unit cannot express."""
    node = nodes.hgx(Node(compat="both"))
    node.clock.advance(1)
    more = {"nvlink_transmit_kibibytes": 10_500_000, "nvlink_receive_kibibytes": 20_250_000}
    node.see(gpu=[(nodes.gpu(i), nodes.busy(**more)) for i in range(8)])
    before, after = node.values(f"DCGM_FI_{old}"), node.values(f"DCGM_FI_{new}")
    assert len(before) == len(after) == 8
    for a, b in zip(before, after, strict=True):
        assert abs(a * factor - b) <= max(factor, 1) * (factor != 1)
        assert bool(a) == bool(b)


def test_the_driver_label_is_that_of_the_familys_generation() -> None:
    """In `both` each family carries the driver label of its own generation."""
    node = nodes.hgx(Node(compat="both"))
    (old, *_), (new, *_) = (
        node.lines("DCGM_FI_DEV_GPU_TEMP"),
        node.lines("DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    )
    assert 'DCGM_FI_DRIVER_VERSION="570.86.10"' in old
    assert "SYSTEM_DRIVER" not in old
    assert 'DCGM_FI_SYSTEM_DRIVER_VERSION="570.86.10"' in new
    assert "DCGM_FI_DRIVER" not in new

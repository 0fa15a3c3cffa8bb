"""The real driver: what the source reads is what nvidia-smi says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.nvml.source import NvmlSource
from pipeline.child import run
from pipeline.clock import SystemClock
from pipeline.frame import Frame
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.nvml.node import frame, states
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.gpu

# Field, path in `nvidia-smi -q -x`, factor from its unit to ours, and how much may
# change between two looks.
COMPARED = (
    ("temperature_celsius", "temperature/gpu_temp", 1, 5),
    ("memory_total_bytes", "fb_memory_usage/total", 2**20, 2**20),
    ("memory_used_bytes", "fb_memory_usage/used", 2**20, 2**30),
    ("memory_reserved_bytes", "fb_memory_usage/reserved", 2**20, 2**26),
    ("bar1_total_bytes", "bar1_memory_usage/total", 2**20, 2**20),
    ("sm_maximum_clock_megahertz", "max_clocks/sm_clock", 1, 0),
    ("memory_maximum_clock_megahertz", "max_clocks/mem_clock", 1, 0),
    ("pcie_generation_maximum", "pci/pci_gpu_link_info/pcie_gen/max_link_gen", 1, 0),
    ("pcie_width_current", "pci/pci_gpu_link_info/link_widths/current_link_width", 1, 0),
    ("pcie_replays", "pci/replay_counter", 1, 10),
    ("ecc_corrected_aggregate", "ecc_errors/aggregate/dram_correctable", 1, 10**6),
    ("remapped_rows_correctable", "remapped_rows/remapped_row_corr", 1, 0),
    ("remapped_rows_uncorrectable", "remapped_rows/remapped_row_unc", 1, 0),
    (
        "row_remap_banks_max",
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_max",
        1,
        0,
    ),
    (
        "row_remap_banks_none",
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_none",
        1,
        0,
    ),
)
FACTS = (
    ("name", "product_name"),
    ("serial", "serial"),
    ("vbios", "vbios_version"),
    ("board_part_number", "board_part_number"),
)


def number(text: str | None) -> float | None:
    """Number of a value with its unit, None for N/A."""
    word = (text or "").replace("x", " ").split()
    try:
        return float(word[0])
    except (IndexError, ValueError):
        return None


@pytest.fixture(scope="module")
def said() -> ET.Element:
    """What nvidia-smi says of all GPUs."""
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("nvidia-smi is missing: this machine has no NVIDIA driver")
    finished = run([program, "-q", "-x"], timeout_s=PATIENCE_S)
    if finished.returncode:
        pytest.skip(f"nvidia-smi finds no GPU: {finished.stdout.decode(errors='replace').strip()}")
    return ET.fromstring(finished.stdout)  # noqa: S314 - written by the driver's own tool


@pytest.fixture(scope="module")
def read(said: ET.Element) -> Iterator[Frame]:
    """The GPUs through the source, second reading."""
    source = NvmlSource("", "n1", SystemClock(), Inventory("n1", State(None)), SelfMetrics())
    source.read()
    reading = source.read()
    assert set(states(reading)) == {"ok"}
    yield frame(reading, "gpu")
    source.close()


def test_the_same_gpus_are_found(said: ET.Element, read: Frame) -> None:
    """UUIDs and their order agree."""
    assert [d.id for d in read.devices] == [gpu.findtext("uuid") for gpu in said.iter("gpu")]


@pytest.mark.parametrize("compared", COMPARED, ids=[c[0] for c in COMPARED])
def test_values_agree(said: ET.Element, read: Frame, compared: tuple[str, str, int, int]) -> None:
    """A value that both show is the same, within what may change between two looks."""
    field, path, factor, slack = compared
    for row, gpu in enumerate(said.iter("gpu")):
        shown, ours = number(gpu.findtext(path)), read.value(field, row)
        if shown is not None:
            assert ours is not None
            assert abs(ours - shown * factor) <= slack + (factor - 1)


@pytest.mark.parametrize(("fact", "path"), FACTS)
def test_facts_agree(said: ET.Element, read: Frame, fact: str, path: str) -> None:
    """Name, serial, VBIOS and board are those that nvidia-smi shows."""
    for device, gpu in zip(read.devices, said.iter("gpu"), strict=True):
        text = gpu.findtext(path)
        if text not in {None, "N/A"}:
            assert device.attributes[fact] == text

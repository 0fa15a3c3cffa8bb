"""The PCIe link of an adapter, as the kernel states it: what it runs at, and
what it could in this slot.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collector.sources.infiniband.sysfs import Sysfs
from tests.collector.sources.infiniband.test_contract import read

# below the bridge 0000:15:01.0
FOLDER = Path("devices", "pci0000:15", "0000:15:01.0", "0000:18:00.0")
WELL = {
    "current_link_width": "16",
    "max_link_width": "16",
    "current_link_speed": "32.0 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
}


@pytest.fixture
def tree(tmp_path: Path) -> Sysfs:
    """An adapter in a slot of a bridge, all lanes up."""
    tree = Sysfs(tmp_path)
    device = tree.add().parent.parent / "device"
    pci = tree.root / FOLDER
    pci.parent.mkdir(parents=True)
    device.rename(pci)
    device.symlink_to(pci)
    put(tree, WELL)
    return tree


def put(tree: Sysfs, files: dict[str, str], *, bridge: bool = False) -> None:
    """Files of the adapter, or of the bridge above it."""
    folder = tree.root / (FOLDER.parent if bridge else FOLDER)
    for name, text in files.items():
        tree.write(folder / name, text)


def shown(tree: Sysfs) -> dict[str, int | float | None]:
    """What the first frame holds."""
    source, _ = read(tree)
    frame = source.read().frames[0]
    source.close()
    return {
        f"{what} {end}": frame.value(f"pcie_{what}_{end}", 0)
        for what in ("width", "generation")
        for end in ("current", "maximum")
    }


def test_an_adapter_can_do_no_more_than_its_slot(tree: Sysfs) -> None:
    """A card with 16 lanes of generation 5 in a slot with 8 of generation 4 lacks nothing."""
    put(tree, {"current_link_width": "8", "current_link_speed": "16.0 GT/s PCIe"})
    put(tree, {"max_link_width": "8", "max_link_speed": "16.0 GT/s PCIe"}, bridge=True)
    assert shown(tree) == {
        "width current": 8,
        "width maximum": 8,
        "generation current": 4,
        "generation maximum": 4,
    }


def test_the_speeds_of_older_kernels_are_read(tree: Sysfs) -> None:
    """Linux before 5.7, as Ubuntu 20.04 and RHEL 8 have it, prints them without a decimal."""
    put(tree, {"current_link_speed": "8 GT/s", "max_link_speed": "16 GT/s"})
    found = shown(tree)
    assert (found["generation current"], found["generation maximum"]) == (3, 4)


def test_where_the_bridge_says_nothing_the_adapter_alone_counts(tree: Sysfs) -> None:
    """A root complex has no such files."""
    put(tree, {"current_link_width": "8"})
    assert shown(tree) == {
        "width current": 8,
        "width maximum": 16,
        "generation current": 5,
        "generation maximum": 5,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        {
            "current_link_width": "0",
            "max_link_width": "0",
            "current_link_speed": "Unknown",
            "max_link_speed": "Unknown",
        },
        {
            "current_link_width": "63",
            "max_link_width": "255",
            "current_link_speed": "",
            "max_link_speed": "-1",
        },
        {
            "current_link_width": "x" * 5000,
            "max_link_width": "x" * 5000,
            "current_link_speed": "nan",
            "max_link_speed": "1e9 GT/s",
        },
    ],
    ids=["virtual function", "no answer", "nonsense"],
)
def test_what_is_no_width_or_speed_is_not_observed(tree: Sysfs, files: dict[str, str]) -> None:
    """A virtual function has no link of its own, and a device that does
    not answer shows all ones.
    """
    put(tree, files)
    assert set(shown(tree).values()) == {None}


def test_a_link_that_trains_anew_is_seen_within_a_minute(tree: Sysfs) -> None:
    """It is read with the slow facts."""
    source, clock = read(tree)
    source.read()
    put(tree, {"current_link_width": "4"})
    clock.advance(60)
    assert source.read().frames[0].value("pcie_width_current", 0) == 4
    source.close()

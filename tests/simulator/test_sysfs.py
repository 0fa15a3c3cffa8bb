"""The tree below /sys is the kernel's: layout, spelling, widths, and files
that readers may keep open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.catalog import fields_of
from simulator.files import LiveFile
from simulator.node import Node
from simulator.sysfs import SysfsRenderer
from tests.simulator.nodes import training

pytestmark = pytest.mark.slow  # each makes a simulated node or a store

PORT = "class/infiniband/mlx5_4/ports/1"


@pytest.fixture
def busy() -> Node:
    """A training node."""
    return training()


@pytest.fixture
def sysfs(tmp_path: Path, busy: Node) -> Iterator[SysfsRenderer]:
    """Its tree below tmp_path."""
    renderer = SysfsRenderer(tmp_path, busy)
    renderer.render()
    yield renderer
    renderer.close()


@pytest.mark.usefixtures("sysfs")
def test_every_file_of_the_catalogue_is_there(tmp_path: Path) -> None:
    """Each sysfs and net file that a field of a port is read from exists
    and holds one short line.
    """
    for field in fields_of("ib_port"):
        for way in field.read.split(" | "):
            source, _, name = way.partition(" ")
            if source in ("sysfs", "net"):
                file = tmp_path / (PORT if source == "sysfs" else "class/net/ibp154s0") / name
                assert re.fullmatch(r"[ -~]{1,64}\n", file.read_text()), file


@pytest.mark.usefixtures("sysfs")
def test_spelling_is_the_kernels(tmp_path: Path) -> None:
    """State, rate, GUIDs, GID and link layer look as
    drivers/infiniband/core/sysfs.c prints them.
    """
    texts = {
        name: (tmp_path / PORT / name).read_text()
        for name in ("state", "phys_state", "rate", "link_layer", "gids/0")
    }
    assert texts["state"] == "4: ACTIVE\n"
    assert texts["phys_state"] == "5: LinkUp\n"
    assert texts["rate"] == "400 Gb/sec (4X NDR)\n"
    assert texts["link_layer"] == "InfiniBand\n"
    assert re.fullmatch(r"fe80:0000:0000:0000(:[0-9a-f]{4}){4}\n", texts["gids/0"])
    guid = (tmp_path / "class/infiniband/mlx5_4/node_guid").read_text().strip()
    assert re.fullmatch(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}", guid)


@pytest.mark.usefixtures("sysfs")
def test_device_links_lead_to_pci_and_net(tmp_path: Path) -> None:
    """device/ is the PCI device with its NUMA node, and names the net device of the port."""
    device = tmp_path / "class/infiniband/mlx5_4/device"
    assert device.resolve().name == "0000:9a:00.0"
    assert (device / "numa_node").read_text() == "1\n"
    assert [p.name for p in (device / "net").iterdir()] == ["ibp154s0"]
    assert (tmp_path / "class/net/ibp154s0/device").resolve() == device.resolve()
    assert (tmp_path / "bus/pci/devices/0000:1b:00.0/vendor").read_text() == "0x10de\n"


def test_data_counters_are_words_of_four_bytes(
    tmp_path: Path, busy: Node, sysfs: SysfsRenderer
) -> None:
    """port_xmit_data counts 4-byte words, also beyond 2^53 bytes."""
    busy.ports.sent.value[4] = np.uint64(2**60 + 7)
    sysfs.render()
    assert int((tmp_path / PORT / "counters/port_xmit_data").read_text()) == (2**60 + 7) // 4


def test_narrow_counters_stick_at_their_end(
    tmp_path: Path, busy: Node, sysfs: SysfsRenderer
) -> None:
    """Every counter with a width in the catalogue shows at most its register's maximum."""
    for errors in busy.ports.errors.values():
        errors[:] = 2**40
    sysfs.render()
    checked = 0
    for field in fields_of("ib_port"):
        file = tmp_path / PORT / field.read.split(" | ")[0].removeprefix("sysfs ")
        if field.overflow == "sticks" and file.is_file() and int(file.read_text()) > 10**9 - 1:
            pytest.fail(
                f"{file} is wider than its {field.width} bits"
            ) if field.width < 32 else None
        if field.width < 32 and file.is_file() and int(file.read_text()):
            assert int(file.read_text()) == 2**field.width - 1
            checked += 1
    assert checked >= 6


def test_kept_open_files_show_new_values(tmp_path: Path, busy: Node, sysfs: SysfsRenderer) -> None:
    """A descriptor opened before a change reads the value after it, longer or shorter."""
    with (
        (tmp_path / PORT / "state").open("rb") as state,
        (tmp_path / PORT / "counters/port_xmit_data").open("rb") as sent,
    ):
        before = int(os.pread(sent.fileno(), 64, 0))
        busy.ports.lower(4)
        busy.ports.sent.add(np.full(8, 1e9))
        sysfs.render()
        assert os.pread(state.fileno(), 64, 0) == b"1: DOWN\n"
        assert int(os.pread(sent.fileno(), 64, 0)) == before + 250_000_000


def test_shrinking_file_never_shows_a_mixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between writing and cutting a shorter text, a reader that strips
    blanks sees the new text only.
    """
    file = LiveFile(tmp_path / "state", "4: ACTIVE")
    seen: list[bytes] = []
    monkeypatch.setattr(
        os, "ftruncate", lambda fd, size: seen.append((tmp_path / "state").read_bytes())
    )
    file.write("1: DOWN")
    assert [raw.strip() for raw in seen] == [b"1: DOWN"]
    file.close()


def test_lost_adapter_leaves_and_returns(tmp_path: Path, busy: Node, sysfs: SysfsRenderer) -> None:
    """Its folders vanish whole, and are made again when it is back."""
    busy.ports.present[4] = False
    sysfs.render()
    assert not (tmp_path / "class/infiniband/mlx5_4").is_symlink()
    assert not (tmp_path / "class/net/ibp154s0").is_symlink()
    busy.ports.present[4] = True
    sysfs.render()
    assert (tmp_path / PORT / "state").read_text() == "4: ACTIVE\n"

"""The contract of the catalogue: every field of a port is found in the frame
exactly as its place gives it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.infiniband import InfinibandSource
from collector.sources.infiniband.sysfs_port import counter_places
from pipeline.catalog import Field, facts_of, field, fields_of
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.infiniband.sysfs import Sysfs, counter_files
from tests.fakes import FakeClock
from tests.wait import until

COUNTERS = [f for f in fields_of("ib_port") if f.type == "counter"]
GAUGES = {f.name for f in fields_of("ib_port") if f.type == "gauge"}


def distinct(row: Field) -> int:
    """A value no other field has, and that no float64 holds: above 2**53 and odd.

    No reader may lose a bit of it.
    """
    return 2**64 - 1 - 2 * (row.id - 5000)


def read(tree: Sysfs, **settings: str) -> tuple[InfinibandSource, FakeClock]:
    """A source over the tree and its clock."""
    clock = FakeClock()
    settings.setdefault("perfquery", "")
    return InfinibandSource(
        tree.root,
        "n1",
        clock,
        Inventory("n1", State(None)),
        SelfMetrics(),
        **settings,  # type: ignore[arg-type]
    ), clock


def test_every_counter_of_sysfs_is_found_exactly(tmp_path: Path) -> None:
    """Each file's own 64-bit value stands in its own column of an Ethernet
    port, which has all of them.
    """
    tree = Sysfs(tmp_path)
    wanted = {row.name: distinct(row) for row in COUNTERS if row.read.startswith(("sysfs", "net"))}
    wanted["receive_words"] = 2**64 - 1
    tree.add(layer="Ethernet", net="eth0", counters=wanted)
    source, _ = read(tree)
    frame = source.read().frames[0]
    source.close()
    found = {row.name: frame.value(row.name, 0) for row in COUNTERS}
    assert {name: value for name, value in found.items() if value is not None} == wanted
    assert (
        len(set(wanted.values()))
        == len(wanted)
        == len(counter_files("sysfs")) + len(counter_files("net"))
    )


@pytest.mark.slow
@pytest.mark.parametrize("option", sorted(counter_places().perfquery))
def test_every_counter_of_perfquery_is_found_exactly(tmp_path: Path, option: str) -> None:
    """Where sysfs has no counters at all, each value of each set stands in its own column."""
    tree = Sysfs(tmp_path / "sys")
    port = tree.add()
    for file in counter_files("sysfs").values():
        (port / file).unlink()
    names = counter_places().perfquery[option]
    lines = "\n".join(
        f"{counter}:....{distinct(field('ib_port', name))}" for counter, name in names.items()
    )
    program = tmp_path / "perfquery"
    condition = f'[ "$1" = "{option}" ]' if option else '[ "$1" = -C ]'
    program.write_text(
        "#!/bin/sh\n"
        f"if {condition}; then cat <<E\n"
        "# Port counters: Lid 5 port 1 (CapMask: 0x1200)\n"
        f"{lines}\n"
        "E\n"
        "else exit 2; fi\n"
    )
    program.chmod(0o755)
    source, clock = read(tree, perfquery=str(program))

    def answered() -> bool:
        clock.advance(5)
        return bool(source.read().frames[0].observed.any())

    until(answered, f"the answer to perfquery {option}")
    frame = source.read().frames[0]
    source.close()
    found = {row.name: frame.value(row.name, 0) for row in COUNTERS}
    assert {name: value for name, value in found.items() if value is not None} == {
        name: distinct(field("ib_port", name)) for name in names.values()
    }


def test_every_gauge_is_found(tmp_path: Path) -> None:
    """Every gauge of the catalogue has a value, and not another's."""
    tree = Sysfs(tmp_path)
    port = tree.add()
    tree.write(port / "phys_state", "6: LinkErrorRecovery")
    tree.write(port / "rate", "50 Gb/sec (1X HDR)")
    tree.write(port / "hw_counters" / "lifespan", "250")
    pci = {
        "current_link_width": "8",
        "max_link_width": "16",
        "current_link_speed": "16.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
    }
    for file, text in pci.items():
        tree.write(port.parent.parent / "device" / file, text)
    source, _ = read(tree)
    frame = source.read().frames[0]
    source.close()
    assert {name: frame.value(name, 0) for name in GAUGES} == {
        "state": 4,
        "physical_state": 6,
        "rate_bits_per_second": 50e9,
        "width_lanes": 1,
        "expected": 1,
        "hw_counters_lifespan_milliseconds": 250,
        "pcie_width_current": 8,
        "pcie_width_maximum": 16,
        "pcie_generation_current": 4,
        "pcie_generation_maximum": 5,
    }


def test_every_fact_of_the_catalogue_is_found(tmp_path: Path) -> None:
    """A port in a whole tree has every slow fact, and none that the catalogue does not know."""
    tree = Sysfs(tmp_path)
    tree.add(net="ib0")
    source, _ = read(tree)
    (device,) = source.read().frames[0].devices
    source.close()
    assert set(device.attributes) == {fact.name for fact in facts_of("ib_port")}
    assert all(device.attributes.values())


def test_no_field_has_two_places_in_one_tree() -> None:
    """No two fields read the same file or the same counter: each place has one meaning."""
    places = counter_places()
    files = [*places.port.values(), *places.net.values()]
    assert len(files) == len(set(files))
    for names in places.perfquery.values():
        assert len(set(names.values())) == len(names)


def test_counters_end_where_the_kernel_says() -> None:
    """Widths of PORT_PMA_ATTR in drivers/infiniband/core/sysfs.c, and that all of them stick."""
    widths = {
        "symbol_errors": 16,
        "link_error_recoveries": 8,
        "link_downed": 8,
        "receive_errors": 16,
        "receive_remote_physical_errors": 16,
        "receive_switch_relay_errors": 16,
        "transmit_discards": 16,
        "transmit_constraint_errors": 8,
        "receive_constraint_errors": 8,
        "local_link_integrity_errors": 4,
        "buffer_overrun_errors": 4,
        "vl15_dropped": 16,
        "transmit_wait_ticks": 32,
    }
    pma = {
        row.name: row
        for row in COUNTERS
        if "counters/" in row.read and "hw_counters/" not in row.read
    }
    assert {name: pma[name].width for name in widths} == widths
    assert all(row.overflow == "sticks" for row in pma.values())
    assert {row.width for name, row in pma.items() if name not in widths} == {64}

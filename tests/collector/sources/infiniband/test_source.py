"""The source over a /sys tree: what people suffered from with other exporters, and what must hold
while ports come and go.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.infiniband import InfinibandSource
from collector.sources.infiniband import tree as looked_at
from collector.sources.infiniband.source import FACTS_S
from pipeline.catalog.ib_port import ABSENT, ACTIVE, PHYSICAL_STATES
from pipeline.frame import Frame
from pipeline.observation import Reading, Unread
from pipeline.rates import FIRST, OK, RESET, Rates
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.infiniband.sysfs import GUID, Sysfs, opened
from tests.fakes import FakeClock
from tests.pipeline.exposition.pages import samples, shown

FIRST_ID = f"0x{GUID:016x}"
SECOND_ID = f"0x{GUID + 16:016x}"

Make = Callable[..., InfinibandSource]


@pytest.fixture
def tree(tmp_path: Path) -> Sysfs:
    """An empty /sys."""
    return Sysfs(tmp_path / "sys")


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until told."""
    return FakeClock()


@pytest.fixture
def state(tmp_path: Path) -> State:
    """The agent's state directory."""
    return State(tmp_path / "state")


@pytest.fixture
def make(tree: Sysfs, clock: FakeClock, state: State) -> Iterator[Make]:
    """Makes sources over the tree; each is a start of the agent with the same state
    directory. perfquery is off.
    """
    made: list[InfinibandSource] = []

    def build(**settings: Any) -> InfinibandSource:
        settings.setdefault("perfquery", "")
        inventory = Inventory("n1", state)
        made.append(InfinibandSource(tree.root, "n1", clock, inventory, SelfMetrics(), **settings))
        return made[-1]

    yield build
    for source in made:
        source.close()


def ports(reading: Reading) -> Frame:
    """The frame of the ports."""
    return next(frame for frame in reading.frames if frame.kind == "ib_port")


def states(reading: Reading) -> dict[str, float | None]:
    """State code by port."""
    frame = ports(reading)
    return {device.id: frame.value("state", row) for row, device in enumerate(frame.devices)}


def counts(reading: Reading) -> tuple[float | None, float | None]:
    """Expected and visible ports of the node."""
    node = next(frame for frame in reading.frames if frame.kind == "node")
    return node.value("ib_ports_expected", 0), node.value("ib_ports_visible", 0)


def test_a_node_without_infiniband_is_a_state(make: Make) -> None:
    """No /sys/class/infiniband: no rows, nothing unread, nothing expected, no error."""
    reading = make().read()
    assert ports(reading).devices == ()
    assert reading.unread == ()
    assert counts(reading) == (0, 0)


def test_a_folder_that_cannot_be_listed_is_an_error(make: Make, tree: Sysfs) -> None:
    """What is there and is no folder fails the read, so that it is counted, and is not taken
    for a node without ports.
    """
    tree.devices.parent.mkdir(parents=True)
    tree.devices.write_text("")
    with pytest.raises(NotADirectoryError):
        make().read()


def test_who_and_what_a_port_is(make: Make, tree: Sysfs) -> None:
    """Identity is the port GUID; adapter, firmware, place and link hang on it as facts."""
    tree.add(net="ib0")
    (device,) = ports(make().read()).devices
    assert (device.id, device.host) == (FIRST_ID, "n1")
    assert (
        dict(device.attributes).items()
        >= {
            "device": "mlx5_0",
            "port": "1",
            "port_guid": FIRST_ID,
            "node_guid": FIRST_ID,
            "firmware": "28.39.1002",
            "board_id": "MT_0000000838",
            "hca_type": "MT4129",
            "pci_bus_id": "0000:18:00.0",
            "numa_node": "1",
            "link_layer": "InfiniBand",
            "net_device": "ib0",
            "mtu": "4200",
            "rate": "400 Gb/sec (4X NDR)",
            "lid": "0x5",
            "sm_lid": "0x1",
        }.items()
    )


def test_rate_and_width_of_an_active_port(make: Make, tree: Sysfs) -> None:
    """400 Gb/s over four lanes."""
    tree.add()
    frame = ports(make().read())
    assert (frame.value("rate_bits_per_second", 0), frame.value("width_lanes", 0)) == (400e9, 4)


def test_rate_of_a_port_that_is_down_is_no_rate(make: Make, tree: Sysfs) -> None:
    """The kernel goes on printing a rate for a port that is down; it means nothing."""
    tree.add()
    tree.state(1, 2)
    frame = ports(make().read())
    assert (frame.value("state", 0), frame.value("physical_state", 0)) == (1, 2)
    assert frame.value("rate_bits_per_second", 0) is frame.value("width_lanes", 0) is None


def test_roce_ports_are_read_like_infiniband_ports(make: Make, tree: Sysfs) -> None:
    """An Ethernet port is a port, with its RoCE counters and those of its net device, known
    by node GUID and number.
    """
    tree.add(
        layer="Ethernet", net="eth2", counters={"out_of_sequence": 7, "net_carrier_changes": 3}
    )
    frame = ports(make().read())
    assert [d.id for d in frame.devices] == [f"{FIRST_ID}/1"]
    assert frame.devices[0].attributes["net_device"] == "eth2"
    assert (frame.value("out_of_sequence", 0), frame.value("net_carrier_changes", 0)) == (7, 3)


def test_a_port_keeps_its_identity_without_a_gid(make: Make, tree: Sysfs) -> None:
    """A GID that reads zero while the driver starts does not make a new port of an old one."""
    port = tree.add()
    make().read()
    tree.write(port / "gids" / "0", "fe80:0000:0000:0000:0000:0000:0000:0000")
    (device,) = ports(make().read()).devices
    assert (device.id, device.attributes["port_guid"]) == (FIRST_ID, FIRST_ID)


@pytest.mark.parametrize("guid", [0, GUID])
def test_ports_that_share_a_guid_stay_two(make: Make, tree: Sysfs, guid: int) -> None:
    """Two functions that show one GUID, or none at all, are two rows."""
    tree.add("mlx5_0", guid=guid, pci="0000:18:00.0")
    tree.add("mlx5_1", guid=guid, pci="0000:18:00.1")
    frame = ports(make().read())
    assert len({d.id for d in frame.devices}) == 2
    assert [d.attributes["device"] for d in frame.devices] == ["mlx5_0", "mlx5_1"]


def test_ports_stand_in_the_order_of_their_numbers(make: Make, tree: Sysfs) -> None:
    """mlx5_10 comes after mlx5_9."""
    for i in (10, 9, 0):
        tree.add(f"mlx5_{i}", guid=GUID + 16 * i, pci="")
    assert [d.attributes["device"] for d in ports(make().read()).devices] == [
        "mlx5_0",
        "mlx5_9",
        "mlx5_10",
    ]


def test_one_unreadable_file_costs_one_field(make: Make, tree: Sysfs) -> None:
    """A file that answers with an error is one missing value with its reason; everything
    else of all ports is read.
    """

    def pread(fd: int, count: int, offset: int) -> bytes:
        if "mlx5_0" in (path := str(Path(f"/proc/self/fd/{fd}").readlink())) and path.endswith(
            "port_rcv_errors"
        ):
            raise OSError(errno.EINVAL, "Invalid argument")
        return os.pread(fd, count, offset)

    tree.add("mlx5_0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0")
    reading = make(pread=pread).read()
    frame = ports(reading)
    assert reading.unread == (Unread("EINVAL", FIRST_ID, "receive_errors"),)
    assert frame.value("receive_errors", 0) is None
    assert (frame.value("symbol_errors", 0), frame.value("receive_errors", 1)) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("N/A (no PMA)", "no_pma"),
        ("\x00\x01", "garbage"),
        ("-1", "garbage"),
        (str(2**64), "garbage"),
        ("nan", "garbage"),
    ],
)
def test_contents_that_are_no_counter(make: Make, tree: Sysfs, content: str, reason: str) -> None:
    """What is no 64-bit number is a missing value with a reason, for as long as it
    lasts, and never a number.
    """
    tree.add()
    tree.set("symbol_errors", content)
    source = make()
    for _ in range(3):
        reading = source.read()
        assert reading.unread == (Unread(reason, FIRST_ID, "symbol_errors"),)
        assert ports(reading).value("symbol_errors", 0) is None
        assert ports(reading).value("link_downed", 0) == 0


def test_garbage_instead_of_a_state(make: Make, tree: Sysfs) -> None:
    """An unreadable state is unknown: neither down nor absent."""
    port = tree.add()
    tree.write(port / "state", "\xffmess")
    reading = make().read()
    assert states(reading) == {FIRST_ID: None}
    assert reading.unread == (Unread("garbage", FIRST_ID, "state"),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("printed", "code"), [("9: <unknown>", 9), ("15: Photonic", 15), ("Photonic", None)]
)
def test_a_physical_state_that_nobody_knows_is_unknown_and_costs_nothing_else(
    make: Make, tree: Sysfs, clock: FakeClock, printed: str, code: float | None
) -> None:
    """Moneo looks the word up in a table and ends with a KeyError: here the port is in none of the
    known states, and all else is read.
    """
    port = tree.add()
    tree.write(port / "phys_state", printed)
    reading = make().read()
    assert ports(reading).value("physical_state", 0) == code
    assert reading.unread == (() if code else (Unread("garbage", FIRST_ID, "physical_state"),))
    page = shown(clock, ports(reading))
    assert [*samples(page, "tocsin_ib_port_physical_state").values()] == [0.0] * len(
        PHYSICAL_STATES
    ) * bool(code)
    assert [*samples(page, "tocsin_ib_port_state", state="active").values()] == [1.0]


def test_a_device_without_counters(make: Make, tree: Sysfs) -> None:
    """As of irdma: no counters folder, other names in hw_counters.

    The port is there, the rest is not supported.
    """
    port = tree.add("irdma0", layer="Ethernet")
    shutil.rmtree(port / "counters")
    shutil.rmtree(port / "hw_counters")
    tree.write(port / "hw_counters" / "ip4InOctets", 12)
    reading = make().read()
    assert list(states(reading).values()) == [ACTIVE]
    assert reading.unread == ()
    assert not ports(reading).observed.any()


def test_a_32_bit_data_counter_at_its_end_is_no_value(make: Make, tree: Sysfs) -> None:
    """A device that keeps data in 32 bits sticks at 16 GiB: that is no traffic
    of zero, it is no answer.
    """
    tree.add(counters={"receive_words": 2**32 - 1, "transmit_wait_ticks": 2**32 - 1})
    reading = make().read()
    assert reading.unread == (Unread("saturated", FIRST_ID, "receive_words"),)
    assert ports(reading).value("receive_words", 0) is None
    assert ports(reading).value("transmit_wait_ticks", 0) == 2**32 - 1


def test_a_32_bit_data_counter_is_given_up(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """A reset by someone else does not bring it back: it would be stuck again within seconds, and
    perfquery has its place.
    """
    tree.add(counters={"receive_words": 2**32 - 1})
    source = make()
    source.read()
    tree.set("receive_words", 5)
    for _ in range(48):
        clock.advance(3600)
        assert ports(source.read()).value("receive_words", 0) is None


def test_a_port_that_vanishes_stays_absent(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """A device that goes in mid-run keeps its row, absent and unobserved; the others keep
    theirs and their values.
    """
    tree.add("mlx5_0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0", counters={"symbol_errors": 4})
    source = make()
    assert counts(source.read()) == (2, 2)
    tree.remove("mlx5_0")
    clock.advance(1)
    reading = source.read()
    assert states(reading) == {FIRST_ID: ABSENT, SECOND_ID: ACTIVE}
    assert ports(reading).value("symbol_errors", 1) == 4
    assert not ports(reading).observed[:, 0].any()
    assert counts(reading) == (2, 1)


@pytest.mark.parametrize("files", range(1, 12))
@pytest.mark.parametrize("waits_s", [1, 61])
def test_a_port_that_vanishes_while_it_is_read_stays_who_it_was(
    make: Make,
    tree: Sysfs,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    files: int,
    waits_s: float,
) -> None:
    """Its files go one by one; no other port comes of what is left, and its name is known."""
    tree.add("mlx5_0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0")
    source = make()
    before = ports(source.read()).devices
    clock.advance(waits_s)
    if waits_s < FACTS_S:
        tree.add("mlx5_2", guid=GUID + 32, pci="0000:3a:00.0")  # all is looked at again
    count = iter(range(99))
    whole = looked_at.read

    def read(path: Path) -> str:
        if next(count) == files:
            tree.remove("mlx5_0")
        return whole(path)

    monkeypatch.setattr(looked_at, "read", read)
    source.read()
    clock.advance(1)
    reading = source.read()
    known = {device.id: device.attributes for device in ports(reading).devices}
    assert not tree.port("mlx5_0").exists()
    assert known.items() >= {device.id: device.attributes for device in before}.items()
    assert len(known) == len(before) + (waits_s < FACTS_S)
    assert states(reading)[FIRST_ID] == ABSENT


def test_a_port_that_was_given_to_a_pod_is_unknown_and_one_without_a_driver_is_absent(
    make: Make, tree: Sysfs
) -> None:
    """``rdma system set netns exclusive`` takes a device out of the host's tree while a pod has it:
    its driver is still bound.
    """
    tree.add("mlx5_0", pci="0000:18:00.0")
    source = make()
    source.read()
    tree.remove("mlx5_0")
    auxiliary = tree.root / "bus" / "pci" / "devices" / "0000:18:00.0" / "mlx5_core.rdma.0"
    (auxiliary / "driver").mkdir(parents=True)
    reading = source.read()
    assert states(reading) == {FIRST_ID: None}
    assert reading.unread == (Unread("in another network namespace", FIRST_ID),)
    (auxiliary / "driver").rmdir()
    assert states(source.read()) == {FIRST_ID: ABSENT}
    tree.add("mlx5_0", pci="0000:18:00.0")
    assert states(source.read()) == {FIRST_ID: ACTIVE}


@pytest.mark.parametrize(
    ("driver", "code"), [("vfio-pci", None), ("mlx5_vfio_pci", None), ("mlx5_core", ABSENT)]
)
def test_a_port_that_a_virtual_machine_has_is_unknown(
    make: Make, tree: Sysfs, driver: str, code: float | None
) -> None:
    """Bound to a driver for virtual machines its adapter is neither gone nor failed."""
    tree.add("mlx5_0", pci="0000:18:00.0")
    source = make()
    source.read()
    tree.remove("mlx5_0")
    function = tree.root / "bus" / "pci" / "devices" / "0000:18:00.0"
    function.mkdir(parents=True)
    (function / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    reading = source.read()
    assert states(reading) == {FIRST_ID: code}
    reasons = [] if code else [Unread("given to a virtual machine", FIRST_ID)]
    assert list(reading.unread) == reasons


@pytest.mark.parametrize(("shown", "code"), [("bond0", None), ("eth0", None), ("eth7", ABSENT)])
def test_a_port_that_became_part_of_a_bond_is_unknown(
    make: Make, tree: Sysfs, shown: str, code: float | None
) -> None:
    """RoCE over LAG: the driver makes one RDMA device of both ports of the adapter, shown with the
    bond or one of its parts. A net device that is in a bond with no port proves nothing.
    """
    tree.add("mlx5_0", pci="0000:18:00.0", layer="Ethernet", net="eth0")
    tree.add("mlx5_1", pci="0000:18:00.1", layer="Ethernet", net="eth1", guid=GUID + 1)
    source = make()
    source.read()
    tree.remove("mlx5_0")
    tree.remove("mlx5_1")
    (tree.net / "bond0" / "bonding").mkdir(parents=True)
    function = tree.root / "bus" / "pci" / "devices" / "0000:18:00.1" / "net" / "eth1"
    function.mkdir(parents=True)
    for folder in (tree.net / "eth0", function):
        (folder / "master").symlink_to(tree.net / "bond0")
    tree.add("mlx5_bond_0", pci="0000:18:00.0", layer="Ethernet", net=shown)
    reading = source.read()
    assert states(reading) == {f"{FIRST_ID}/1": ACTIVE, f"0x{GUID + 1:016x}/1": code}
    reasons = [] if code else [Unread("part of a bond", f"0x{GUID + 1:016x}/1")]
    assert list(reading.unread) == reasons


def test_a_port_is_missed_after_a_restart(make: Make, tree: Sysfs) -> None:
    """What was learned survives the agent: a port lost in a reboot is absent, not forgotten."""
    tree.add("mlx5_0")
    make().read()
    tree.remove("mlx5_0")
    reading = make().read()
    assert states(reading) == {FIRST_ID: ABSENT}
    assert counts(reading) == (1, 0)


def test_a_device_that_appears_is_read(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """An agent that was up before the driver picks the ports up with its next read."""
    source = make()
    source.read()
    tree.add()
    clock.advance(1)
    assert states(source.read()) == {FIRST_ID: ACTIVE}


def test_counters_after_a_driver_reload(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """A device made again under its old name is read from its new files, and its
    counters count as begun again.
    """
    tree.add(counters={"symbol_errors": 500})
    source = make()
    rates = Rates(ports(source.read()).schema, 1.0)
    rates.add(ports(source.read()))
    tree.remove("mlx5_0")
    tree.add(counters={"symbol_errors": 120})
    clock.advance(1)
    frame = ports(source.read())
    assert frame.value("symbol_errors", 0) == 120
    increments = rates.add(frame).increments
    row = frame.schema.counter_row["symbol_errors"]
    assert increments is not None
    assert increments.quality[row, 0] == RESET


def test_files_replaced_by_rename_are_opened_anew(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """A saved or simulated tree whose files are replaced whole never shows old values."""
    port = tree.add()
    source = make()
    source.read()
    os.utime(port / "counters", ns=(0, 0))  # far from now: the file system's clock is coarse
    source.read()
    tree.write(port / "new", 9)
    (port / "new").rename(port / "counters" / "symbol_error")
    clock.advance(1)
    assert ports(source.read()).value("symbol_errors", 0) == 9


def test_the_other_folders_are_looked_at_each_minute(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """Replaced or new files of hw_counters are seen with the slow facts."""
    port = tree.add()
    (port / "hw_counters" / "out_of_sequence").unlink()
    source = make()
    source.read()
    os.utime(port / "hw_counters", ns=(0, 0))
    tree.write(port / "hw_counters" / "out_of_sequence", 9)
    clock.advance(61)
    assert ports(source.read()).value("out_of_sequence", 0) == 9


def test_a_replaced_adapter_takes_the_place_of_the_old_one(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """Another GUID at the same PCI address and port is a swap: the old port is no longer expected,
    and no name is borne twice.
    """
    tree.add(counters={"symbol_errors": 500})
    source = make()
    rates = Rates(ports(source.read()).schema, 1.0)
    rates.add(ports(source.read()))
    tree.remove("mlx5_0")
    tree.add(guid=GUID + 16, counters={"symbol_errors": 900})
    clock.advance(1)
    reading = source.read()
    assert states(reading) == {SECOND_ID: ACTIVE}
    assert counts(reading) == (1, 1)
    increments = rates.add(ports(reading)).increments
    assert increments is not None
    assert increments.quality[ports(reading).schema.counter_row["symbol_errors"], 0] == FIRST


@pytest.mark.slow
def test_names_that_move_never_name_two_ports(make: Make, tree: Sysfs) -> None:
    """One of two adapters is gone after a reboot and the other took its name: the lost one is
    still missed, under its GUID.
    """
    tree.add("mlx5_0", pci="0000:18:00.0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0")
    make().read()
    tree.remove("mlx5_0")
    tree.remove("mlx5_1")
    tree.add("mlx5_0", guid=GUID + 16, pci="0000:2a:00.0")
    reading = make().read()
    assert states(reading) == {FIRST_ID: ABSENT, SECOND_ID: ACTIVE}
    assert [d.attributes["device"] for d in ports(reading).devices] == [FIRST_ID, "mlx5_0"]


def test_the_other_function_of_an_adapter_is_no_swap(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """Two functions of one adapter are two ports: the loss of one is seen."""
    tree.add("mlx5_0", pci="0000:18:00.0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:18:00.1")
    source = make()
    source.read()
    tree.remove("mlx5_1")
    clock.advance(1)
    assert states(source.read()) == {FIRST_ID: ACTIVE, SECOND_ID: ABSENT}


@pytest.mark.slow
@pytest.mark.parametrize("ignore", ["mlx5_1", "mlx5_1/1", f"0x{GUID + 16:016x}", "mlx5_[1-9]"])
def test_a_management_port_can_be_ignored(make: Make, tree: Sysfs, ignore: str) -> None:
    """A port named by device, device and number, GUID or pattern is not looked
    at, and nobody misses it.
    """
    tree.add("mlx5_0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0")
    make().read()
    reading = make(ignore=[ignore]).read()
    assert states(reading) == {FIRST_ID: ACTIVE}
    assert counts(reading) == (1, 1)


def test_a_port_that_never_was_active_is_not_expected(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """A free management port does not alarm forever; once it was active, it is expected from
    then on, restarts included.
    """
    tree.add()
    tree.state(1, 2)
    source = make()
    reading = source.read()
    assert (ports(reading).value("expected", 0), counts(reading)) == (0, (0, 0))
    tree.state(4, 5)
    clock.advance(1)
    assert ports(source.read()).value("expected", 0) == 1
    tree.state(1, 2)
    clock.advance(1)
    assert ports(source.read()).value("expected", 0) == 1
    reading = make().read()
    assert (ports(reading).value("expected", 0), counts(reading)) == (1, (1, 1))
    assert ports(reading).devices[0].attributes["expected_by"] == "learned"


def test_a_virtual_function_of_this_host_is_not_expected(make: Make, tree: Sysfs) -> None:
    """Operators make and remove them (``sriov_numvfs``): one that is removed is no adapter that
    fell off the bus, also where an earlier release had learned it; one that was declared is missed.
    """
    tree.add("mlx5_0")
    vf = tree.add("mlx5_1", guid=GUID + 16, pci="0000:18:00.2").parent.parent
    make().read()
    (vf / "device" / "physfn").symlink_to("../0000:18:00.0")
    source = make()
    assert ports(source.read()).gauge("expected").tolist() == [1, 0]
    assert ports(source.read()).gauge("expected").tolist() == [1, 0]
    assert ports(make(expected=["mlx5_1"]).read()).gauge("expected").tolist() == [0, 1]
    tree.remove("mlx5_1")
    assert counts(source.read()) == (1, 1)


def test_a_subfunction_is_not_expected(make: Make, tree: Sysfs) -> None:
    """mlx5_core.sf.4 of a pod: one that is removed with it is no adapter that is gone."""
    tree.add("mlx5_0")
    sf = tree.add("mlx5_2", guid=GUID + 16, pci="", layer="Ethernet").parent.parent
    tree.write(sf / "device" / "sfnum", 88)
    source = make()
    assert ports(source.read()).gauge("expected").tolist() == [1, 0]
    tree.remove("mlx5_2")
    assert counts(source.read()) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlx5_0", "mlx5_0/1", FIRST_ID, "ec0d:9a03:00bf:c1e0"])
def test_declared_ports_are_the_expected_ones(make: Make, tree: Sysfs, name: str) -> None:
    """With a declaration, those it names are expected, down or not, and no others."""
    tree.add("mlx5_0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0")
    tree.state(1, 2, "mlx5_0")
    reading = make(expected=[name]).read()
    assert ports(reading).gauge("expected").tolist() == [1, 0]
    assert counts(reading) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlx5_7/1", "mlx5_7", f"0x{GUID + 7:016x}"])
def test_a_declared_port_that_was_never_seen_is_absent(
    make: Make, tree: Sysfs, clock: FakeClock, name: str
) -> None:
    """A declared port has a row from the first read on; when it comes, the port
    itself takes the row's place.
    """
    tree.add("mlx5_0")
    source = make(expected=["mlx5_0", name])
    reading = source.read()
    assert sorted(str(code) for code in states(reading).values()) == sorted(
        [str(float(ABSENT)), str(float(ACTIVE))]
    )
    assert counts(reading) == (2, 1)
    tree.add("mlx5_7", guid=GUID + 7, pci="0000:9a:00.0")
    clock.advance(1)
    reading = source.read()
    assert states(reading) == {FIRST_ID: ACTIVE, f"0x{GUID + 7:016x}": ACTIVE}
    assert counts(reading) == (2, 2)


def test_a_port_that_answers_slowly_costs_the_others_one_read(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """Firmware that lets every read wait for its time-out is left alone for a
    while, and said to be slow.
    """

    def pread(fd: int, count: int, offset: int) -> bytes:
        if "mlx5_0" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            clock.advance(2)
        return os.pread(fd, count, offset)

    tree.add("mlx5_0")
    tree.add("mlx5_1", guid=GUID + 16, pci="0000:2a:00.0")
    source = make(pread=pread)
    source.read()
    before = clock.monotonic_ns()
    reading = source.read()
    assert clock.monotonic_ns() == before
    assert reading.unread == (Unread("slow", FIRST_ID),)
    assert states(reading) == {FIRST_ID: None, SECOND_ID: ACTIVE}
    clock.advance(11)
    before = clock.monotonic_ns()
    source.read()
    assert clock.monotonic_ns() > before


def test_slow_facts_are_read_again(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """A new LID, firmware or net device is seen within a minute; the row stays."""
    port = tree.add()
    source = make()
    source.read()
    tree.write(port / "lid", "0x9")
    clock.advance(61)
    (device,) = ports(source.read()).devices
    assert device.attributes["lid"] == "0x9"


def test_devices_are_one_object_while_nothing_changes(
    make: Make, tree: Sysfs, clock: FakeClock
) -> None:
    """Renderers compare identity: an uneventful hour is one tuple of devices."""
    tree.add()
    source = make()
    first = ports(source.read()).devices
    for _ in range(60):
        clock.advance(60)
        assert ports(source.read()).devices is first


def test_increments_of_an_uneventful_second(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """Values change under the open descriptors and become increments."""
    tree.add(counters={"receive_words": 2**63})
    source = make()
    frame = ports(source.read())
    rates = Rates(frame.schema, 1.0)
    rates.add(frame)
    tree.set("receive_words", 2**63 + 1000)
    clock.advance(1)
    frame = rates.add(ports(source.read()))
    row = frame.schema.counter_row["receive_words"]
    assert frame.increments is not None
    assert (frame.increments.delta[row, 0], frame.increments.quality[row, 0]) == (1000, OK)


@pytest.mark.slow
def test_no_descriptor_is_left_behind(make: Make, tree: Sysfs, clock: FakeClock) -> None:
    """A hundred devices that come and go leave nothing open."""
    source = make()
    source.read()
    for _ in range(100):
        tree.add()
        source.read()
        tree.remove("mlx5_0")
        source.read()
    assert opened(tree.root) == []


def test_reading_is_whole_numbers_and_nothing_else(make: Make, tree: Sysfs) -> None:
    """Zero is zero and observed, not missing."""
    tree.add()
    frame = ports(make().read())
    read_from_sysfs = np.array([f.read.startswith("sysfs") for f in frame.schema.counters])
    assert (frame.observed[:, 0] == read_from_sysfs).all()
    assert not frame.counters.any()

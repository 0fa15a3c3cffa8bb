"""The source of InfiniBand and RoCE ports: one frame of all ports, and how many of the
expected ones are there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from collector.node.inventory import Inventory
from collector.sources.infiniband import tree
from collector.sources.infiniband.open_files import Pread
from collector.sources.infiniband.performance import (
    INTERVAL_S,
    PER_MINUTE,
    TIMEOUT_S,
    PerformanceAgents,
    Question,
)
from collector.sources.infiniband.port import Port
from collector.sources.infiniband.roster import KIND, Roster
from collector.sources.infiniband.sysfs_port import counter_places
from collector.sources.nvml.passthrough import has_driver_for_guests
from pipeline.catalog.ib_port import ABSENT, ACTIVE
from pipeline.clock import SECOND_NS, Clock, instant
from pipeline.frame import Device, Frame, blank, frame_of, schema_of
from pipeline.observation import Reading, Unread
from pipeline.selfmetrics import SelfMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

log = logging.getLogger("tocsin.infiniband")

FACTS_S = 60  # how often slow facts are read again
ASK_S = 5  # how often it is looked at whether perfquery has answered or something is to be asked
# A port whose files take longer than this in one read (firmware that does not answer: the driver
# waits up to a minute) rests.
SLOW_S, REST_S, MAX_REST_S = 0.5, 10, 3600


class InfinibandSource:
    """Reads every port below ``sysfs``/class/infiniband.

    No such folder is a state: the frame has no rows, or absent ones.

    Every counter is read in every read: between two changes of the device's own cache
    (``hw_counters/lifespan``) the kernel repeats the last value, and so does what perfquery last
    answered, for at most three intervals; increments are late then, never lost. A port in a network
    namespace of its own, that a virtual machine has, or that became part of a bond is unknown, not
    absent.

    ``expected``: ports that should be active, ``mlx5_0/1``, ``mlx5_*`` or a GUID; empty learns
    those that were active once, but for virtual functions of this host. ``ignore``: ports that are
    not looked at, in the same words.
    ``perfquery``: its program, empty never starts it.
    """

    name = "infiniband"

    def __init__(
        self,
        sysfs: Path,
        host: str,
        clock: Clock,
        inventory: Inventory,
        metrics: SelfMetrics,
        *,
        expected: Sequence[str] = (),
        ignore: Sequence[str] = (),
        perfquery: str = "perfquery",
        perfquery_interval_s: float = INTERVAL_S,
        perfquery_per_minute: int = PER_MINUTE,
        perfquery_timeout_s: float = TIMEOUT_S,
        pread: Pread = os.pread,
    ) -> None:
        self._class = sysfs / "class" / "infiniband"
        self._pci = sysfs / "bus" / "pci" / "devices"
        self._net = sysfs / "class" / "net"
        self._clock = clock
        self._host = host
        self._node = Device(host, "node", host)
        self._roster = Roster(host, inventory, expected, ignore)
        self._agents = PerformanceAgents(
            perfquery,
            clock,
            metrics,
            interval_s=perfquery_interval_s,
            per_minute=perfquery_per_minute,
            timeout_s=perfquery_timeout_s,
        )
        self._pread = pread
        self._entries: tuple[tuple[str, int], ...] | None = None
        self._ports: list[Port] = []
        self._columns: list[int] = []
        self._expected_of: tuple[Device, ...] = ()
        self._expected_rows = np.zeros(0)
        self._facts_ns = self._ask_ns = 0
        self._answers: dict[str, dict[str, int]] = {}
        self._slow: dict[
            str, tuple[int, int]
        ] = {}  # port name to (rests until, pause): survives re-opening

    def read(self) -> Reading:
        """One reading of all ports.

        OSError where the folder of the ports is there and cannot be listed.
        """
        time_ns, mono_ns = instant(self._clock)
        self._look(mono_ns)
        devices = self._roster.rows.devices
        schema = schema_of(KIND)
        gauges, counters, observed = blank(KIND, devices)
        gauges[schema.gauge_row["state"]] = ABSENT
        unread: list[Unread] = []
        for column in set(range(len(devices))).difference(self._columns):
            if where := self._elsewhere(devices[column]):
                gauges[schema.gauge_row["state"], column] = np.nan
                unread.append(Unread(where, devices[column].id))
        for port, column in zip(self._ports, self._columns, strict=True):
            self._read_port(port, column, (gauges, counters, observed), unread)
        if mono_ns >= self._ask_ns:
            self._ask(mono_ns)
        self._fill_in(counters, observed)
        unread += (Unread(reason, port) for reason, port in self._agents.failures())
        devices, expected = self._expected()
        gauges[schema.gauge_row["expected"]] = expected
        frame = Frame(
            schema,
            time_ns,
            mono_ns,
            devices,
            gauges,
            counters,
            observed,
            np.zeros(len(devices), np.int64),
        )
        counts = {
            "ib_ports_expected": expected.sum(),
            "ib_ports_visible": expected[self._columns].sum(),
        }
        return Reading(
            (frame, frame_of("node", [(self._node, counts)], time_ns, mono_ns)), (), tuple(unread)
        )

    def close(self) -> None:
        """Let go of all files and stop asking."""
        self._agents.close()
        for port in self._ports:
            port.close()
        self._ports, self._columns = [], []
        self._entries = None

    def _expected(self) -> tuple[tuple[Device, ...], NDArray[np.float64]]:
        """The rows as they are now, and which of them should be active."""
        devices = self._roster.rows.devices
        if devices is not self._expected_of:
            self._expected_of = devices
            self._expected_rows = np.array(
                [bool(d.attributes.get("expected_by")) for d in devices], np.float64
            )
        return devices, self._expected_rows

    def _elsewhere(self, device: Device) -> str:
        """Where a port is that is not in our tree; empty where its adapter or driver is gone.

        One that was given to a pod (``rdma system set netns exclusive``, rdma-system(8)): its
        adapter's auxiliary device, of no namespace, still has a driver.
        """
        address = device.attributes.get("pci_bus_id", "")
        function = self._pci / address
        if not address:
            return ""
        if any(function.glob("*.rdma.*/driver")):
            return "in another network namespace"
        if has_driver_for_guests(function):
            return "given to a virtual machine"
        return "part of a bond" if self._is_bonded(function) else ""

    def _is_bonded(self, function: Path) -> bool:
        """Whether an adapter's net device is in a bond with that of a port that is there: RoCE over
        LAG makes one RDMA device, such as mlx5_bond_0, of the ports of an adapter.
        """
        bonds = {tree.bond(folder) for folder in function.glob("net/*")} - {""}
        if not bonds:
            return False
        names = {port.device.attributes.get("net_device", "") for port in self._ports} - {""}
        return not bonds.isdisjoint(names | {tree.bond(self._net / name) for name in names})

    def _look(self, now_ns: int) -> None:
        """Open ports again where the tree changed, and read slow facts when it is time."""
        entries = tree.entries(self._class)
        renew = now_ns >= self._facts_ns
        if entries != self._entries or any(
            p.changed_anywhere() if renew else p.changed() for p in self._ports
        ):
            self._open(entries, now_ns)
        elif renew:
            self._renew_facts(now_ns)

    def _open(self, entries: tuple[tuple[str, int], ...], now_ns: int) -> None:
        before = {port.place.name for port in self._ports}
        for port in self._ports:
            port.close()
        self._ports = []
        taken: set[str] = set()
        for place in tree.places(self._class, entries):
            facts = tree.facts(place, self._net)
            if not tree.is_there(place):
                continue  # and the entries are others with the next read
            device = self._roster.device(place, facts, taken)
            if device is not None:
                port = Port(place, device, self._net, now_ns, self._pread)
                port.pcie = tree.pcie(place)
                self._ports.append(port)
        self._columns = self._roster.place([port.device for port in self._ports])
        self._entries = entries
        self._facts_ns = now_ns + FACTS_S * SECOND_NS
        self._ask_ns = now_ns
        after = {port.place.name for port in self._ports}
        if after != before:
            log.info("RDMA ports: %s", ", ".join(sorted(after)) or "none")

    def _renew_facts(self, now_ns: int) -> None:
        taken: set[str] = set()
        for port in self._ports:
            facts = tree.facts(port.place, self._net)
            if not tree.is_there(port.place):
                self._entries = None  # opened again with the next read
                continue
            device = self._roster.device(port.place, facts, taken)
            if device is None or device.attributes.get("net_device") != port.device.attributes.get(
                "net_device"
            ):
                self._entries = None
            else:
                port.device, port.pcie = device, tree.pcie(port.place)
        self._columns = self._roster.place([port.device for port in self._ports])
        self._facts_ns = now_ns + FACTS_S * SECOND_NS

    def _read_port(
        self,
        port: Port,
        column: int,
        blocks: tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.bool_]],
        unread: list[Unread],
    ) -> None:
        gauges, counters, observed = blocks
        gauges[schema_of(KIND).gauge_row["state"], column] = np.nan
        start_ns = self._clock.monotonic_ns()
        rests_until, pause = self._slow.get(port.place.name, (0, 0))
        if start_ns < rests_until:
            unread.append(Unread("slow", port.device.id))
            return
        observed[:, column] = port.read(start_ns, column, gauges, counters)
        if not port.whole:
            unread += (
                Unread(reason, port.device.id, field) for field, reason in port.unread.items()
            )
        if port.state == ACTIVE and not port.was_active:
            self._activate(port)
        end_ns = self._clock.monotonic_ns()
        if end_ns - start_ns > SLOW_S * SECOND_NS:
            pause = min(pause * 2 or REST_S, MAX_REST_S)
            self._slow[port.place.name] = (end_ns + pause * SECOND_NS, pause)
            log.warning(
                "reading %s took %.1f s; pausing it for %d s",
                port.place.name,
                (end_ns - start_ns) / SECOND_NS,
                pause,
            )
        elif pause:
            del self._slow[port.place.name]
            log.info("%s is read in time again", port.place.name)

    def _activate(self, port: Port) -> None:
        """Remember that a port was active: from now on it is expected to be.

        Columns do not move. Virtual functions come and go as an operator makes them: what fails
        under them is the port of their physical function.
        """
        port.was_active = True
        if tree.is_virtual(port.place):
            return
        device = self._roster.activated(port.device)
        if device.attributes != port.device.attributes:
            port.device = device
            self._columns = self._roster.place([p.device for p in self._ports])

    def _ask(self, now_ns: int) -> None:
        self._ask_ns = now_ns + ASK_S * SECOND_NS
        self._agents.ask([q for port in self._ports if (q := _question(port))])
        found = (
            (p.device.id, self._agents.values(p.device.id, p.device.attributes.get("epoch", "")))
            for p in self._ports
        )
        self._answers = {port: values for port, values in found if values}

    def _fill_in(self, counters: NDArray[np.uint64], observed: NDArray[np.bool_]) -> None:
        """What perfquery last said of counters that sysfs did not give."""
        if not self._answers:
            return
        row = schema_of(KIND).counter_row
        for port, column in zip(self._ports, self._columns, strict=True):
            for field, value in self._answers.get(port.device.id, {}).items():
                if not observed[row[field], column]:
                    counters[row[field], column] = value
                    observed[row[field], column] = True


def _question(port: Port) -> Question | None:
    """What to ask a port about itself: what sysfs does not give.

    None of a port that is not active or has no agent.
    """
    if not port.infiniband or port.state != ACTIVE:
        return None
    given = frozenset(port.read_from_sysfs)
    wanted = {
        option: frozenset(names.values()) - given
        for option, names in counter_places().perfquery.items()
    }
    facts = port.device.attributes
    return Question(
        port.device.id,
        port.place.device,
        port.place.number,
        _lid(facts.get("lid", "")),
        {option: fields for option, fields in wanted.items() if fields},
        facts.get("epoch", ""),
    )


def _lid(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 0

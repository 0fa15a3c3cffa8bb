"""A kernel log to read from, record by record, and the source that reads it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.kmsg import KernelLogSource
from pipeline.catalog.events import strange_attributes
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu

DATA = Path(__file__).parents[3] / "data" / "kmsg"
BOOT = "0123456789abcdef0123456789abcdef"
GPUS = {
    "0000:1b:00": gpu(0, pci_bus_id="00000000:1B:00.0"),
    "0000:43:00": gpu(1, pci_bus_id="00000000:43:00.0"),
}
XID_79 = (
    "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
XID_31 = "NVRM: Xid (PCI:0000:43:00): 31, pid=184513, name=python3, Ch 00000010"


class Ring:
    """The kernel's ring of records: whoever connects gets all that is in it, then what is
    printed, one record per read.

    The socket is of type SOCK_SEQPACKET, which has the record semantics of /dev/kmsg: a read gives
    one record, never a part of two.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.records: list[bytes] = []
        self.next = 0
        self.ends: list[socket.socket] = []

    def print(self, text: str, priority: int = 3) -> int:
        """The kernel prints a line now; its number."""
        raw = text.encode()
        escaped = b"".join(
            bytes((b,)) if 32 <= b < 127 and b != 92 else b"\\x%02x" % b for b in raw
        )
        record = b"%d,%d,%d,-;%s\n" % (
            priority,
            self.next,
            self.clock.monotonic_ns() // 1000,
            escaped,
        )
        self.add(record)
        self.next += 1
        return self.next - 1

    def add(self, record: bytes) -> None:
        """One record as it stands."""
        self.records.append(record)
        for end in self.ends:
            with contextlib.suppress(ConnectionError):  # that reader has gone
                end.send(record)

    def connect(self, _path: Path | None = None) -> int:
        """A descriptor at the beginning of the ring, as open(2) of /dev/kmsg gives it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.setblocking(False)
        self.ends.append(ours)
        for record in self.records:
            ours.send(record)
        return theirs.detach()

    def close(self) -> None:
        """Close our ends."""
        for end in self.ends:
            end.close()


class Node:
    """One node over several lives of its agent: clock, ring, inventory, state and numbers."""

    def __init__(self, folder: Path | None = None) -> None:
        self.clock = FakeClock()
        self.ring = Ring(self.clock)
        self.state = State(folder)
        self.inventory = Inventory("n1", self.state)
        self.inventory.learn("gpu", GPUS.values())
        self.metrics = SelfMetrics()
        self._sources: list[KernelLogSource] = []

    def source(self, **settings: Any) -> KernelLogSource:
        """A source as the agent makes it at its start, reading the ring unless told otherwise."""
        wanted: dict[str, Any] = {"path": Path(os.devnull), "device": self.ring.connect, **settings}
        boot_id = wanted.pop("boot_id", BOOT)
        source = KernelLogSource(
            "n1", self.clock, boot_id, self.inventory, self.state, self.metrics, **wanted
        )
        return self.track(source)

    def track(self, source: KernelLogSource) -> KernelLogSource:
        """Close this source in the end."""
        self._sources.append(source)
        return source

    def close(self) -> None:
        """Close what was opened."""
        for source in self._sources:
            source.close()
        self.ring.close()


def events(source: KernelLogSource) -> list[Event]:
    """Events of one read, each held against the catalogue."""
    found = list(source.read().events)
    for event in found:
        assert not strange_attributes(event.kind, event.attributes)
    return found


def attributes_of(found: Sequence[Event], kind: str, *names: str) -> list[tuple[object, ...]]:
    """Chosen attributes of the events of one kind, None where an event lacks one."""
    return [
        tuple(event.attributes.get(name) for name in names) for event in found if event.kind == kind
    ]


def read_all(source: KernelLogSource, reads: int = 5) -> list[Event]:
    """Events of several reads."""
    return [event for _ in range(reads) for event in events(source)]


def port(device: str, pci: str, net: str = "") -> Device:
    """An RDMA port of node n1."""
    return Device(
        "n1", "ib_port", f"guid-{device}", {"device": device, "pci_bus_id": pci, "net_device": net}
    )

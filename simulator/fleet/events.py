"""What happens in a fleet as the agents' sources tell it: kernel lines go through the real parser,
NVML and the scheduler speak for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.node.inventory import pci_key
from collector.sources.kmsg.collapse import Run
from collector.sources.kmsg.parse import parse_text
from collector.sources.kmsg.records import Record
from collector.sources.kmsg.to_events import Log, tell
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value
from simulator.kernel_log import KernelLine

KMSG, NVML, JOBS, INFINIBAND, HOST = "kmsg", "nvml", "jobs", "infiniband", "host"
WAITS = "waits"


class Happenings:
    """Events of each source, kept until the source is read."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[int, Event]]] = {}
        self._lines: dict[str, int] = {}

    def kernel(
        self, device: Device, line: KernelLine, stream: str, when: Instant, count: int = 1
    ) -> None:
        """A line of the kernel log about a device, ``count`` times.

        Lines that say nothing to the parser are dropped, as in the agent.
        """
        first = self._lines.get(stream, 1000)
        self._lines[stream] = first + count
        if happening := parse_text(line.text):
            usec = when.mono_ns // 1000
            run = Run(
                happening,
                Record(line.text, first, usec),
                Record(line.text, first + count - 1, usec),
                count,
            )
            self.add(KMSG, when, tell(run, device, Log(KMSG, stream), when, when))

    def nvml_xid(self, device: Device, code: int, when: Instant) -> None:
        """The same XID as NVML's event set delivers it."""
        pci = pci_key(device.attributes["pci_bus_id"])
        self.add(
            NVML, when, Event(*when, device, "xid", {"code": code, "pci": pci, "origin": NVML})
        )

    def tell(
        self,
        source: str,
        device: Device,
        kind: str,
        when: Instant,
        attributes: Mapping[str, Value] | None = None,
    ) -> None:
        """Any other event."""
        self.add(source, when, Event(*when, device, kind, attributes or {}))

    def take(self, source: str, until_ns: int) -> tuple[Event, ...]:
        """What a source reports when it is read at monotonic time ``until_ns``, in the
        order in which it happened.
        """
        waiting = self._waiting.get(source)
        if not waiting:
            return ()
        self._waiting[source] = [(due, event) for due, event in waiting if due > until_ns]
        due_now = sorted(
            (entry for entry in waiting if entry[0] <= until_ns), key=lambda entry: entry[0]
        )
        return tuple(event for _, event in due_now)

    def add(self, source: str, when: Instant, event: Event) -> None:
        """An event that its source reports when it is read after an instant."""
        self._waiting.setdefault(source, []).append((when.mono_ns, event))

"""Events of the NVML source: XIDs and other errors that it announces, hung calls, processes and
GPUs that come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from collector.node.gpu_processes import NO_INSTANCE, Holder
from collector.node.inventory import pci_key
from collector.sources.nvml.states import ABSENT, HUNG, LOST, NAMES, OK, PASSTHROUGH, Change
from collector.sources.nvml.supervisor import Hang
from collector.sources.nvml.targets import printable
from collector.sources.nvml.wire import GarbageError, Message
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event

Process = tuple[int, int, int]  # pid, GPU instance, compute instance
# Events beyond XIDs: kind and attributes by type (nvml.h, nvmlEventType*).
ANNOUNCED: Mapping[int, tuple[str, Mapping[str, str]]] = {
    0x200: ("ecc_storm", {}),
    0x400: ("memory_retired", {}),
    0x800: ("memory_retirement_failed", {}),
    0x1000: ("memory_poison", {"severity": "nonfatal"}),
    0x2000: ("memory_poison", {"severity": "fatal"}),
    0x4000: ("gpu_unavailable", {}),
    0x8000: ("recovery_action_changed", {}),
}
_MAX_PROCESSES = 64  # events of one kind in one reading, per GPU
_NO_INSTANCE = 0xFFFFFFFF


class Happenings:
    """Makes events.

    Processes that hold a GPU when it is first seen are no news: nobody knows when they came.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._processes: dict[str, dict[Process, str]] = {}

    def announced(self, message: Message, device: Device, now: Instant) -> list[Event]:
        """What NVML's event set announced: an XID, or further kinds of error.

        GarbageError where the message is none.
        """
        document = message.document()
        types = document.get("type")
        if not all(isinstance(value, int) for value in document.values()) or types is None:
            raise GarbageError(f"an event that is none: {document!r:.200}")
        common: dict[str, str | int] = {**_pci(device), "origin": "nvml"}
        found = [
            Event(*now, device, kind, {**attributes, **common})
            for bit, (kind, attributes) in ANNOUNCED.items()
            if types & bit
        ]
        if "code" in document:
            wanted = ("code", "gpu_instance", "compute_instance")
            place: dict[str, str | int] = {n: document[n] for n in wanted if n in document}
            found.insert(0, Event(*now, device, "xid", place | common))
        return found

    def processes(self, message: Message, device: Device, now: Instant) -> list[Event]:
        """Processes that came and went since this GPU's last list.

        GarbageError where the message is none.
        """
        listed = message.document().get("processes")
        if not isinstance(listed, list) or not all(
            isinstance(p, list) and len(p) == 3 and all(isinstance(n, int) for n in p)
            for p in listed
        ):
            raise GarbageError(f"processes that are none: {listed!r:.200}")
        held: list[Process] = [(p[0], p[1], p[2]) for p in listed]
        before = self._processes.get(device.id)
        self._processes[device.id] = {p: (before or {}).get(p) or self._comm(p[0]) for p in held}
        if before is None:
            return []
        started = [(p, self._processes[device.id][p]) for p in held if p not in before]
        ended = [(p, name) for p, name in before.items() if p not in self._processes[device.id]]
        return [
            Event(*now, device, kind, _process(process, name))
            for kind, changed in (("gpu_process_started", started), ("gpu_process_ended", ended))
            for process, name in changed[:_MAX_PROCESSES]
        ]

    def holders(self, uuid: str) -> list[Holder]:
        """The processes of a GPU as last reported, each with its GPU instance."""
        return [
            Holder(pid, gi if 0 <= gi < _NO_INSTANCE else NO_INSTANCE)
            for pid, gi, _ in self._processes.get(uuid, {})
        ]

    def hangs(self, hangs: Iterable[Hang], devices: Sequence[Device], now: Instant) -> list[Event]:
        """Calls that did not return, each with the device it belongs to."""
        return [
            Event(
                *now,
                device,
                "driver_hang",
                {"call": hang.function, "seconds": round(hang.seconds, 3), "pid": hang.pid},
            )
            for hang, device in zip(hangs, devices, strict=True)
        ]

    @staticmethod
    def changes(changes: Iterable[Change], now: Instant) -> list[Event]:
        """GPUs that no longer answer, or answer again.

        A GPU that is judged for the first time is news only where it is gone.
        """
        events: list[Event] = []
        for change in changes:
            gone = {LOST, HUNG, ABSENT, PASSTHROUGH}
            if change.now in gone and change.before not in gone:
                said = {"reason": NAMES[change.now]}
                events.append(Event(*now, change.device, "device_gone", said | _pci(change.device)))
            elif change.now == OK and change.before in gone:
                said = {"reason": f"was {NAMES[change.before or 0]}"}
                events.append(
                    Event(*now, change.device, "device_appeared", said | _pci(change.device))
                )
        return events

    def _comm(self, pid: int) -> str:
        try:
            return printable((self._proc / str(pid) / "comm").read_text(errors="replace").strip())
        except OSError:
            return ""  # ended, or not in our pid namespace


def _process(process: Process, name: str) -> dict[str, str | int]:
    pid, instance, compute = process
    attributes: dict[str, str | int] = {"pid": pid} | ({"process": name} if name else {})
    places = (("gpu_instance", instance), ("compute_instance", compute))
    return attributes | {
        attribute: number for attribute, number in places if 0 <= number < _NO_INSTANCE
    }


def _pci(device: Device) -> dict[str, str]:
    pci = device.attributes.get("pci_bus_id")
    return {"pci": pci_key(pci)} if pci else {}

"""XIDs per GPU and code, counted once each, kept over restarts: what a
last-value gauge cannot tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Event, Observation
from pipeline.xid.once import Once
from pipeline.xid.table import critical_codes

log = logging.getLogger("tocsin.xid")

OTHER = 0  # the code under which codes beyond the cap are counted; 0 is no XID
# per device beyond the critical ones: the table has 176, a healthy device shows a handful
MAX_CODES = 64
MAX_DEVICES = 256  # of all ever counted; the one silent for longest makes room
# 1 h: a cold reboot takes up to half of it; what is older than that at first sight is history
HISTORY_NS = 3_600_000_000_000


@dataclass(slots=True)
class _Count:
    count: int = 0
    last_seen_ns: int = 0


class XidCounts:
    """A sink.

    Counters go on over restarts and reboots; they are born at 0 for the critical codes
    of every registered GPU.

    XIDs of GPUs that nobody knows count under the device they were reported on (the node). Old ones
    found at first sight, or in the log of the boot before, are not counted when older than
    ``HISTORY_NS``. ``save`` is called with the whole document after each observation that changed
    it; give that document back after a restart. Any thread may ask.
    """

    name = "xid_counts"

    def __init__(
        self,
        save: Callable[[dict[str, Any]], object],
        document: Mapping[str, Any] | None = None,
        boot_id: str = "",
    ) -> None:
        self._save = save
        self._lock = Lock()
        self._registered: dict[Device, Device] = {}
        self._current: set[Device] = set()  # those seen since the process started
        try:
            self._restore(document or {})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            log.warning(
                "file of XID counts is invalid, counting from zero: %s",
                error,
            )
            self._restore({})
        if boot_id:
            self._enter(boot_id)

    def _restore(self, document: Mapping[str, Any]) -> None:
        self._boot_id = str(document.get("boot_id", ""))
        self._once = Once(document.get("once"))
        self._counts: dict[Device, dict[int, _Count]] = {
            Device(host, kind, identity, facts): {
                code: _Count(int(n), int(seen)) for code, n, seen in counts
            }
            for host, kind, identity, facts, counts in document.get("counts", [])
        }
        self._last: dict[str, tuple[int, int]] = {
            device: (at, code) for device, (at, code) in document.get("last", {}).items()
        }

    def register(self, devices: Iterable[Device]) -> None:
        """The GPUs that are known now, with their attributes of now.

        A swapped GPU is a new one and starts at 0.
        """
        with self._lock:
            self._registered = {device: device for device in devices}

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding] = (),  # noqa: ARG002 - a sink gets all
        incidents: Sequence[Incident] = (),  # noqa: ARG002 - a sink gets all
    ) -> None:
        """Count the XIDs of an observation."""
        with self._lock:
            changed = self._enter(observation.boot_id)
            for event in observation.events:
                if event.kind == "xid" and not _is_history(event, observation.time_ns):
                    changed |= self._take(event, observation.boot_id)
            document = self._document() if changed else None
        if document is not None:
            self._save(document)

    def series(self) -> Iterator[tuple[Device, int, int, int]]:
        """(device, code, count, unix ns of the last one or 0), registered GPUs first; code
        ``OTHER`` gathers those beyond the cap.
        """
        with self._lock:
            known = {
                **self._registered,
                **{
                    d: d
                    for d in self._counts
                    if (d in self._current or d.id in self._last) and d not in self._registered
                },
            }
            rows = [
                (shown, code, entry.count, entry.last_seen_ns)
                for device, shown in known.items()
                for code, entry in sorted(self._shown(device).items())
            ]
        yield from rows

    def last(self, device_id: str) -> int:
        """Code of the last XID of a device in this boot, 0 where there was none."""
        with self._lock:
            return self._last.get(device_id, (0, 0))[1]

    def recent(self, device_id: str, window_ns: int, now_ns: int) -> Mapping[int, int]:
        """Occurrences per code within the window before ``now_ns`` (unix)."""
        with self._lock:
            return self._once.since(device_id, now_ns - window_ns)

    def _shown(self, device: Device) -> dict[int, _Count]:
        born = {code: _Count() for code in critical_codes()} if device in self._registered else {}
        return {**born, **self._counts.get(device, {})}

    def _enter(self, boot_id: str) -> bool:
        """Take notice of a boot; True when it is a new one: then no XID was the last of it yet."""
        if not boot_id or boot_id == self._boot_id:
            return False
        self._boot_id = boot_id
        self._last.clear()
        return True

    def _take(self, event: Event, boot_id: str) -> bool:
        new = self._once.new(event, boot_id)
        if not new:
            return False
        self._current.add(event.device)
        counts = self._counts.setdefault(event.device, {})
        code, seen = (
            int(event.attributes["code"]),
            int(event.attributes.get("last_time_ns", event.time_ns)),
        )
        if (
            not event.attributes.get("previous_boot")
            and seen >= self._last.get(event.device.id, (0, 0))[0]
        ):
            self._last[event.device.id] = (seen, code)
        if code not in counts and code not in critical_codes() and len(counts) >= MAX_CODES:
            code = OTHER
        entry = counts.setdefault(code, _Count())
        entry.count += new
        entry.last_seen_ns = max(entry.last_seen_ns, seen)
        if len(self._counts) > MAX_DEVICES:
            self._drop_oldest()
        return True

    def _drop_oldest(self) -> None:
        oldest = min(
            (d for d in self._counts if d not in self._registered),
            key=lambda device: max(entry.last_seen_ns for entry in self._counts[device].values()),
            default=None,
        )
        if oldest is not None:
            del self._counts[oldest]
            self._last.pop(oldest.id, None)
            self._once.forget(oldest.id)

    def _document(self) -> dict[str, Any]:
        return {
            "boot_id": self._boot_id,
            "counts": [
                [
                    d.host,
                    d.kind,
                    d.id,
                    dict(d.attributes),
                    [[code, e.count, e.last_seen_ns] for code, e in entries.items()],
                ]
                for d, entries in self._counts.items()
            ],
            "last": {device: list(at_code) for device, at_code in self._last.items()},
            "once": self._once.document(),
        }


def _is_history(event: Event, now_ns: int) -> bool:
    found = event.attributes.get("before_start") or event.attributes.get("previous_boot")
    return bool(found) and now_ns - event.time_ns > HISTORY_NS

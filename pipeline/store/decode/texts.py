"""Events and findings of a read: few, each an object of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson

from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.observation import Event, Value
from pipeline.store.decode.stretch import Stretch


class Texts:
    """Events and findings of one machine's reads. Devices of its agent's host have ``host``."""

    def __init__(self, stretch: Stretch, host: str) -> None:
        self._stretch, self._host = stretch, host

    def events(self, read: int) -> tuple[Event, ...]:
        """What happened, in order."""
        rows = self._stretch.texts["events"].get(read, ())
        return tuple(self._event(read, row) for row in rows)

    def findings(self, read: int) -> tuple[Finding, ...]:
        """What was found of the observation then."""
        rows = self._stretch.texts["findings"].get(read, ())
        return tuple(self._finding(read, row) for row in rows)

    def _device(self, read: int, row: Mapping[str, Any]) -> Device:
        host, attributes = orjson.loads(row["device_attributes"])
        agent = self._stretch.names[int(self._stretch.reads.host[read])]
        name = self._host if host == agent else host
        return Device(name, row["device_kind"], row["device"], attributes)

    def _event(self, read: int, row: Mapping[str, Any]) -> Event:
        attributes = {k: _value(v) for k, v in orjson.loads(row["attributes"]).items()}
        device = self._device(read, row)
        return Event(_ns(row["time"]), row["mono_ns"], device, row["kind"], attributes)

    def _finding(self, read: int, row: Mapping[str, Any]) -> Finding:
        named: dict[str, Any] = {
            k: row[k]
            for k in ("detector", "fault", "phase", "severity", "summary", "action", "unit")
        }
        named |= {k: float("nan") if row[k] is None else row[k] for k in ("value", "expected")}
        named |= {"onset_ns": _ns(row["onset"]), "time_ns": _ns(row["said"])}
        if row.get("again") is not None:  # files of versions before 0.6 have no such column
            named |= {"times": row["times"], "again_ns": _ns(row["again"])}
        device = self._device(read, row)
        return Finding(device=device, evidence=tuple(row["evidence"]), **named)


def _ns(time: Any) -> int:
    return int(np.datetime64(time.replace(tzinfo=None), "us").astype(np.int64)) * 1000


def _value(value: Any) -> Value:
    return float(value[0]) if isinstance(value, list) else value

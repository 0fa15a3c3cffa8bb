"""What an export is about: which devices, on which hosts, in which time. Found in the store itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from pipeline.catalog import KINDS
from pipeline.store.slice import Slice, Window, one_of

AROUND_US = 15 * 60 * 1_000_000  # before the onset and after the last word of an incident
MOST_NAMED = 20  # devices in an error message


class NothingToExportError(ValueError):
    """Nothing in the store is what was asked for; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the export is about. No device means all of the hosts; no host means all."""

    title: str
    window: Window
    devices: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = tuple(KINDS)


def about_device(root: Path, device: str, window: Window, hosts: Sequence[str] = ()) -> Subject:
    """The subject of one device and its parts (MIG instances, links), on every host it was in."""
    where = one_of("host", hosts) if hosts else None
    known = Slice(root, window).table("devices", where)
    rows = [] if known is None else known.select(["host", "device", "kind"]).to_pylist()
    own = [r for r in rows if r["device"] == device or r["device"].startswith(f"{device}/")]
    if not own:
        there = sorted({r["device"] for r in rows if "/" not in r["device"]})
        listed = ", ".join(there[:MOST_NAMED]) + (" ..." if len(there) > MOST_NAMED else "")
        raise NothingToExportError(f"no device {device} in that time; there {'are ' + listed if there else 'is none at all'}")
    return _subject(f"device {device}", window, own)


def about_incident(root: Path, incident: str, window: Window | None = None) -> Subject:
    """The subject of an incident, or of a single finding: its devices, in the window or from a quarter of an hour before to a quarter after."""
    rows = Slice(root, window)
    found = rows.table("incidents", pc.field("id") == incident)
    grouped = [] if found is None else found.to_pylist()
    ids = {incident, *(i for row in grouped for i in row["findings"] or ())}
    said = rows.table("findings", one_of("id", sorted(ids)))
    findings = [] if said is None else said.to_pylist()
    if not findings and not grouped:
        raise NothingToExportError(f"no incident or finding {incident} in the store")
    times = [r[name] for r in findings for name in ("onset", "time")] + [
        r[n] for r in grouped for n in ("opened", "cleared") if r[n]
    ]
    around = Window(_us(min(times)) - AROUND_US, _us(max(times)) + AROUND_US)
    named = [{"host": r["host"], "device": r["device"], "kind": r["device_kind"]} for r in findings + grouped]
    return _subject(f"incident {incident}", window or around, named)


def about_time(window: Window, hosts: Sequence[str] = ()) -> Subject:
    """Everything of that time, of these hosts or of all."""
    return Subject(f"everything of {', '.join(hosts) or 'all hosts'}", window, hosts=tuple(hosts))


def _subject(title: str, window: Window, rows: Sequence[Mapping[str, Any]]) -> Subject:
    names = ("device", "host", "kind")
    devices, hosts, kinds = (tuple(sorted({str(r[name]) for r in rows})) for name in names)
    return Subject(title, window, devices, hosts, tuple(k for k in kinds if k in KINDS))


def _us(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)

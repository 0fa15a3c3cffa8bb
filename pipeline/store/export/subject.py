"""What an export is about: which devices, on which hosts, in which time.

Found in the store itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from pipeline.catalog import KINDS
from pipeline.short_ids import LATEST, UnknownIdError, resolve, short
from pipeline.store.files.slice import Slice, Window, one_of

WHAT = "incident or finding"
AROUND_US = 15 * 60 * 1_000_000  # before the onset and after the last word of an incident
MAX_NAMED = 20  # devices in an error message


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
        listed = ", ".join(there[:MAX_NAMED]) + (" ..." if len(there) > MAX_NAMED else "")
        raise NothingToExportError(
            f"no device {device} in that time; there "
            f"{'are ' + listed if there else 'is none at all'}"
        )
    return _subject(f"device {device}", window, own)


def about_incident(root: Path, incident: str, window: Window | None = None) -> Subject:
    """The subject of an incident, or of a single finding: its devices, in the window or from a
    quarter of an hour before to a quarter after.
    """
    rows = Slice(root, window)
    try:
        wanted = _latest(rows) if incident == LATEST else resolve(incident, _known(rows), WHAT)
    except UnknownIdError as error:
        raise NothingToExportError(str(error)) from error
    found = rows.table("incidents", pc.field("id") == wanted)
    grouped = [] if found is None else found.to_pylist()
    ids = {wanted, *(i for row in grouped for i in row["findings"] or ())}
    members = rows.table("findings", one_of("id", sorted(ids)))
    findings = [] if members is None else members.to_pylist()
    times = [r[name] for r in findings for name in ("onset", "time")] + [
        r[n] for r in grouped for n in ("opened", "cleared") if r[n]
    ]
    around = Window(_us(min(times)) - AROUND_US, _us(max(times)) + AROUND_US)
    named = [
        {"host": r["host"], "device": r["device"], "kind": r["device_kind"]}
        for r in findings + grouped
    ]
    return _subject(f"incident {short(wanted)}", window or around, named)


def _latest(rows: Slice) -> str:
    """The incident that opened last; UnknownIdError where there is none."""
    table = rows.table("incidents")
    if table is None or not len(table):
        raise UnknownIdError("the store has no incident in that time")
    newest = table.select(["id", "opened"]).sort_by([("opened", "descending")])
    return str(newest["id"][0].as_py())


def _known(rows: Slice) -> dict[str, str]:
    """Ids of incidents and findings, newest first, each with what it is about."""
    found = [
        row
        for name in ("incidents", "findings")
        if (table := rows.table(name)) is not None
        for row in table.select(["id", "time", "fault", "device"]).to_pylist()
    ]
    found.sort(key=lambda row: row["time"])
    about = {row["id"]: f"{row['fault']}, {row['device']}" for row in found}
    return dict(reversed(about.items()))


def about_time(window: Window, hosts: Sequence[str] = ()) -> Subject:
    """Everything of that time, of these hosts or of all."""
    return Subject(f"everything of {', '.join(hosts) or 'all hosts'}", window, hosts=tuple(hosts))


def _subject(title: str, window: Window, rows: Sequence[Mapping[str, Any]]) -> Subject:
    names = ("device", "host", "kind")
    devices, hosts, kinds = (tuple(sorted({str(r[name]) for r in rows})) for name in names)
    return Subject(title, window, devices, hosts, tuple(k for k in kinds if k in KINDS))


def _us(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)

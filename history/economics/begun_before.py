"""What began long before a report and may last into it: jobs, maintenance, repairs.

Of the time before ``LOOK_BACK`` all events of the store are read, however old, and one by one only
these kinds; of jobs those of the node's present boot, because none outlives it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from history.economics.held import left_open
from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.store.query.store import Store, Window

LOOK_BACK = timedelta(days=30)  # events of this time before a report are all taken
JOBS = ("job_started", "job_ended")
OUT_OF_SERVICE = ("maintenance_started", "maintenance_ended", "repair_step")
DAY = timedelta(days=1)  # every day's files begin with a row of each device
MIN_TRIMMED = 1000  # events of a node
COLUMNS = (
    *("time", "seq", "n", "host", "device"),  # in their order
    *("device_kind", "kind", "attributes"),
)
BOOTS = "SELECT host, time, boot_id FROM devices WHERE kind = 'gpu' ORDER BY time"


def begun_before(store: Store, since: datetime) -> list[Event]:
    """Events older than ``LOOK_BACK``, in order: maintenance and repairs, and the starts of jobs
    that nothing ended before then, with the GPUs that are left to them.
    """
    boots = _boots(store, since)
    nodes: dict[str, _Jobs] = defaultdict(_Jobs)
    found: list[Event] = []
    for event in _events(store, since - LOOK_BACK, boots):
        if event.kind in OUT_OF_SERVICE:
            found.append(event)
        else:
            nodes[event.device.host].add(event)
    for jobs in nodes.values():
        found += left_open(jobs.events)
    return sorted(found, key=lambda event: event.time_ns)


class _Jobs:
    """Events of a node's jobs, from the first start on that no end of that job has followed: nearly
    all jobs of the years before have ended, and need not be kept.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._open: dict[tuple[Any, bool], int] = {}
        self._limit = MIN_TRIMMED

    def add(self, event: Event) -> None:
        """The next one."""
        job = event.attributes.get("job"), "scheduler" in event.attributes
        self._open.pop(job, None)
        if event.kind == "job_started":
            self._open[job] = event.time_ns
        self.events.append(event)
        if not self._open:
            self.events.clear()
        elif len(self.events) > self._limit:
            first = min(self._open.values())
            self.events = [one for one in self.events if one.time_ns >= first]
            self._limit = max(MIN_TRIMMED, 2 * len(self.events))


def _events(store: Store, until: datetime, boots: Collection[str]) -> Iterator[Event]:
    """One at a time: a site has millions a year. In the order of files, and in that of time within
    one.
    """
    until_us = round(until.timestamp() * 1e6)
    pieces = store.pieces("events", (*COLUMNS, "boot_id"), Window(until=until))
    logged = next(pieces)  # the newest come first
    for piece in pieces:
        yield from _of(piece, until_us, boots)
    yield from _of(logged, until_us, boots)


def _of(piece: Any, until_us: int, boots: Collection[str]) -> Iterator[Event]:
    times_us = piece["time"].cast("int64").to_numpy()
    kinds, of_jobs = piece["kind"], _among(piece["boot_id"], boots)
    wanted = _among(kinds, OUT_OF_SERVICE) | (_among(kinds, JOBS) & of_jobs)
    wanted &= times_us < until_us
    some = piece.take(np.flatnonzero(wanted))
    columns = (some[name].to_pylist() for name in COLUMNS[1:])
    rows = zip(times_us[wanted].tolist(), *columns, strict=True)
    for us, _, _, host, device, device_kind, kind, attributes in sorted(rows):
        about = Device(host, device_kind, device)
        yield Event(us * 1000, 0, about, kind, orjson.loads(attributes))


def _among(column: Any, names: Collection[str]) -> NDArray[np.bool_]:
    """Of a column of names, (row,): whether each is one of these."""
    wanted = [
        np.isin(np.array(chunk.dictionary.to_pylist(), np.str_), list(names))[chunk.indices]
        for chunk in column.chunks
    ]
    return np.concatenate((np.zeros(0, np.bool_), *wanted))


def _boots(store: Store, since: datetime) -> Collection[str]:
    """The boots of all nodes at a time; of one that was not read from a day before it to a day
    after nothing is known.
    """
    found: dict[str, str] = {}
    for host, time, boot in store.sql(BOOTS, Window(since - DAY, since + DAY)).iter_rows():
        if host not in found or time <= since:
            found[host] = boot
    return frozenset(found.values())

"""What changed from one second to the next, as server-sent events that any number of clients read.

An event is made once. Clients keep a place in one ring: who is too slow, or away for too long, is
sent to load everything again, and costs no memory.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson

from collector.web.incident_rows import time
from gateway.api import incidents, jobs, schema, topology
from gateway.api.operation import View
from gateway.model.health import Codes, Levels
from pipeline.clock import SECOND_NS
from pipeline.documents import printable

Row = Mapping[str, Any]
MAX_EVENTS, MAX_BYTES = 1000, 4 << 20  # of the ring
MAX_ROWS = 200  # incidents or jobs that change in a second; beyond it they are better loaded again
MAX_LEVELS = 5000  # devices, likewise
MAX_EVENT = 256 << 10  # bytes of one event, likewise
TICK_NS = 5 * SECOND_NS
# Numbers of now change each second; a row is sent where anything else does.
OF_NOW = {"incidents": frozenset({"last_true", "cause"}), "jobs": frozenset({"stalled_seconds"})}

_PAIRS = schema.array(schema.array(schema.whole(), most=2), "place and level")
_AT = {"time": schema.time("when it was so")}
_LAYOUT = {"layout": schema.text("version of the layout, as in the topology")}
_LEADS = {"leads": schema.flag("whether this gateway holds the lease")}
EVENTS: Mapping[str, schema.Schema] = {
    "hello": schema.obj(
        "the first event of each answer", **_AT, cluster=schema.text(), **_LAYOUT, **_LEADS
    ),
    "reset": schema.obj("too much has changed: load everything again", **_AT, **_LAYOUT),
    "levels": schema.obj(
        "levels that changed, by place in the topology",
        **_AT,
        **_LAYOUT,
        nodes=_PAIRS,
        gpus=_PAIRS,
        ports=_PAIRS,
        silent=schema.maybe(schema.array(schema.whole(), "all silent nodes; null: unchanged")),
    ),
    "incidents": schema.obj(
        "incidents that opened, changed or ended",
        **_AT,
        changed=schema.array(incidents.ROW),
        gone=schema.array(schema.text(), "ids that are listed no more"),
    ),
    "jobs": schema.obj(
        "jobs that began or changed",
        **_AT,
        changed=schema.array(jobs.ROW),
        gone=schema.array(schema.text(), "ids of jobs that ended"),
    ),
    "tick": schema.obj(
        "every five seconds",
        **_AT,
        judged=schema.maybe(schema.time("the last second that was judged")),
        hosts=schema.whole("that send"),
        late=schema.whole("that were late for it"),
        **_LEADS,
    ),
}
for _name, _schema in EVENTS.items():
    schema.named(f"Event{_name.capitalize()}", _schema)


@dataclass(frozen=True, slots=True)
class Pulse:
    """How the gateway itself is doing. ``judged_s``: the last second that was judged, unix; 0 =
    none. ``present``: whether that is of now.
    """

    judged_s: float = 0.0
    hosts: int = 0
    late: int = 0
    leads: bool = False
    present: bool = True


class _Seen(NamedTuple):
    """What was sent last."""

    layout: str
    levels: Levels
    rows: Mapping[str, Mapping[str, Row]]  # by kind, then id


class Feed:
    """The ring. ``step`` is called by one thread, ``after`` and ``hello`` by another."""

    def __init__(self, pulse: Callable[[], Pulse] = Pulse) -> None:
        self._pulse = pulse
        self._start = secrets.token_hex(4)
        self._ring: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._seen: _Seen | None = None
        self._ticked_ns = 0
        self._cluster, self._time_ns = "", 0
        self.end = 0  # number of the newest event

    @property
    def begun(self) -> bool:
        """Whether there is anything to say hello with."""
        return self._seen is not None

    def step(self, view: View) -> list[tuple[str, Row]]:
        """The events since the last step; the ring has them from now on when ``add`` is called."""
        cluster = view.cluster
        self._cluster, self._time_ns = view.name, cluster.time_ns
        rows: dict[str, Mapping[str, Row]] = {
            "incidents": {row["id"]: row for row in incidents.rows(cluster, view.links)},
            "jobs": {row["id"]: row for row in jobs.rows(cluster, view.links)},
        }
        seen, now = (
            self._seen,
            _Seen(topology.static_of(cluster.layout).version, cluster.levels, rows),
        )
        self._seen = now
        at = {"time": time(cluster.time_ns)}
        found = [] if seen is None else _changes(seen, now, at)
        if not 0 <= cluster.time_ns - self._ticked_ns < TICK_NS:
            self._ticked_ns = cluster.time_ns
            found.append(("tick", {**at, **self._tick()}))
        return found

    def add(self, events: Iterable[tuple[str, Row]]) -> bool:
        """Put events into the ring; whether there were any."""
        before = self.end
        for name, data in events:
            body = orjson.dumps(data)
            fits = len(body) <= MAX_EVENT
            self.end += 1
            event = (
                self._encoded(self.end, name, body)
                if fits
                else self._encoded(self.end, "reset", orjson.dumps(self._reset()))
            )
            self._ring.append((self.end, event))
            self._bytes += len(event)
            while len(self._ring) > MAX_EVENTS or self._bytes > MAX_BYTES:
                self._bytes -= len(self._ring.popleft()[1])
        return self.end > before

    def after(self, number: int) -> list[tuple[int, bytes]]:
        """Events after this one, with their numbers; a reset where some of them are gone."""
        first = self._ring[0][0] if self._ring else self.end + 1
        if number < first - 1:
            return [(self.end, self._encoded(self.end, "reset", orjson.dumps(self._reset())))]
        return [one for one in self._ring if one[0] > number]

    def place(self, last: str) -> int:
        """Number of the event that a client had last: -1, older than all, where it is unknown; the
        newest where it had none.
        """
        if not last:
            return self.end
        start, _, number = last.partition("-")
        known = start == self._start and number.isascii() and number.isdigit() and len(number) < 12
        return int(number) if known and int(number) <= self.end else -1

    def hello(self, number: int) -> bytes:
        """The first event of an answer, for a client that had this one last."""
        data = {
            **self._reset(),
            "cluster": printable(self._cluster),
            "leads": self._pulse().leads,
        }
        return self._encoded(number, "hello", orjson.dumps(data))

    def _reset(self) -> Row:
        layout = self._seen.layout if self._seen is not None else ""
        return {"time": time(self._time_ns), "layout": layout}

    def _tick(self) -> Row:
        pulse = self._pulse()
        return {
            "judged": time(round(pulse.judged_s) * SECOND_NS) if pulse.judged_s else None,
            "hosts": pulse.hosts,
            "late": pulse.late,
            "leads": pulse.leads,
        }

    def _encoded(self, number: int, name: str, body: bytes) -> bytes:
        return f"id: {self._start}-{number}\nevent: {name}\ndata: ".encode() + body + b"\n\n"


def _changes(seen: _Seen, now: _Seen, at: Row) -> list[tuple[str, Row]]:
    found: list[tuple[str, Row]] = []
    if seen.layout != now.layout:
        return [("reset", {**at, "layout": now.layout})]
    changed = {
        "nodes": _pairs(seen.levels.nodes, now.levels.nodes),
        "gpus": _pairs(seen.levels.gpus, now.levels.gpus),
        "ports": _pairs(seen.levels.ports, now.levels.ports),
    }
    still = np.array_equal(seen.levels.silent, now.levels.silent)
    silent = None if still else np.flatnonzero(now.levels.silent).tolist()
    size = sum(map(len, changed.values())) + len(silent or ())
    if size or silent is not None:
        found.append(("levels", {**at, "layout": now.layout, **changed, "silent": silent}))
    for kind, rows in now.rows.items():
        known = seen.rows[kind]
        fresh = [row for name, row in rows.items() if _differs(known.get(name), row, OF_NOW[kind])]
        gone = [name for name in known if name not in rows]
        if len(fresh) + len(gone) > MAX_ROWS:
            size = MAX_LEVELS + 1
        if fresh or gone:
            found.append((kind, {**at, "changed": fresh, "gone": gone}))
    return found if size <= MAX_LEVELS else [("reset", {**at, "layout": now.layout})]


def _pairs(before: Codes, after: Codes) -> Sequence[tuple[int, int]]:
    rows = np.flatnonzero(before != after)
    return list(zip(rows.tolist(), after[rows].tolist(), strict=True))


def _differs(before: Row | None, after: Row, of_now: frozenset[str]) -> bool:
    return before is None or (
        before != after and any(before[k] != v for k, v in after.items() if k not in of_now)
    )

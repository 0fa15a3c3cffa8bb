"""The roster: rows of joined frames that stay where they are while hosts are late or gone.

Detectors compare the identity of a frame's devices, and find each device's memory by it. So a host
that sent nothing keeps its rows, with nothing observed in them, until it is forgotten.

Rows and events are in the order of the hosts' names, in whatever order the hosts came: a gateway
and a replay, to which they come in other orders, find the same in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrival import Arrival
from pipeline.block import AnyBlock, Layout, block_of
from pipeline.catalog import KINDS
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Observation
from pipeline.plain import devices_to_json
from pipeline.room import Rooms
from pipeline.room_writing import Here, Writing

FLEET = "fleet"  # host and boot of joined observations
READ = "read"  # in a state: when each host was read
_ORDER = {kind: number for number, kind in enumerate(KINDS)}  # of the frames of an observation


@dataclass(slots=True)
class _Rows:
    """Devices of one kind that one source reads, host by host."""

    parts: dict[str, tuple[Device, ...]] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    # The boot and the monotonic time at which each host was read last.
    read: dict[str, tuple[str, int]] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)  # first row of each host
    _plain: bytes = b""  # as plain values; made where it is asked for, then kept

    def plain(self) -> bytes:
        """All devices, host by host, as JSON."""
        if not self._plain:
            hosts = (
                b"[%b,%b]" % (json.dumps(host).encode(), devices_to_json(its))
                for host, its in self.parts.items()
            )
            self._plain = b"[%b]" % b",".join(hosts)
        return self._plain

    @classmethod
    def of(cls, plain: bytes) -> _Rows:
        """What ``plain`` gave."""
        rows = cls({host: tuple(Device(*each) for each in its) for host, its in json.loads(plain)})
        rows._lay_out()
        return rows

    def place(self, blocks: Mapping[str, AnyBlock]) -> None:
        """Make room for what is new or has changed."""
        fresh = {h: b.devices for h, b in blocks.items() if self.parts.get(h) is not b.devices}
        changed = {h: d for h, d in fresh.items() if not _same(self.parts.get(h), d)}
        # The same devices as other objects are known by these from now on: comparing is dear.
        self.parts |= fresh
        if changed:
            self._lay_out()

    def passed_s(self, host: str, boot_id: str, mono_ns: int) -> float:
        """Seconds since a host, which is read now, was read before; 0 for the first of a boot."""
        boot, last_ns = self.read.get(host, ("", 0))
        self.read[host] = boot_id, mono_ns
        return max(0.0, (mono_ns - last_ns) / SECOND_NS) if boot == boot_id else 0.0

    def forget(self, hosts: Sequence[str]) -> None:
        """Drop the rows of these hosts."""
        for host in hosts:
            self.read.pop(host, None)
        if any(self.parts.pop(host, None) is not None for host in hosts):
            self._lay_out()

    def _lay_out(self) -> None:
        self.parts = dict(sorted(self.parts.items()))
        self.devices = tuple(chain.from_iterable(self.parts.values()))
        ends = accumulate(map(len, self.parts.values()), initial=0)
        self.begins = dict(zip(self.parts, ends, strict=False))
        self._plain = b""


def _same(known: tuple[Device, ...] | None, devices: tuple[Device, ...]) -> bool:
    return known == devices and all(
        a.attributes == b.attributes for a, b in zip(known or (), devices, strict=True)
    )


class Roster:
    """Joins observations of one source, at most one per host."""

    def __init__(self, writing: Writing | None = None) -> None:
        self._writing = writing or Here()
        self._rows: dict[tuple[str, str], _Rows] = {}
        self._rooms: dict[tuple[str, str], Rooms] = {}
        self._seq = 0
        self._mono_ns = 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Rows by source and kind, and where the joined observations are."""
        rows = {
            f"{source}/{kind}": np.frombuffer(rows.plain(), np.uint8)
            for (source, kind), rows in self._rows.items()
        }
        read = [[*key, rows.read] for key, rows in self._rows.items()]
        return {
            **rows,
            READ: np.frombuffer(json.dumps(read).encode(), np.uint8),
            "at": np.array([self._seq, self._mono_ns], np.int64),
        }

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on with what ``state`` gave. KeyError, TypeError or ValueError, unchanged, where it is
        something else.
        """
        seq, mono_ns = state["at"].tolist()
        rows = {}
        for name, array in state.items():
            if name not in ("at", READ):
                source, _, kind = name.rpartition("/")
                rows[source, kind] = _Rows.of(array.tobytes())
        if READ in state:  # older snapshots have none
            for source, kind, read in json.loads(state[READ].tobytes()):
                rows[source, kind].read = {h: (str(b), int(ns)) for h, (b, ns) in read.items()}
        self._rows, self._seq, self._mono_ns = rows, seq, mono_ns

    def join(self, observations: Sequence[Observation | Arrival]) -> Observation:
        """One observation of all, at the latest of their times.

        Durations are those of corrected unix time: hosts have no monotonic clock in common, and it
        never goes back here.
        """
        time_ns = max(o.time_ns for o in observations)
        self._mono_ns = max(self._mono_ns + 1, time_ns)
        self._seq += 1
        source = observations[0].source
        by_kind: dict[str, dict[str, AnyBlock]] = {}
        boots = {observation.host: observation.boot_id for observation in observations}
        for observation in observations:
            for frame in observation.frames:
                by_kind.setdefault(frame.kind, {})[observation.host] = block_of(frame)
        frames = tuple(
            self._frame(source, kind, by_kind[kind], boots, time_ns)
            for kind in sorted(by_kind, key=_ORDER.__getitem__)
        )
        eventful = sorted((o for o in observations if o.events or o.unread), key=_host)
        self._writing.done()
        return Observation(
            source,
            FLEET,
            FLEET,
            self._seq,
            time_ns,
            self._mono_ns,
            max(o.duration_ns for o in observations),
            frames=frames,
            events=tuple(chain.from_iterable(o.events for o in eventful)),
            unread=tuple(chain.from_iterable(o.unread for o in eventful)),
        )

    def forget(self, hosts: Sequence[str]) -> None:
        """Hosts that are gone."""
        for rows in self._rows.values():
            rows.forget(hosts)
        for key in [key for key, rows in self._rows.items() if not rows.parts]:
            del self._rows[key]
            self._rooms.pop(key, None)

    def _frame(
        self,
        source: str,
        kind: str,
        blocks: Mapping[str, AnyBlock],
        boots: Mapping[str, str],
        time_ns: int,
    ) -> Frame:
        rows = self._rows.setdefault((source, kind), _Rows())
        rooms = self._rooms.setdefault((source, kind), Rooms(self._writing.room))
        rows.place(blocks)
        alike: dict[Layout, list[tuple[int, AnyBlock]]] = {}
        for host, block in blocks.items():
            alike.setdefault(block.layout, []).append((rows.begins[host], block))
        only = next(iter(alike)) if len(alike) == 1 and len(blocks) == len(rows.parts) else None
        room = rooms.free(kind, len(rows.devices), only)
        for layout, placed in alike.items():
            placed.sort(key=_begin)
            room.layouts.add(layout)
            self._writing.write(room, layout, placed)
        passed_s = [
            rows.passed_s(host, boots[host], blocks[host].mono_ns) if host in blocks else np.nan
            for host in rows.parts
        ]
        return Frame(
            schema_of(kind),
            time_ns,
            self._mono_ns,
            rows.devices,
            *room.shown(),
            passed_s=np.repeat(passed_s, [len(devices) for devices in rows.parts.values()]),
        )


def _begin(placed: tuple[int, AnyBlock]) -> int:
    return placed[0]


def _host(observation: Observation | Arrival) -> str:
    return observation.host

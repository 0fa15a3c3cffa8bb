"""Which file system or disk of a node is slower than it usually is, and holds requests up.

The mean latency of a minute is the time of its requests over their number, and how many are under
way on average is that time over the minute's (Little, 1961).
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.readings import per_second
from pipeline.catalog.storage import DISK, MOUNT
from pipeline.frame import Device, Frame
from pipeline.small_arrays import or_else

# Of each kind: what is done, the counter of its number, that of its time, and the unit of that.
PARTS = {
    MOUNT: (
        ("reads", "read_operations", "read_microseconds", 1e-6),
        ("metadata operations", "other_operations", "other_microseconds", 1e-6),
        ("writes", "write_operations", "write_microseconds", 1e-6),
    ),
    DISK: (
        ("reads", "reads", "read_milliseconds", 1e-3),
        ("writes", "writes", "write_milliseconds", 1e-3),
    ),
}
MORE = {MOUNT: (("queue", "queue_microseconds", 1e-6), ("sent", "transmissions", 1.0)), DISK: ()}
# Thresholds are proposed. A reason is named where requests take longer than usual and are what is
# waited for; it is one by itself, where pressure shows none, only for what pressure does not count
# (NFS waits for metadata outside of io_schedule), and only where it is clear.
SLOWER, UNDER_WAY = 3.0, 0.3
CLEARLY_SLOWER, CLEARLY_UNDER_WAY = 5.0, 0.5
LEARNED = 5  # minutes with requests before anything is said
MIN_PER_S = 0.1  # requests, for a mean that says something
WEIGHT, WEIGHT_OF_SLOW = 0.1, 0.01  # of a new minute in what is usual

Floats = NDArray[np.float64]


class Slow(NamedTuple):
    """``text`` as a clause, ``detail`` as evidence. ``excess`` is how many requests are under way
    that would not be at the usual latency.
    """

    text: str
    detail: str
    excess: float
    clear: bool


def fills(kind: str) -> dict[str, float]:
    """Columns of the devices of a kind."""
    parts = {
        f"{part}_{what}": fill
        for what, *_ in PARTS[kind]
        for part, fill in (("n", 0.0), ("s", 0.0), ("usual", np.nan), ("learned", 0.0))
    }
    return {**parts, **{name: 0.0 for name, *_ in MORE[kind]}, "count": 0.0, "is": 0.0}


class Storage:
    """Of the mounts or disks in ``columns``."""

    def __init__(self, kind: str, columns: Columns) -> None:
        self.kind, self._columns = kind, columns
        self._shown: tuple[Device, ...] = ()

    def sample(self, frame: Frame) -> None:
        """A frame of this kind."""
        if frame.increments is None:
            return
        columns = self._columns
        columns.show(frame)
        if frame.devices is not self._shown:
            self._renew()
            self._shown = frame.devices
        fresh = np.zeros(len(columns), np.bool_)
        for what, number, spent, unit in PARTS[self.kind]:
            n = columns.wide(per_second(frame, number))
            s = columns.wide(per_second(frame, spent) * unit)
            known = np.isfinite(n) & np.isfinite(s)
            columns[f"n_{what}"] = columns[f"n_{what}"] + np.where(known, n, 0.0)
            columns[f"s_{what}"] = columns[f"s_{what}"] + np.where(known, s, 0.0)
            fresh |= known
        for name, counter, unit in MORE[self.kind]:
            columns[name] = columns[name] + or_else(columns.wide(per_second(frame, counter) * unit))
        columns["count"] = columns["count"] + fresh

    def slowest(self) -> dict[str, Slow]:
        """By host what holds most requests up in the block that has passed, where anything does."""
        columns, found = self._columns, dict[str, Slow]()
        for what, *_ in PARTS[self.kind]:
            latency, under_way = self._block(what)
            usual = columns[f"usual_{what}"]
            slow = (latency >= SLOWER * usual) & (under_way >= UNDER_WAY)
            slow &= columns[f"learned_{what}"] >= LEARNED
            for row in np.flatnonzero(slow).tolist():
                one = self._slow(row, what, float(latency[row]), float(usual[row]))
                host = columns.devices[row].host
                if host not in found or found[host].excess < one.excess:
                    found[host] = one
        return found

    def close(self, calm: Collection[str]) -> None:
        """Learn what is usual on hosts where nobody waits; the next block begins."""
        columns = self._columns
        here = np.array([device.host in calm for device in columns.devices], np.bool_)
        for what, *_ in PARTS[self.kind]:
            latency, _ = self._block(what)
            usual = columns[f"usual_{what}"]
            slow = latency >= SLOWER * usual
            weight = np.where(slow, WEIGHT_OF_SLOW, WEIGHT)
            counts = np.where(slow, SLOWER * usual, latency)
            new = np.where(np.isnan(usual), latency, usual + weight * (counts - usual))
            take = here & np.isfinite(latency)
            columns[f"usual_{what}"] = np.where(take, new, usual)
            columns[f"learned_{what}"] = columns[f"learned_{what}"] + take
        sums = [f"{part}_{what}" for what, *_ in PARTS[self.kind] for part in "ns"]
        more = [name for name, *_ in MORE[self.kind]]
        columns.reset(np.ones(len(columns), np.bool_), *sums, *more, "count")

    def _block(self, what: str) -> tuple[Floats, Floats]:
        """Mean latency, s, NaN where too little was asked, and requests under way, (row,)."""
        columns = self._columns
        number, spent, count = columns[f"n_{what}"], columns[f"s_{what}"], columns["count"]
        enough = (count > 0) & (number >= MIN_PER_S * count)
        nothing = np.full(len(columns), np.nan)
        return (
            np.divide(spent, number, out=nothing.copy(), where=enough),
            np.divide(spent, count, out=nothing, where=enough),
        )

    def _slow(self, row: int, what: str, latency: float, usual: float) -> Slow:
        columns, device = self._columns, self._columns.devices[row]
        _, under_way = self._block(what)
        excess = float(under_way[row]) * (1 - usual / latency)
        took = f"take {_duration(latency)} (usual {_duration(usual)})"
        detail = [f"{under_way[row]:.1f} requests under way on average"]
        if self.kind == DISK:
            return Slow(f"{what} of {device.id} {took}", f"{device.id}: {detail[0]}", excess, False)
        spent = sum(columns[f"s_{name}"][row] for name, *_ in PARTS[MOUNT])
        asked = sum(columns[f"n_{name}"][row] for name, *_ in PARTS[MOUNT])
        if spent > 0 and (queued := columns["queue"][row] / spent) >= 0.3:
            detail.append(f"{queued:.0%} of their time until a slot for them is free")
        if asked > 0 and (again := columns["sent"][row] / asked - 1) >= 0.01:
            detail.append(f"{again:.0%} sent again")
        facts = device.attributes
        name = "Lustre" if facts.get("fstype") == "lustre" else "NFS"
        clear = latency >= CLEARLY_SLOWER * usual and excess >= CLEARLY_UNDER_WAY
        return Slow(
            f"{name} {what} on {facts.get('mountpoint', device.id)} {took}",
            f"{facts.get('device', device.id)}: {', '.join(detail)}",
            excess,
            clear and what != "writes",
        )

    def _renew(self) -> None:
        """Rows that are another mount than before begin again."""
        columns = self._columns
        names = np.array([_number(device) for device in columns.devices], np.float64)
        columns.reset(names != columns["is"])
        columns["is"] = names


def _number(device: Device) -> float:
    """What distinguishes one mount from another under the same number."""
    facts = device.attributes
    text = f"{facts.get('device', device.id)} {facts.get('mountpoint', '')}"
    return float(zlib.crc32(text.encode()))


def _duration(seconds: float) -> str:
    """In words.

    >>> _duration(0.18), _duration(0.00412), _duration(2.5)
    ('180 ms', '4.1 ms', '2.5 s')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2g} ms"

"""Stores with days of rows in them: random frames of a few kinds, events, findings and changed
attributes, hours apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pipeline.finding import Finding
from pipeline.observation import Event, Observation, Unread
from pipeline.store.keep.generations import Pass
from tests.fakes import FakeClock, gpu, observed
from tests.pipeline.store.keep.test_seal import Seen, devices_of, random_frame, store

MIDNIGHT_NS = 1_799_971_200_000_000_000  # 2027-01-15 00:00:00 UTC
DAY = "date=2027-01-15"
KINDS = ("ib_port", "node")
HOURS = (1, 7, 13, 19, 25, 31)


def later(root: Path, days: float = 30.0) -> Pass:
    """A pass over the store when its first days are long over."""
    return Pass(root, MIDNIGHT_NS // 1000 + round(days * 86_400_000_000))


def at(hour: float) -> FakeClock:
    """A clock at an hour of the first day."""
    return FakeClock(
        wall_ns=MIDNIGHT_NS + round(hour * 3_600_000_000_000),
        mono_ns=round((hour + 1) * 3_600_000_000_000),
    )


def seen(
    clock: FakeClock, n: int, first_seq: int, kinds: tuple[str, ...] = KINDS, seed: int = 1
) -> Iterator[Seen]:
    """``n`` observations a second apart; the firmware of one device changes half way; now and then
    something happens or is found.
    """
    rng = np.random.default_rng(seed)
    known = {kind: devices_of(kind, 3) for kind in kinds}
    for i in range(n):
        clock.advance(1.0)
        if i == n // 2:
            kind = kinds[0]
            known[kind] = (
                *known[kind][:2],
                replace(known[kind][2], attributes={"firmware": str(seed)}),
            )
        frames = [random_frame(k, rng, clock, d) for k, d in known.items()]
        # 56 bits: beyond what a float64 holds, and a bucket's sum of them still fits 64.
        frames = [replace(frame, counters=frame.counters >> np.uint64(8)) for frame in frames]
        o = observed(clock, *frames, seq=first_seq + i)
        yield _with_happenings(o, i)


def _with_happenings(o: Observation, i: int) -> Seen:
    if i % 3:
        return o, ()
    event = Event(o.time_ns - 3_600_000_000_000, 0, gpu(1), "xid", {"code": 79, "share": 0.5})
    finding = Finding(
        "ecc",
        gpu(1),
        "ecc",
        "onset",
        "page",
        o.time_ns,
        o.time_ns,
        "Bad.",
        "COMPONENT_RESET",
        evidence=("a",),
    )
    return replace(
        o, events=(event, replace(event, kind="clock_step")), unread=(Unread("EINVAL", "d"),)
    ), (finding,)


def two_days(
    root: Path, kinds: tuple[str, ...] = KINDS, hours: tuple[float, ...] = HOURS
) -> list[Seen]:
    """A store with reads at these hours after midnight, ten seconds each,
    sealed in small segments.
    """
    whole, made = _two_days(kinds, hours)
    (root / "wal").mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(whole)


@cache  # the same store for many tests: sealing it costs more than looking at it
def _two_days(
    kinds: tuple[str, ...], hours: tuple[float, ...]
) -> tuple[tuple[Seen, ...], dict[str, bytes]]:
    """What was seen, and the store's files by their paths."""
    whole: list[Seen] = []
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for number, hour in enumerate(hours):
            clock = at(hour)
            part = list(seen(clock, 10, number * 1000, kinds, number))
            store(root, part, clock, segment_bytes=1_500 + 8_000 * len(kinds))
            whole += part
        made = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
    return tuple(whole), made


def files(root: Path, table: str, date: str = DAY) -> list[str]:
    """Names of a table's files of a day, relative to the day's folder."""
    folder = root / table / date
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.parquet"))

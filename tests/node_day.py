"""One simulated node's day, written as the agent writes it, with what a patient person
would count along the way.

8 GPUs and 8 ports with all fields in every read, NVLinks now and then, jobs that come and go,
application XIDs, some memory errors, and minutes in which the agent was not running.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.clock import SECOND_NS
from pipeline.frame import Frame
from pipeline.observation import Event, Observation, Reading, Value
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.seal import seal
from simulator.frames import FrameRenderer
from simulator.node import Node
from simulator.profile import load_profile
from tests.fakes import FakeClock

HOST, BOOT = "n1", "boot-1"
MIDNIGHT_NS = 1_799_971_200_000_000_000  # 2027-01-15 00:00:00 UTC
DAY_S = 86_400
# between two observations of the tests' day: a twentieth of the work
STEP_S = 20
DOWN = range(21_600, 21_760)  # seconds in which no agent ran
XIDS = {3_000: (0, 31), 3_020: (0, 31), 50_000: (3, 43)}  # second: GPU, code
ECC_ERRORS = {40_000: (2, 5)}  # second: GPU, number; what a healthy GPU has by itself is rare


@dataclass(slots=True)
class Tally:
    """Sums of one column, (device,) each: what is needed for means, extremes,
    last values and increases.
    """

    total: Any
    number: Any
    least: Any
    most: Any
    last: Any
    rise: Any
    before: Any


@dataclass(slots=True)
class Counted:
    """What was counted while the day was written: by kind and column, by source, and a
    checksum per observation.
    """

    columns: dict[tuple[str, str], Tally] = field(default_factory=dict)
    devices: dict[str, list[str]] = field(default_factory=dict)
    reads: dict[str, list[int]] = field(default_factory=dict)  # times in microseconds
    # device, kind, time in microseconds
    events: list[tuple[str, str, int]] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)

    def add(self, o: Observation) -> None:
        """One observation."""
        self.reads.setdefault(o.source, []).append(o.time_ns // 1000)
        self.events += [(e.device.id, e.kind, e.time_ns // 1000) for e in o.events]
        self.sums.append(checksum(o))
        for frame in o.frames:
            self.devices[frame.kind] = [d.id for d in frame.devices]
            for kind, name in WATCHED:
                if kind == frame.kind:
                    self._column(frame, name)

    def _column(self, frame: Frame, name: str) -> None:
        value: Any
        if name in frame.schema.gauge_row:
            value = frame.gauge(name)
            observed = ~np.isnan(value)
        else:
            value, observed = frame.counter(name)
        if not observed.all():
            return
        known = self.columns.get((frame.kind, name))
        if known is None:
            zero = np.zeros(len(value))
            self.columns[frame.kind, name] = Tally(
                value.astype(float), zero + 1, value, value, value, np.zeros_like(value), value
            )
            return
        known.total = known.total + value
        known.number = known.number + 1
        known.least, known.most = np.minimum(known.least, value), np.maximum(known.most, value)
        # A counter that falls began at 0 again: what it shows now is what it rose by.
        known.rise = known.rise + np.where(value >= known.before, value - known.before, value)
        known.last = known.before = value


# What the canned questions speak of.
WATCHED = [
    *(
        ("gpu", name)
        for name in (
            "power_milliwatts",
            "power_limit_enforced_milliwatts",
            "temperature_celsius",
            "memory_temperature_celsius",
            "temperature_margin_celsius",
            "energy_millijoules",
            "throttled_power_cap_nanoseconds",
            "throttled_sw_thermal_nanoseconds",
            "throttled_hw_thermal_nanoseconds",
            "ecc_corrected_aggregate",
            "ecc_uncorrected_aggregate",
            "remapped_rows_correctable",
            "row_remap_pending",
        )
    ),
    *(
        ("ib_port", name)
        for name in ("symbol_errors", "link_downed", "receive_words", "transmit_words", "state")
    ),
    ("nvlink", "data_link_replay_errors"),
]


def checksum(o: Observation) -> int:
    """A sum over everything a frame holds, bit for bit."""
    total = zlib.crc32(f"{o.source} {o.seq} {o.time_ns} {o.mono_ns} {len(o.events)}".encode())
    for frame in o.frames:
        total = zlib.crc32(f"{frame.kind} {frame.time_ns} {len(frame.devices)}".encode(), total)
        for array in (frame.sampled_ns, frame.gauges, frame.counters, frame.observed):
            total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total


def observations(
    seconds: int = DAY_S, *, step_s: int = 1, links_every: int = 60, seed: int = 1
) -> Iterator[Observation]:
    """The day as the engine sees it: two reads every ``step_s`` seconds, and one of the kernel
    log when it says something.
    """
    node = Node(load_profile("hgx-h100"), seed)
    frames = FrameRenderer(node, HOST)
    clock = FakeClock(MIDNIGHT_NS + 500_000_000 - step_s * SECOND_NS)
    seq = 0
    for second in range(0, seconds, step_s):
        clock.advance(step_s)
        node.advance(step_s)
        if second in ECC_ERRORS:
            gpu, count = ECC_ERRORS[second]
            node.cells.error(gpu, corrected=True, count=count)
        if second in DOWN:
            continue
        now = (clock.time_ns(), clock.monotonic_ns())
        readings = [
            ("nvml", frames.nvml(*now, links=second % links_every == 0)),
            ("infiniband", frames.infiniband(*now)),
        ]
        if second in XIDS:
            gpu, code = XIDS[second]
            facts: dict[str, Value] = {
                "code": code,
                "origin": "kmsg",
                "stream": BOOT,
                "seq": second,
            }
            readings.append(
                (
                    "kmsg",
                    Reading(
                        events=(
                            Event(
                                now[0], now[1], readings[0][1].frames[0].devices[gpu], "xid", facts
                            ),
                        )
                    ),
                )
            )
        for source, reading in readings:
            yield Observation(
                source, HOST, BOOT, seq, *now, 900_000, reading.frames, reading.events
            )
            seq += 1


def write(root: Path, day: Iterator[Observation], *, segment_bytes: int = 64 << 20) -> Counted:
    """Through the write-ahead log into sealed files, segment by segment, counting along."""
    counted, clock = Counted(), FakeClock()
    wal = Wal(
        root / "wal", clock, SelfMetrics(), fsync_s=3600, segment_bytes=segment_bytes, segment_s=1e6
    )
    for o in day:
        wal.write(o, ())
        counted.add(o)
        if wal.path is None:
            _seal(root, segments(root / "wal"))
    wal.close()
    _seal(root, segments(root / "wal"))
    return counted


def _seal(root: Path, closed: Sequence[Path]) -> None:
    for segment in closed:
        seal(segment, root, "c1")

"""The write-ahead log: what was written is read back bit for bit; damage ends a segment and
costs nothing before it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.catalog import agent
from pipeline.finding import Finding, Incident
from pipeline.frame import Frame, schema_of
from pipeline.observation import Event, Observation, Unread
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.record import CorruptError
from pipeline.store.files.wal import Wal, read_segment, segments
from tests.fakes import FakeClock, gpu, gpu_frame, observed

FINDING = Finding(
    "ecc",
    gpu(1),
    "ecc",
    "onset",
    "page",
    5,
    6,
    "Uncorrectable.",
    "COMPONENT_RESET",
    3.0,
    float("nan"),
    "errors",
    ("a", "b"),
)


class Log:
    """A log in a directory, with its clock and numbers."""

    def __init__(self, directory: Path, **options: float) -> None:
        self.directory, self.clock, self.metrics = directory, FakeClock(), SelfMetrics()
        self.wal = Wal(directory, self.clock, self.metrics, **options)  # type: ignore[arg-type]

    def frame(self, *values: dict[str, float | int | None]) -> Frame:
        return gpu_frame(self.clock, *values)

    def read(self) -> list[tuple[Observation, tuple[Finding, ...]]]:
        return [
            judged[:2] for segment in segments(self.directory) for judged in read_segment(segment)
        ]


def events(clock: FakeClock) -> tuple[Event, ...]:
    """One event with a value of every type."""
    return (
        Event(
            clock.time_ns(),
            7,
            gpu(1),
            "xid",
            {"code": 79, "text": 'a "quoted"\n line', "ratio": float("nan"), "flag": True},
        ),
    )


def test_what_was_written_is_read_back_with_everything(tmp_path: Path) -> None:
    """Frames, missing values, counters above 2^53, events, reasons and findings survive."""
    log = Log(tmp_path)
    first = replace(
        observed(
            log.clock,
            log.frame(
                {"power_milliwatts": 0, "energy_millijoules": 2**64 - 1},
                {"energy_millijoules": None},
            ),
        ),
        events=events(log.clock),
        unread=(Unread("EINVAL", "d", "f"),),
    )
    second = replace(observed(log.clock, seq=1), outcome="failed", error="OSError: gone")
    log.wal.write(first, (FINDING,))
    log.wal.write(second, ())
    log.wal.close()
    (one, found), (two, none) = log.read()
    assert replace(one, events=()) == replace(first, events=())
    assert str(one.events) == str(first.events)  # NaN is not equal to itself
    assert str(found) == str((FINDING,))
    assert (two, none) == (second, ())


def test_incidents_are_kept_beside_findings(tmp_path: Path) -> None:
    """An open and a cleared one come back as they were."""
    log = Log(tmp_path)
    opened = Incident(
        "i1",
        gpu(1),
        "ecc",
        "page",
        "COMPONENT_RESET",
        5000,
        (FINDING.id,),
        "Uncorrectable.",
        reason="It is stuck.",
    )
    updates = (
        opened,
        replace(opened, cleared_ns=9000, acknowledged_ns=8000, note="mine", acknowledged_by="ada"),
    )
    log.wal.write(observed(log.clock), (FINDING,), updates)
    log.wal.close()
    (segment,) = segments(tmp_path)
    assert [judged.incidents for judged in read_segment(segment)] == [updates]


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_frame_is_read_back_bit_for_bit(tmp_path: Path, data: st.DataObject) -> None:
    """Any gauge, any counter, any mask."""
    schema, devices = schema_of("gpu"), tuple(gpu(i) for i in range(data.draw(st.integers(0, 3))))
    n, seed = len(devices), data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    gauges = rng.normal(size=(len(schema.gauges), n)) * 10.0 ** rng.integers(
        -300, 300, (len(schema.gauges), n)
    )
    gauges[rng.random(gauges.shape) < 0.3] = np.nan
    counters = rng.integers(0, 2**64, (len(schema.counters), n), dtype=np.uint64)
    mask = rng.random(counters.shape) < 0.7
    frame = Frame(schema, 5, 6, devices, gauges, counters, mask, rng.integers(0, 2**62, n))
    directory = tmp_path / str(seed)
    log = Log(directory)
    log.wal.write(observed(log.clock, frame), ())
    log.wal.close()
    (back, _), *_ = log.read()
    assert back.frames == (frame,)
    for segment in segments(directory):
        segment.unlink()


def test_a_changed_attribute_begins_a_new_generation(tmp_path: Path) -> None:
    """A driver update is seen in what is read back, from that frame on."""
    log = Log(tmp_path)
    frames = [log.frame({}), log.frame({})]
    frames[1] = replace(frames[1], devices=(gpu(0, driver_version="580"),))
    for seq, frame in enumerate(frames):
        log.wal.write(observed(log.clock, frame, seq=seq), ())
    log.wal.close()
    assert [o.frames[0].devices[0].attributes.get("driver_version") for o, _ in log.read()] == [
        None,
        "580",
    ]


@pytest.mark.parametrize("cut", [1, 7, 9, 50, 200])
def test_a_torn_tail_costs_the_torn_record_only(tmp_path: Path, cut: int) -> None:
    """A power cut in the middle of a write loses that record and nothing before it."""
    log = Log(tmp_path)
    for seq in range(3):
        log.wal.write(observed(log.clock, log.frame({"power_milliwatts": seq}), seq=seq), ())
    (segment,) = segments(tmp_path)
    os.truncate(segment, segment.stat().st_size - cut)
    assert [o.seq for o, _ in log.read()] == [0, 1]


def test_a_flipped_bit_costs_its_record_only(tmp_path: Path) -> None:
    """Damage is seen by its checksum; what came before and what comes behind are kept."""
    log = Log(tmp_path)
    sizes = []
    for seq in range(5):
        log.wal.write(observed(log.clock, log.frame({"power_milliwatts": seq}), seq=seq), ())
        sizes.append(segments(tmp_path)[0].stat().st_size)
    log.wal.close()
    (segment,) = segments(tmp_path)
    damaged = bytearray(segment.read_bytes())
    damaged[sizes[3] - 40] ^= 1
    segment.write_bytes(damaged)
    assert [o.seq for o, _ in log.read()] == [0, 1, 2, 4]


def test_a_foreign_file_is_refused_by_name(tmp_path: Path) -> None:
    """Something else in the directory is named, not guessed at."""
    (tmp_path / "x.wal").write_bytes(b"hello world")
    with pytest.raises(CorruptError, match=r"x\.wal"):
        list(read_segment(tmp_path / "x.wal"))


def test_records_are_synced_at_the_interval(tmp_path: Path) -> None:
    """With records every 0.25 s and an interval of 1 s, four records share a sync."""
    log = Log(tmp_path, fsync_s=1.0)
    for seq in range(17):
        log.wal.write(observed(log.clock, seq=seq), ())
        log.clock.advance(0.25)
    assert log.metrics.value(agent.WAL_SYNCS) == 4


@pytest.mark.slow
def test_segments_end_by_size_and_by_age_and_are_bounded_together(tmp_path: Path) -> None:
    """The oldest segments go first, and are counted."""
    log = Log(tmp_path, segment_bytes=60_000, segment_s=900.0, max_bytes=200_000)
    for seq in range(200):
        log.wal.write(observed(log.clock, log.frame({"power_milliwatts": seq}), seq=seq), ())
        log.clock.advance(1.0)
    log.wal.close()
    assert sum(s.stat().st_size for s in segments(tmp_path)) <= 200_000 + 60_000
    assert (log.metrics.value(agent.WAL_DROPPED_SEGMENTS) or 0) > 0
    assert log.read()[-1][0].seq == 199


def test_after_a_failed_write_the_segment_is_whole_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disk full in the middle of a record: it is cut off, and the next one is written
    when there is room again.
    """
    log = Log(tmp_path)
    log.wal.write(observed(log.clock, log.frame({"power_milliwatts": 0}), seq=0), ())
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
    with pytest.raises(OSError, match="part of a record"):
        log.wal.write(observed(log.clock, log.frame({"power_milliwatts": 1}), seq=1), ())
    monkeypatch.undo()
    log.wal.write(observed(log.clock, log.frame({"power_milliwatts": 2}), seq=2), ())
    log.wal.close()
    assert [(o.seq, o.frames[0].value("power_milliwatts", 0)) for o, _ in log.read()] == [
        (0, 0.0),
        (2, 2.0),
    ]


def test_a_text_that_is_not_utf_8_costs_its_own_characters_only(tmp_path: Path) -> None:
    """Of a device, an event, a finding or a source; the log goes on."""
    log, half = Log(tmp_path), "a\udcffb"
    odd = replace(gpu(1), id=half, attributes={"name": half})
    frame = replace(log.frame({"power_milliwatts": 1.0}), devices=(odd,))
    seen = observed(log.clock, frame)
    seen = replace(seen, events=(Event(0, 0, odd, "xid", {"message": half}),), error=half)
    log.wal.write(seen, (replace(FINDING, device=odd, summary=half),))
    log.wal.write(observed(log.clock), ())
    log.wal.close()
    (read, (finding,)), _ = log.read()
    assert (read.frames[0].devices[0].id, read.events[0].attributes["message"]) == ("a?b", "a?b")
    assert (read.error, finding.device.id, finding.summary) == ("a?b", "a?b", "a?b")

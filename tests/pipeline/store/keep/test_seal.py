"""Sealing and replay: what the engine saw comes back from Parquet bit for bit; a
second try changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.catalog import KINDS, fields_of
from pipeline.finding import Finding
from pipeline.frame import Device, Frame, schema_of
from pipeline.observation import Event, Observation, Unread
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.parquet import ForeignError, read
from pipeline.store.files.schema import schema
from pipeline.store.files.segment import MAGIC
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.seal import seal
from tests.fakes import FakeClock, gpu, gpu_frame, observed

Seen = tuple[Observation, tuple[Finding, ...]]


def devices_of(kind: str, n: int) -> tuple[Device, ...]:
    """Devices of any kind, ids out of order."""
    return tuple(Device("n1", kind, f"{kind}-{(i * 7) % n}", {"index": str(i)}) for i in range(n))


def random_frame(
    kind: str, rng: np.random.Generator, clock: FakeClock, devices: tuple[Device, ...]
) -> Frame:
    """Any whole gauges (fractions where the catalogue allows them, rounded as it
    says), any counters, any mask.
    """
    columns, n = schema_of(kind), len(devices)
    gauges = rng.integers(-(2**40), 2**40, (len(columns.gauges), n)).astype(float)
    for row, field in enumerate(columns.gauges):
        if field.fraction:
            gauges[row] = np.round(rng.normal(size=n), field.decimals or 17) + 0.0
    gauges[rng.random(gauges.shape) < 0.3] = np.nan
    counters = rng.integers(0, 2**64, (len(columns.counters), n), dtype=np.uint64)
    mask = rng.random(counters.shape) < 0.7
    return Frame(
        columns,
        clock.time_ns(),
        clock.monotonic_ns(),
        devices,
        gauges,
        counters,
        mask,
        rng.integers(0, 2**60, n),
    )


def history(clock: FakeClock, seconds: int, seed: int = 1) -> list[Seen]:
    """Every kind of device, once a second; events, reasons, failures and findings now and then; a
    changed attribute half way.
    """
    rng = np.random.default_rng(seed)
    known = {kind: devices_of(kind, 3) for kind in KINDS}
    seen: list[Seen] = []
    for second in range(seconds):
        clock.advance(1.0)
        if second == seconds // 2:
            known["gpu"] = (
                *known["gpu"][:2],
                replace(known["gpu"][2], attributes={"driver_version": "580"}),
            )
        o = observed(clock, *(random_frame(k, rng, clock, d) for k, d in known.items()), seq=second)
        findings: tuple[Finding, ...] = ()
        if second % 7 == 0:
            event = Event(
                clock.time_ns() - 86_400_000_000_000,
                0,
                gpu(1),
                "xid",
                {"code": 79, "text": 'a\n"b" é', "share": 0.5, "on": True},
            )
            o = replace(
                o,
                events=(event, replace(event, kind="clock_step")),
                unread=(Unread("EINVAL", "d"),),
            )
            findings = (
                Finding(
                    "ecc",
                    gpu(1),
                    "ecc",
                    "onset",
                    "page",
                    clock.time_ns(),
                    clock.time_ns(),
                    "Bad.",
                    "COMPONENT_RESET",
                    evidence=("a",),
                ),
            )
        if second % 11 == 0:
            o = Observation(
                "nvml",
                "n1",
                "boot-1",
                second,
                clock.time_ns(),
                clock.monotonic_ns(),
                9,
                outcome="failed",
                error="gone",
            )
        seen.append((o, findings))
    return seen


def store(root: Path, seen: list[Seen], clock: FakeClock, **options: float) -> None:
    """Through the write-ahead log and sealed."""
    wal = Wal(root / "wal", clock, SelfMetrics(), **options)  # type: ignore[arg-type]
    for o, findings in seen:
        wal.write(o, findings)
    wal.close()
    for segment in segments(root / "wal"):
        seal(segment, root, "c1")


def same(back: list[Seen], seen: list[Seen]) -> None:
    """Equal observations (frames bit for bit) and equal findings, NaN included."""
    assert len(back) == len(seen)
    for (a, found_a), (b, found_b) in zip(back, seen, strict=True):
        assert a == b
        assert str(found_a) == str(found_b)


@pytest.mark.slow
def test_what_the_engine_saw_comes_back_bit_for_bit(tmp_path: Path) -> None:
    """Across segments and across an hour, with counters above 2^53, missing values, events of
    yesterday and changed attributes.
    """
    clock = FakeClock()
    clock.advance(3600 - 40)
    seen = history(clock, 100)
    store(tmp_path, seen, clock, segment_bytes=40_000)
    same(list(replay(tmp_path)), seen)


@pytest.mark.slow
def test_frames_of_one_generation_share_their_devices(tmp_path: Path) -> None:
    """The identity that the renderer and detectors compare is kept."""
    clock = FakeClock()
    store(tmp_path, history(clock, 10), clock)
    frames = [f for o, _ in replay(tmp_path) for f in o.frames if f.kind == "ib_port"]
    assert all(f.devices is frames[0].devices for f in frames)


@pytest.mark.slow
def test_boots_of_one_hour_come_back_in_their_order(tmp_path: Path) -> None:
    """A node that restarts within the hour: the boot that came first is
    replayed first, whatever its id.
    """
    clock = FakeClock()
    first = [(replace(o, boot_id="z-first"), f) for o, f in history(clock, 3)]
    second = [(replace(o, boot_id="a-second"), f) for o, f in history(clock, 3)]
    store(tmp_path, first, clock)
    store(tmp_path, second, clock)
    assert [o.boot_id for o, _ in replay(tmp_path)] == ["z-first"] * 3 + ["a-second"] * 3


@pytest.mark.slow
def test_no_file_spans_two_hours(tmp_path: Path) -> None:
    """Every read lies in the folder of its hour."""
    clock = FakeClock()
    clock.advance(3600 - 5)
    store(tmp_path, history(clock, 10), clock)
    assert sorted(p.parent.name for p in tmp_path.glob("reads/*/*/*.parquet")) == [
        "hour=08",
        "hour=09",
    ]


@pytest.mark.slow
def test_sealing_twice_gives_the_same_files(tmp_path: Path) -> None:
    """A crash between writing and removing the segment costs nothing: the second try writes the
    same bytes under the same names.
    """
    clock = FakeClock()
    wal = Wal(tmp_path / "wal", clock, SelfMetrics())
    for o, findings in history(clock, 30):
        wal.write(o, findings)
    wal.close()
    (segment,) = segments(tmp_path / "wal")
    kept = segment.read_bytes()
    seal(segment, tmp_path)
    first = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.parquet")}
    segment.write_bytes(kept)
    seal(segment, tmp_path)
    assert {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.parquet")} == first


@pytest.mark.slow
def test_a_torn_segment_is_sealed_up_to_the_tear(tmp_path: Path) -> None:
    """What was durable is kept; the torn record is gone."""
    clock = FakeClock()
    seen = history(clock, 20)
    wal = Wal(tmp_path / "wal", clock, SelfMetrics())
    for o, findings in seen:
        wal.write(o, findings)
    (segment,) = segments(tmp_path / "wal")
    segment.write_bytes(segment.read_bytes()[:-3])
    seal(segment, tmp_path)
    same(list(replay(tmp_path)), seen[:-1])


@pytest.mark.slow
def test_a_file_that_is_not_ours_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A truncated file costs its own rows; the rest still answers."""
    clock = FakeClock()
    store(tmp_path, history(clock, 10), clock)
    (gpu_file,) = tmp_path.glob("events/*/*/*.parquet")
    gpu_file.write_bytes(gpu_file.read_bytes()[:100])
    assert len(list(replay(tmp_path))) == 10
    assert str(gpu_file) in caplog.text


@pytest.mark.slow
def test_a_newer_layout_is_refused_by_name(tmp_path: Path) -> None:
    """A file of the future says so instead of being misread."""
    clock = FakeClock()
    store(tmp_path, history(clock, 3), clock)
    (file,) = tmp_path.glob("gpu/*/*/*.parquet")
    table = pq.read_table(file, partitioning=None)
    pq.write_table(
        table.replace_schema_metadata({**table.schema.metadata, b"tocsin.format": b"99"}), file
    )
    with pytest.raises(ForeignError, match="newer version"):
        read(file, "gpu")


def test_a_column_that_an_old_file_lacks_is_unobserved(tmp_path: Path) -> None:
    """Columns are added; old files stay readable."""
    clock = FakeClock()
    store(
        tmp_path,
        [(observed(clock, gpu_frame(clock, {"power_milliwatts": 5, "energy_millijoules": 7})), ())],
        clock,
    )
    (file,) = tmp_path.glob("gpu/*/*/*.parquet")
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.drop_columns(["energy_millijoules"]), file)
    ((o, _),) = replay(tmp_path)
    assert (
        o.frames[0].value("power_milliwatts", 0),
        o.frames[0].value("energy_millijoules", 0),
    ) == (5.0, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_columns_have_the_catalogues_ids_and_compact_encodings(tmp_path: Path, kind: str) -> None:
    """Field ids are stable in the file; integers are delta-packed, fractions split by byte."""
    clock = FakeClock()
    store(tmp_path, history(clock, 3), clock)
    (file,) = tmp_path.glob(f"{kind}/*/*/*.parquet")
    arrow = pq.read_schema(file)
    ids = {f.name: f.id for f in fields_of(kind)}
    found = {c.name: int(c.metadata[b"PARQUET:field_id"]) for c in arrow if c.name in ids}
    assert found == {name: ids[name] for name in found}
    assert len(found) > 0.9 * len(ids)  # a column without a value, by chance, is not in the file
    group = pq.ParquetFile(file).metadata.row_group(0)
    for i in range(group.num_columns):
        column = group.column(i)
        want = {
            "DOUBLE": "BYTE_STREAM_SPLIT",
            "INT64": "DELTA_BINARY_PACKED",
            "INT32": "DELTA_BINARY_PACKED",
        }.get(column.physical_type)
        if want:
            assert want in column.encodings, column.path_in_schema
    assert schema(kind).names[:6] == ["time", "host", "device", "boot_id", "mono_ns", "seq"]


def test_a_segment_that_was_being_opened_is_no_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed before its header was written: it holds nothing, and nobody is alarmed."""
    (tmp_path / "wal").mkdir()
    for size in (0, 3, 8):
        segment = tmp_path / "wal" / f"boot-1-{size:016d}.wal"
        segment.write_bytes(MAGIC[:size])
        assert seal(segment, tmp_path) == []
        assert not segment.exists()
    assert not caplog.text


def test_a_damaged_segment_goes_into_quarantine(tmp_path: Path) -> None:
    """What is not a segment is kept for a later look, out of the way
    and within the disk budget.
    """
    (tmp_path / "wal").mkdir()
    segment = tmp_path / "wal" / "boot-1-0000000000000001.wal"
    segment.write_bytes(b"something else")
    seal(segment, tmp_path)
    assert (tmp_path / "quarantine" / "wal" / segment.name).read_bytes() == b"something else"
    assert not segment.exists()

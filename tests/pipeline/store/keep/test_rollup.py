"""Roll-ups: what a naive look at the same frames gives, across midnight,
reboots and clocks set back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.catalog import KINDS, fields_of
from pipeline.frame import Device, frame_of
from pipeline.observation import Observation
from pipeline.rates import Rates
from pipeline.store.files.layout import DAY_US
from pipeline.store.files.live import live_files
from pipeline.store.files.parquet import read
from pipeline.store.files.schema import BUCKETS_S, ROLLUPS, schema
from pipeline.store.keep import devicerows
from pipeline.store.keep.compact import compact
from tests.fakes import FakeClock
from tests.pipeline.store.days import MIDNIGHT_NS, at, later, two_days
from tests.pipeline.store.keep.test_seal import Seen, store

Row = dict[str, Any]


def rolled(root: Path, table: str) -> list[Row]:
    """All rows of a roll-up."""
    return [row for path in live_files(root, table) for row in read(path, table).to_pylist()]


def naive(seen: Sequence[Seen], kind: str, seconds: int) -> list[Row]:
    """The roll-up of a kind made from frames, one value at a time."""
    rates: dict[str, Rates] = {}
    cells: dict[
        tuple[str, int], list[tuple[Observation, Mapping[str, Any], Mapping[str, float]]]
    ] = defaultdict(list)
    for o, _ in seen:
        for plain in o.frames:
            if plain.kind == kind:
                frame = rates.setdefault(o.source, Rates(plain.schema, 1.0)).add(plain, o.boot_id)
                for row, (device, values) in enumerate(frame.records()):
                    rose = {
                        name: float(frame.increase(name)[row]) for name in frame.schema.counter_row
                    }
                    cells[device.id, frame.time_ns // 1_000_000_000 // seconds * seconds].append(
                        (o, values, rose)
                    )
    return [_cell(kind, device, begin, cells[device, begin]) for device, begin in sorted(cells)]


def _cell(
    kind: str,
    device: str,
    begin: int,
    samples: list[tuple[Observation, Mapping[str, Any], Mapping[str, float]]],
) -> Row:
    last = samples[-1][0]
    row: Row = {
        "begin": begin,
        "device": device,
        "boot_id": last.boot_id,
        "seq": last.seq,
        "n": len(samples),
    }
    for f in fields_of(kind):
        values = [v[f.name] for _, v, _ in samples if f.name in v]
        row[f"{f.name}_last"] = values[-1] if values else None
        if f.type == "gauge":
            row |= {
                f"{f.name}_{what}": of(values) if values else None
                for what, of in (("min", min), ("max", max), ("mean", np.mean))
            }
        else:
            rose = [r[f.name] for *_, r in samples if not np.isnan(r[f.name])]
            row[f"{f.name}_increase"] = sum(int(r) for r in rose) if rose else None
    return row


def same(got: Sequence[Row], wanted: Sequence[Row]) -> None:
    """Equal rows; means to the last digits, and increments as exactly as float64, in which
    Rates gives them, can say.
    """
    got = sorted(
        ({**row, "begin": int(row["time"].timestamp())} for row in got),
        key=lambda r: (r["device"], r["begin"]),
    )
    assert [(r["device"], r["begin"]) for r in got] == [(r["device"], r["begin"]) for r in wanted]
    for a, b in zip(got, wanted, strict=True):
        for name, value in b.items():
            if name.endswith(("_mean", "_increase")) and value is not None:
                assert a[name] == pytest.approx(value, rel=1e-12), name
            else:
                assert a[name] == value, name


@pytest.mark.slow
@pytest.mark.parametrize("bucket", list(BUCKETS_S))
def test_roll_ups_are_what_a_naive_look_at_the_frames_gives(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field of every device in every bucket of two days, with missing values,
    falls and values above 2^53.
    """
    monkeypatch.setattr(devicerows, "BATCH_ROWS", 50)  # several batches of devices
    whole = two_days(tmp_path, ("ib_port", "nvlink", "node"), (1, 1.003, 7, 23.9, 24.2, 31))
    compact(later(tmp_path))
    for kind in ("ib_port", "nvlink", "node"):
        same(rolled(tmp_path, f"{kind}_{bucket}"), naive(whole, kind, BUCKETS_S[bucket]))


class Port:
    """A store of one port whose counters are given sample by sample."""

    def __init__(self, root: Path) -> None:
        self.root, self.seq = root, 0

    def put(
        self, clock: FakeClock, *samples: Row | None, boot: str = "boot-1", epoch: str = ""
    ) -> None:
        """Samples a second apart (None: a second without), sealed."""
        seen: list[Seen] = []
        for values in samples:
            clock.advance(1.0)
            self.seq += 1
            if values is not None:
                device = Device("n1", "ib_port", "p", {"epoch": epoch})
                frame = frame_of(
                    "ib_port", [(device, values)], clock.time_ns(), clock.monotonic_ns()
                )
                seen.append(
                    (
                        Observation(
                            "ib",
                            "n1",
                            boot,
                            self.seq,
                            clock.time_ns(),
                            clock.monotonic_ns(),
                            0,
                            (frame,),
                        ),
                        (),
                    )
                )
        store(self.root, seen, clock)

    def rows(self, table: str = "ib_port_1m") -> list[Row]:
        """The roll-up, after compaction."""
        compact(later(self.root))
        return rolled(self.root, table)


ERRORS = "symbol_errors"


@pytest.mark.slow
def test_what_rose_over_midnight_belongs_to_the_first_bucket_of_the_new_day(tmp_path: Path) -> None:
    """Nothing is lost between two days, nor over a day without data."""
    port = Port(tmp_path)
    port.put(at(24 - 3 / 3600), {ERRORS: 10}, {ERRORS: 12})
    port.put(at(24), {ERRORS: 17})
    port.put(at(72), {ERRORS: 20})
    assert [row[f"{ERRORS}_increase"] for row in port.rows()] == [2, 5, 3]


@pytest.mark.slow
def test_a_reboot_counts_from_zero_and_a_glitch_does_not(tmp_path: Path) -> None:
    """A new boot explains a fall: what the counter shows came after it.

    Nothing explains a fall from 5000 to 4000.
    """
    port = Port(tmp_path)
    port.put(at(1), {ERRORS: 5000}, {ERRORS: 5001})
    port.put(at(2), {ERRORS: 900}, boot="boot-2")
    port.put(at(3), {ERRORS: 850}, {ERRORS: 851}, boot="boot-2")
    assert [row[f"{ERRORS}_increase"] for row in port.rows()] == [1, 900, 1]


@pytest.mark.slow
def test_a_driver_load_is_seen_in_the_devices_attributes(tmp_path: Path) -> None:
    """The attribute epoch of the table devices says when a device began again, without a reboot."""
    port = Port(tmp_path)
    port.put(at(1), {ERRORS: 5000}, epoch="1")
    port.put(at(2), {ERRORS: 4000}, epoch="2")
    assert [row[f"{ERRORS}_increase"] for row in port.rows()] == [None, 4000]


@pytest.mark.slow
def test_a_bucket_that_is_visited_twice_is_one_row(tmp_path: Path) -> None:
    """The wall clock was set back by a minute and a half: samples are counted where their time
    says, increments in their order.
    """
    port = Port(tmp_path)
    clock = at(1)
    port.put(clock, *({ERRORS: i} for i in range(100)))
    clock.step(-90)
    port.put(clock, *({ERRORS: 100 + i} for i in range(20)))
    rows = port.rows()
    assert [(row["n"], row[f"{ERRORS}_increase"], row[f"{ERRORS}_last"]) for row in rows] == [
        (79, 78, 119),
        (41, 41, 99),
    ]
    assert len({row["time"] for row in rows}) == 2


def test_a_sample_just_past_midnight_of_a_read_just_before_counts_to_its_reads_day(
    tmp_path: Path,
) -> None:
    """Its row lies in that day, and no bucket is in two days' files."""
    clock = at(24 - 1 / 3600)
    device = Device("n1", "ib_port", "p")
    frame = frame_of(
        "ib_port", [(device, {ERRORS: 1})], clock.time_ns() + 2_000_000_000, clock.monotonic_ns()
    )
    store(
        tmp_path,
        [(Observation("ib", "n1", "b", 1, clock.time_ns(), clock.monotonic_ns(), 0, (frame,)), ())],
        clock,
    )
    compact(later(tmp_path))
    (row,) = rolled(tmp_path, "ib_port_15m")
    assert int(row["time"].timestamp() * 1e6) == MIDNIGHT_NS // 1000 + DAY_US - 900_000_000


def test_what_was_never_observed_is_null(tmp_path: Path) -> None:
    """Missing is not zero, and zero is not missing."""
    port = Port(tmp_path)
    port.put(at(1), {ERRORS: 0}, {ERRORS: 0})
    (row,) = port.rows()
    assert row[f"{ERRORS}_increase"] == 0
    other = next(f.name for f in fields_of("ib_port") if f.type == "counter" and f.name != ERRORS)
    assert (row[f"{other}_increase"], row[f"{other}_last"]) == (None, None)


def test_increments_are_exact_above_2_to_the_53(tmp_path: Path) -> None:
    """Sums are made in integers."""
    port = Port(tmp_path)
    port.put(at(1), {ERRORS: 0}, {ERRORS: 2**60 + 1}, {ERRORS: 2**61 + 5})
    (row,) = port.rows()
    assert (row[f"{ERRORS}_increase"], row[f"{ERRORS}_last"]) == (2**61 + 5, 2**61 + 5)


@pytest.mark.parametrize("table", list(ROLLUPS))
def test_columns_have_ids_of_their_own_made_from_the_fields(table: str) -> None:
    """100,000 a statistic above the field's own: never the same twice, and
    stable as the catalogue's are.
    """
    kind, _ = ROLLUPS[table]
    ids = {c.name: int(c.metadata[b"PARQUET:field_id"]) for c in schema(table)}
    assert len(set(ids.values())) == len(ids)
    base = {"min": 100_000, "max": 200_000, "mean": 300_000, "last": 400_000, "increase": 500_000}
    for f in fields_of(kind):
        statistics = ("last", "increase") if f.type == "counter" else ("min", "max", "mean", "last")
        assert [ids[f"{f.name}_{what}"] for what in statistics] == [
            base[what] + f.id for what in statistics
        ]
    assert schema(table).names[:7] == ["time", "host", "device", "boot_id", "mono_ns", "seq", "n"]


@pytest.mark.slow
def test_duckdb_reads_them_as_they_lie(tmp_path: Path) -> None:
    """Any engine that reads Parquet reads the roll-ups, with their types."""
    two_days(tmp_path, ("node",), (1, 25))
    compact(later(tmp_path))
    name = f"{next(f.name for f in fields_of('node') if not f.fraction)}_max"
    query = (
        f"select epoch_us(time), device, n, {name} from "  # noqa: S608 - our own names
        f"read_parquet('{tmp_path}/node_1m/*/*.parquet') order by time, device"
    )
    with duckdb.connect() as database:
        got = database.sql(query).fetchall()
    rows = rolled(tmp_path, "node_1m")
    assert got == sorted(
        (round(r["time"].timestamp() * 1e6), r["device"], r["n"], r[name]) for r in rows
    )


def test_every_kind_has_roll_ups() -> None:
    """A new kind of device gets them without a line of code."""
    assert set(ROLLUPS) == {f"{kind}_{bucket}" for kind in KINDS for bucket in ("1m", "15m")}


@pytest.mark.slow
def test_a_roll_up_file_says_what_it_is(tmp_path: Path) -> None:
    """Table, layout and bucket are in the footer."""
    two_days(tmp_path, ("node",), (1,))
    compact(later(tmp_path))
    about = pq.read_metadata(live_files(tmp_path, "node_15m")[0]).metadata
    assert (about[b"tocsin.table"], about[b"tocsin.bucket_s"]) == (b"node_15m", b"900")

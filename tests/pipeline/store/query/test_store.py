"""The store's API: every row once while files come and go, only what a question needs, damaged
files named, other catalogues read.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.catalog import KINDS, fields_of
from pipeline.child import run
from pipeline.frame import frame_of
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.parquet import write
from pipeline.store.files.units import base_name
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.cluster import Cluster
from pipeline.store.keep.compact import compact
from pipeline.store.keep.seal import seal
from pipeline.store.query import file_store as places
from pipeline.store.query import scan
from pipeline.store.query.store import SqlError, Store, Window
from pipeline.store.remote.fetch import fetch
from pipeline.store.remote.objects import RefusedError, open_objects
from pipeline.store.remote.upload_plan import Target
from tests.fakes import FakeClock, gpu, observed
from tests.pipeline.store.days import DAY, MIDNIGHT_NS, at, later, seen, two_days
from tests.pipeline.store.keep.test_seal import Seen, store
from tests.sources import ROOT
from tests.wait import PATIENCE_S

FIRST_DAY = datetime.fromtimestamp(MIDNIGHT_NS / 1e9, UTC)
COUNT = pl.len().alias("rows")


def rows_of(whole: list[Seen], kind: str) -> int:
    """How many rows of a kind these observations have."""
    return sum(len(frame.devices) for o, _ in whole for frame in o.frames if frame.kind == kind)


def count(rows: pl.LazyFrame) -> int:
    """How many rows a frame has."""
    return int(rows.select(COUNT).collect().item())


def test_values_are_those_of_the_frames(tmp_path: Path) -> None:
    """Counters beyond 2^53, missing values, times and devices, in native columns."""
    whole = list(seen(at(1), 10, 0))
    store(tmp_path, whole, at(1))
    rows = Store(tmp_path).table("ib_port").sort("seq", "row").collect()
    frames = [frame for o, _ in whole for frame in o.frames if frame.kind == "ib_port"]
    assert rows["device"].to_list() == [d.id for f in frames for d in f.devices]
    assert rows["time"].dt.timestamp("ns").to_list() == [
        f.time_ns for f in frames for _ in f.devices
    ]
    expected = [f.value("receive_words", row) for f in frames for row in range(len(f.devices))]
    assert rows["receive_words"].to_list() == expected
    assert rows.schema["receive_words"] == pl.UInt64
    assert max(v for v in expected if v is not None) > 2**53
    assert None in expected


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_a_window_and_a_device_are_all_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    """Days, hours and row groups that cannot hold an answer are not decoded,
    before and after compaction.
    """
    whole = two_days(tmp_path)
    if compacted:
        compact(later(tmp_path))
    decoded: list[int] = []
    decode = scan.Scan._decode

    def counting(
        self: scan.Scan,
        file: places.Stored,
        opened: pq.ParquetFile,
        groups: list[int],
        *,
        certain: bool,
    ) -> object:
        decoded.append(sum(opened.metadata.row_group(group).num_rows for group in groups))
        return decode(self, file, opened, groups, certain=certain)

    monkeypatch.setattr(scan.Scan, "_decode", counting)
    asked = Store(tmp_path).table(
        "ib_port", Window(FIRST_DAY + timedelta(hours=7), FIRST_DAY + timedelta(hours=8))
    )
    of_hour = rows_of(
        [s for s in whole if 7 <= (s[0].time_ns - MIDNIGHT_NS) / 3.6e12 < 8], "ib_port"
    )
    of_day = rows_of([s for s in whole if (s[0].time_ns - MIDNIGHT_NS) / 3.6e12 < 24], "ib_port")
    assert count(asked) == of_hour > 0
    assert sum(decoded) == (
        of_day if compacted else of_hour
    )  # the compacted day is so small that it is one row group


@pytest.mark.slow
def test_conditions_of_sql_prune_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WHERE on time opens only the files of its hours, whatever its form."""
    two_days(tmp_path)
    opened: list[Path] = []
    original = places.Stored.opened

    def watching(self: places.Stored, table: str) -> object:
        opened.append(self.path)
        return original(self, table)

    monkeypatch.setattr(places.Stored, "opened", watching)
    answer = Store(tmp_path).sql(
        "SELECT count(*) AS n FROM ib_port WHERE time >= '2027-01-16 00:00' AND device LIKE 'ib%'"
    )
    assert answer["n"].to_list() == [60]
    assert {path.parent.parent.name for path in opened} == {"date=2027-01-16"}


def test_an_event_is_found_at_its_time_though_its_node_was_off_for_days_before_it_was_read(
    tmp_path: Path,
) -> None:
    """The last kernel lines of a boot are read at the next one."""
    died, back = at(1), at(24 * 5)
    event = Event(died.time_ns(), died.monotonic_ns(), gpu(0), "xid", {"code": 79})
    store(tmp_path, [(replace(observed(back), events=(event,)), ())], back)
    hour = Window(FIRST_DAY, FIRST_DAY + timedelta(hours=2))
    assert count(Store(tmp_path).table("events", hour)) == 1


@pytest.mark.slow
def test_the_last_seconds_of_a_running_agent_are_there(tmp_path: Path) -> None:
    """What the write-ahead log holds counts as soon as it is written, beside what is sealed."""
    clock = at(1)
    whole = list(seen(clock, 20, 0))
    store(tmp_path, whole[:10], clock)
    wal = Wal(tmp_path / "wal", clock, SelfMetrics())
    asked = Store(tmp_path)
    for written, (o, findings) in enumerate(whole[10:], 11):
        wal.write(o, findings)
        assert count(asked.table("reads")) == written
    assert count(asked.table("ib_port")) == rows_of(whole, "ib_port")
    assert (
        asked.table("reads").select(pl.col("time").max().dt.timestamp("us")).collect().item()
        == whole[-1][0].time_ns // 1000
    )


@pytest.mark.slow
def test_a_segment_that_is_being_sealed_counts_once(tmp_path: Path) -> None:
    """Its files are there, some or all, and the segment still is: rows
    of both are the same rows.
    """
    clock = at(1)
    whole = list(seen(clock, 20, 0))
    store(tmp_path, whole[:10], clock)
    wal = Wal(tmp_path / "wal", clock, SelfMetrics())
    for o, findings in whole[10:]:
        wal.write(o, findings)
    wal.close()
    (segment,) = segments(tmp_path / "wal")
    kept = segment.read_bytes()
    files = seal(segment, tmp_path, "c1")
    segment.write_bytes(kept)
    for gone in (None, *files):
        if gone is not None:
            gone.unlink()
        for table in ("ib_port", "reads", "events", "findings"):
            every = (
                Store(tmp_path)
                .table(table)
                .select(
                    "boot_id",
                    "seq",
                    "device",
                    "time",
                    *(["n"] if table in ("events", "findings") else []),
                )
            )
            rows = every.collect()
            assert rows.n_unique() == len(rows)
        assert count(Store(tmp_path).table("reads")) == 20


@pytest.mark.slow
def test_files_that_are_replaced_while_they_are_read_count_once(tmp_path: Path) -> None:
    """A day is compacted between two files of it: the scan goes on with those it began with, a
    new one sees the new one.
    """
    whole = two_days(tmp_path)
    pieces = scan.Scan(places.Folder(tmp_path), "ib_port", scan.Notices(), ["seq"], None).frames()
    rows = [len(next(pieces)), len(next(pieces))]
    compact(later(tmp_path))
    assert not list((tmp_path / "ib_port" / DAY).glob("hour=*/*.parquet"))
    assert sum(rows) + sum(len(piece) for piece in pieces) == rows_of(whole, "ib_port")
    assert count(Store(tmp_path).table("ib_port")) == rows_of(whole, "ib_port")


@pytest.mark.slow
def test_a_folder_whose_files_vanish_for_ever_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at again a few times, then the reader gets an error."""
    two_days(tmp_path)
    monkeypatch.setattr(places, "live_of_day", lambda date: [date / "hour=01" / "gone.parquet"])
    store_ = Store(tmp_path)
    with pytest.raises(places.ChangingError, match="ask again"):
        store_.collect(store_.table("ib_port"))


@pytest.mark.slow
def test_other_catalogues_are_read(tmp_path: Path) -> None:
    """Files of a newer version with more columns and of an older one with fewer are next to ours;
    what a file lacks is null.
    """
    whole = two_days(tmp_path, hours=(1, 2, 3))
    first, second, *_ = sorted((tmp_path / "ib_port" / DAY).glob("hour=*/*.parquet"))
    newer = pq.read_table(first, partitioning=None)
    pq.write_table(newer.append_column("invented_later", pa.nulls(len(newer), pa.int64())), first)
    older = pq.read_table(second, partitioning=None)
    pq.write_table(older.drop_columns(["symbol_errors"]), second)
    asked = Store(tmp_path)
    rows = asked.table("ib_port").select("seq", "symbol_errors").collect()
    assert len(rows) == rows_of(whole, "ib_port")
    assert asked.left_out == []
    assert rows.filter(pl.col("seq").is_in(older["seq"].to_pylist()))[
        "symbol_errors"
    ].null_count() == len(older)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("truncated", lambda b: b[: len(b) // 2]),
        ("foreign", lambda _: b"PAR1 is no magic"),
        ("empty", lambda _: b""),
    ],
)
def test_damaged_files_are_named_and_the_rest_answers(
    tmp_path: Path, name: str, harm: object
) -> None:
    """Half a file, a text, nothing at all: each is named once with the reason."""
    whole = two_days(tmp_path, hours=(1, 2, 3))
    victim, *_ = sorted((tmp_path / "ib_port" / DAY).glob("hour=*/*.parquet"))
    lost = pq.read_metadata(victim).num_rows
    victim.write_bytes(harm(victim.read_bytes()))  # type: ignore[operator] # a function of bytes
    asked = Store(tmp_path)
    for _ in range(2):
        assert count(asked.table("ib_port")) == rows_of(whole, "ib_port") - lost
    assert len(asked.left_out) == 1, name
    assert asked.left_out[0].startswith(str(victim))


@pytest.mark.slow
def test_a_flipped_bit_costs_its_row_group_only(tmp_path: Path) -> None:
    """No wrong value is ever shown: the page's sum tells, and the other row groups
    of the file still answer.
    """
    rows = pa.concat_tables(
        (pq.read_table(p, partitioning=None) for p in _sealed(tmp_path)), promote_options="default"
    )
    path = tmp_path / "ib_port" / DAY / "c1-n1-day-0001.parquet"
    with pq.ParquetWriter(
        path, rows.schema, write_page_checksum=True, use_dictionary=False
    ) as file:
        for start in range(0, len(rows), 30):
            file.write_table(rows.slice(start, 30))
    for other in _hourly(tmp_path):
        other.unlink()
    whole = Store(tmp_path).table("ib_port").select("seq", "device", "receive_words").collect()
    column = pq.read_metadata(path).row_group(0).column(rows.column_names.index("receive_words"))
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 4
    path.write_bytes(data)
    asked = Store(tmp_path)
    assert (
        asked.table("ib_port").select("seq", "device", "receive_words").collect().equals(whole[30:])
    )
    assert str(path) in asked.left_out[0]
    assert "row group 0" in asked.left_out[0]
    assert count(asked.table("ib_port").filter(pl.col("symbol_errors").is_null() | True)) == len(
        whole
    )  # other columns are whole


def _sealed(root: Path) -> list[Path]:
    two_days(root, hours=(1, 2, 3))
    return _hourly(root)


def _hourly(root: Path) -> list[Path]:
    return sorted((root / "ib_port" / DAY).glob("hour=*/*.parquet"))


@pytest.mark.slow
def test_a_file_of_a_newer_layout_is_named_not_guessed_at(tmp_path: Path) -> None:
    """The layout's number in the footer is higher than ours: the message says so."""
    (victim, *_) = _sealed(tmp_path)
    table = pq.read_table(victim, partitioning=None)
    pq.write_table(
        table.replace_schema_metadata({"tocsin.table": "ib_port", "tocsin.format": "9"}), victim
    )
    asked = Store(tmp_path)
    count(asked.table("ib_port"))
    assert "newer version (layout 9" in asked.left_out[0]


def test_every_base_name_is_one_column_of_its_view() -> None:
    """No two fields of a kind share a name in base units, and none ends in
    a unit that is not base.
    """
    for kind in KINDS:
        names = [base_name(field) for field in fields_of(kind)]
        assert len(names) == len(set(names))
        wrong = (
            "milliwatts",
            "millijoules",
            "kibibytes",
            "mebibytes",
            "megahertz",
            "nanoseconds",
            "milliseconds",
            "percent",
            "words",
        )
        assert [
            name
            for name in names
            if name.endswith(tuple(f"_{unit}" for unit in wrong)) and "_from_" not in name
        ] == []


def test_base_views_are_the_catalogues_base_units(tmp_path: Path) -> None:
    """Watts, joules, bytes, words for states; zero stays zero, what is missing stays missing."""
    clock = FakeClock()
    readings = {
        "power_milliwatts": 1500,
        "energy_millijoules": 2**54 + 1000,
        "pcie_transmit_mebibytes_per_second": 0.5,
    }
    values = {**readings, "state": 2, "gpu_utilization_percent": 0, "memory_used_bytes": 7}
    frame = frame_of(
        "gpu", [(gpu(0), values), (gpu(1), {"state": 99})], clock.time_ns(), clock.monotonic_ns()
    )
    store(tmp_path, [(observed(clock, frame), ())], clock)
    columns = [
        "power_watts",
        "energy_joules",
        "pcie_transmit_bytes_per_second",
        "state",
        "gpu_utilization_ratio",
        "memory_used_bytes",
    ]
    rows = Store(tmp_path).sql(f"SELECT {', '.join(columns)} FROM gpu_base ORDER BY device").rows()  # noqa: S608 - names of the catalogue
    assert rows[0] == (1.5, (2**54 + 1000) / 1000, 524288.0, "hung", 0.0, 7)
    assert rows[1] == (None, None, None, "99", None, None)


@pytest.mark.slow
def test_sql_joins_tables_and_aggregates(tmp_path: Path) -> None:
    """Events beside readings, by name, in one text."""
    whole = two_days(tmp_path)
    text = (
        "SELECT count(*) AS n FROM events e JOIN reads r ON e.seq = r.seq AND e.boot_id = "
        "r.boot_id WHERE e.kind = 'xid'"
    )
    assert Store(tmp_path).sql(text)["n"].to_list() == [
        sum(event.kind == "xid" for o, _ in whole for event in o.events)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELEC x FROM gpu", "SQL statement"),
        ("SELECT power_watts FROM gpu", "power_watts"),
        ("SELECT 1 FROM nowhere", "tables are gpu"),
        ("SELECT * FROM node WHERE time > now() - INTERVAL '1 hour'", "compare time with text"),
    ],
)
def test_mistakes_in_sql_are_told_in_a_line(tmp_path: Path, text: str, words: str) -> None:
    """What is wrong, and what there is; never a query plan."""
    two_days(tmp_path, hours=(1,))
    with pytest.raises(SqlError, match=words) as caught:
        Store(tmp_path).sql(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_day_that_is_given_up_while_a_question_is_answered_has_no_files(tmp_path: Path) -> None:
    """The next day follows."""
    with places.Folder(tmp_path).day("gpu", MIDNIGHT_NS // 1000, range(24)) as files:
        assert files == []


def test_an_empty_store_answers_with_nothing(tmp_path: Path) -> None:
    """Columns and no rows; a folder that does not exist is an error."""
    assert Store(tmp_path).table("gpu").collect().shape == (0, len(scan.columns_of("gpu")))
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Store(tmp_path / "nowhere")


@pytest.mark.slow
@pytest.mark.parametrize("denied", ["wal", "node", DAY, "hour=01"])
def test_a_folder_that_may_not_be_listed_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str
) -> None:
    """Who may not read a store gets no answer, be it a node's own or a shared one."""
    two_days(tmp_path, kinds=("node",), hours=(1,))
    scandir = os.scandir

    def listing(folder: Path) -> Any:
        if Path(folder).name == denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return scandir(folder)

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", listing)
        with pytest.raises(PermissionError, match=denied):
            Store(tmp_path).collect(Store(tmp_path).table("node"))
        if denied != "wal":  # nodes keep their logs to themselves
            with pytest.raises(RefusedError, match=denied):
                list(open_objects(Target(str(tmp_path))).names("node/"))


@pytest.mark.slow
def test_progress_goes_from_nothing_to_all(tmp_path: Path) -> None:
    """Shares rise and end at 1."""
    two_days(tmp_path)
    shares: list[float] = []
    count(Store(tmp_path, progress=shares.append).table("ib_port"))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert len(shares) > 3


@pytest.mark.slow
def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    """The first rows come from the first files."""
    two_days(tmp_path)
    shares: list[float] = []
    assert len(Store(tmp_path, progress=shares.append).table("ib_port").head(5).collect()) == 5
    assert not shares or shares[-1] < 1


@pytest.mark.slow
def test_rows_survive_a_wall_clock_that_was_set_back(tmp_path: Path) -> None:
    """Equal and falling times are rows like any other."""
    clock = at(5)
    first = list(seen(clock, 5, 0))
    clock.step(-3600)
    second = list(seen(clock, 5, 5))
    store(tmp_path, first + second, clock)
    compact(later(tmp_path))
    assert Store(tmp_path).table("reads").select("seq").collect()["seq"].sort().to_list() == list(
        range(10)
    )


def test_names_of_hostile_length_and_kind_come_back_as_they_are(tmp_path: Path) -> None:
    """A quote, a newline and a percent sign in an id are no syntax anywhere."""
    clock = FakeClock()
    strange = "GPU-'; DROP TABLE gpu; --\n%_\"é"
    frame = frame_of(
        "gpu",
        [(type(gpu(0))("n1", "gpu", strange, {}), {"state": 0})],
        clock.time_ns(),
        clock.monotonic_ns(),
    )
    store(tmp_path, [(observed(clock, frame), ())], clock)
    assert count(Store(tmp_path).table("gpu", Window(devices=(strange,)))) == 1


def test_a_table_that_does_not_exist_is_an_error_at_once(tmp_path: Path) -> None:
    """KeyError, before anything is read."""
    with pytest.raises(KeyError):
        Store(tmp_path).table("gpus")


@pytest.mark.slow
def test_rollups_are_tables_too(tmp_path: Path) -> None:
    """What compaction rolled up is asked by name."""
    two_days(tmp_path)
    compact(later(tmp_path))
    rows = (
        Store(tmp_path).table("ib_port_15m").select("time", "n", "receive_words_increase").collect()
    )
    assert rows["n"].sum() > 0
    assert np.all(rows["time"].dt.minute().to_numpy() % 15 == 0)


def test_an_answer_can_be_written_by_hand(tmp_path: Path) -> None:
    """A file of strangers that follows the reference is read as ours are."""
    clock = at(1)
    whole = list(seen(clock, 3, 0))
    store(tmp_path / "a", whole, clock)
    rows = pa.table(
        pq.read_table(next((tmp_path / "a" / "ib_port").rglob("*.parquet")), partitioning=None)
    )
    target = tmp_path / "b" / "ib_port" / DAY / "hour=01" / "c9-other-boot-0000000000000000.parquet"
    target.parent.mkdir(parents=True)
    write(rows, "ib_port", target)
    assert count(Store(tmp_path / "b").table("ib_port")) == len(rows)


@pytest.mark.slow
def test_a_directory_that_a_cluster_shares_counts_each_row_once(tmp_path: Path) -> None:
    """Nodes' own files, those of the cluster's compactor, both, and the latter alone; a file that
    has gone is named, and a manifest that is damaged is an error.
    """
    whole = two_days(tmp_path)
    (tmp_path / "scratch").mkdir()
    expected = rows_of(whole, "ib_port")
    for days in (3, 30, 33):  # closed, long closed, expired
        Cluster(
            open_objects(Target(str(tmp_path))),
            MIDNIGHT_NS // 1000 + days * 86_400_000_000,
            tmp_path / "scratch",
        ).compact()
        assert count(Store(tmp_path).table("ib_port")) == expected
    assert not list((tmp_path / "ib_port").rglob("*.parquet"))
    gone = next((tmp_path / "compacted" / "ib_port").rglob("*.parquet"))
    hour = str(gone.parent.relative_to(tmp_path / "compacted"))
    gone.unlink()  # as a rule of the bucket may
    store_of_rest = Store(tmp_path)
    assert 0 < count(store_of_rest.table("ib_port")) < expected
    assert [why.endswith("the store no longer has it") for why in store_of_rest.left_out] == [True]
    copied = fetch(open_objects(Target(str(tmp_path))), tmp_path / "copy", ["ib_port"], None)
    assert copied > 0
    assert not list((tmp_path / "copy" / hour).glob("*.parquet"))
    manifest = next((tmp_path / "compacted" / "ib_port").rglob("manifest-*.json"))
    manifest.write_text("{")
    with pytest.raises(RefusedError, match="manifest-"):
        count(Store(tmp_path).table("ib_port"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELECT count(*) FROM (SELECT seq FROM ib_port LIMIT 25) AS x WHERE seq % 2 = 0", "below"),
        ("SELECT count(*) FROM (SELECT seq FROM ib_port WHERE seq % 2 = 0 LIMIT 25) AS x", "above"),
    ],
)
def test_a_limit_holds_where_it_stands(tmp_path: Path, text: str, answer: str) -> None:
    """Below a condition it takes the first rows of all, above it the first that meet it."""
    two_days(tmp_path)
    first = Store(tmp_path).table("ib_port").select("seq").collect()["seq"].head(25)
    expected = {"below": (first % 2 == 0).sum(), "above": 25}[answer]
    assert expected
    assert Store(tmp_path).sql(text).item() == expected


FEW = """
import resource, sys
from pipeline.store.query.store import Store
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), 4096))
print(Store(sys.argv[1]).sql("SELECT count(*) FROM events").item())
"""


@pytest.mark.slow
def test_a_day_of_more_files_than_a_process_usually_has_is_read(tmp_path: Path) -> None:
    """An import has a file for each node and hour: the soft limit is raised for them."""
    two_days(tmp_path)
    first = next(path for path in sorted(tmp_path.glob("events/date=*/hour=*/*.parquet")))
    for number in range(300):
        name = first.name.replace("-n1-", f"-other{number}-")
        assert name != first.name
        shutil.copy(first, first.with_name(name))
    counted = Store(tmp_path).sql("SELECT count(*) FROM events").item()
    program = [sys.executable, "-c", FEW, str(tmp_path), "200"]
    done = run(program, timeout_s=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout.decode().strip() == str(counted), done.stderr.decode()
    assert counted > 300

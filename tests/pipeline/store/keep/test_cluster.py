"""Compaction for a cluster: few large files with manifests, each row in one place for
every reader at every moment.
"""

from __future__ import annotations

import errno
import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.store.files import footer
from pipeline.store.keep import cluster, cluster_pieces
from pipeline.store.keep.cluster import EXPIRE_US, ORPHAN_US, Cluster, Merged
from pipeline.store.query.store import Store
from pipeline.store.remote.manifest import Manifest, live_objects
from pipeline.store.remote.objects import Directory, Objects
from pipeline.store.remote.upload_plan import Target
from tests.fakes import gpu_frame, observed
from tests.pipeline.store.days import MIDNIGHT_NS, at, seen, two_days
from tests.pipeline.store.files.test_quarantine import newer
from tests.pipeline.store.keep.test_seal import store

MIDNIGHT_US = MIDNIGHT_NS // 1000
HOUR_US = 3_600_000_000
Rows = list[tuple[object, ...]]


def rows(objects: Objects, table: str = "node") -> Rows:
    """What a reader finds, as (host, boot, number, device), sorted; of the objects
    that count at this moment.
    """
    found: Rows = []
    for key, _ in live_objects(objects, f"{table}/"):
        got = pq.read_table(
            io.BytesIO(objects.get(key)), columns=["host", "boot_id", "seq", "device"]
        )
        found += zip(*(column.to_pylist() for column in got.columns), strict=True)
    return sorted(found, key=str)


class Watched:
    """A store that calls ``after`` when something was changed; raising there is a kill."""

    def __init__(self, objects: Objects, after: Callable[[str], None]) -> None:
        self._objects, self._after = objects, after
        self.names, self.sizes, self.get, self.part, self.size = (
            objects.names, objects.sizes, objects.get, objects.part, objects.size,
        )  # fmt: skip

    def put(self, key: str, file: Path) -> bool:
        done = self._objects.put(key, file)
        self._after(f"put {key}")
        return done

    def remove(self, key: str) -> None:
        self._objects.remove(key)
        self._after(f"remove {key}")


class Unanswered(Watched):
    """A store whose answer to a manifest's put is lost, and which says of the second try that the
    name is taken.
    """

    def put(self, key: str, file: Path) -> bool:
        return super().put(key, file) and "manifest-" not in key


class Fleet:
    """A shared directory to which nodes have sent files of the hours 1 and 7."""

    def __init__(self, folder: Path) -> None:
        self.root, self.scratch = folder / "share", folder / "scratch"
        self.scratch.mkdir()
        two_days(self.root, ("node",), (1, 7))
        shutil.rmtree(self.root / "wal")
        self.objects = Directory(self.root)
        for path in list(self.root.glob("*/*/*/*.parquet")):
            shutil.copy(
                path, path.with_name(path.name.replace("-n1-", "-n0-"))
            )  # a node that sorts before the other

    def compact(self, hour: float = 72, objects: Objects | None = None) -> Merged:
        """One run at an hour after midnight."""
        return Cluster(
            objects or self.objects, MIDNIGHT_US + round(hour * HOUR_US), self.scratch
        ).compact()

    def late(self) -> None:
        """A file that a node could not send before."""
        store(self.root, list(seen(at(1.5), 4, 777, ("node",), 9)), at(1.5))

    def files(self, pattern: str) -> list[Path]:
        """Files below the root."""
        return sorted(self.root.glob(pattern))


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Two nodes' hours."""
    return Fleet(tmp_path)


@pytest.mark.slow
def test_each_closed_hour_becomes_one_file_that_holds_every_row_once(fleet: Fleet) -> None:
    """Nodes' own files stay for a while, and do not count beside it."""
    before = {table: rows(fleet.objects, table) for table in ("node", "reads", "events", "devices")}
    fleet.compact()
    assert (
        len(fleet.files("compacted/node/*/hour=01/*.parquet"))
        == len(fleet.files("compacted/node/*/hour=07/*.parquet"))
        == 1
    )
    assert len(fleet.files("node/*/*/*.parquet")) > 4
    for table in ("node", "reads", "events"):
        assert rows(fleet.objects, table) == before[table]
        assert all(
            key.startswith("compacted/") for key, _ in live_objects(fleet.objects, f"{table}/")
        )
    assert set(rows(fleet.objects, "devices")) <= set(before["devices"])


@pytest.mark.slow
def test_manifests_of_hours_that_are_done_or_not_asked_about_are_not_read(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of a year has thousands of hours, and each is a request."""
    fleet.compact()
    fleet.compact(72 + EXPIRE_US / HOUR_US)  # the nodes' files go
    got: list[str] = []
    get = Directory.get

    def watched(self: Directory, key: str) -> bytes:
        got.append(key)
        return get(self, key)

    monkeypatch.setattr(Directory, "get", watched)
    fleet.compact(200)
    assert got == []
    answer = Store(fleet.root).sql("SELECT * FROM node WHERE time >= '2027-01-15 05:00'")
    assert len(answer) > 0
    assert [key for key in got if "hour=01" in key] == []


def test_a_merged_file_has_more_time_to_be_sent_than_one_of_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 MB go in one request."""
    asked: list[float] = []

    def opened(target: Target) -> Objects:
        asked.append(target.timeout_s)
        return Directory(tmp_path)

    monkeypatch.setattr(cluster_pieces, "open_objects", opened)
    for own in (20.0, 900.0):
        cluster_pieces.compact(Target(str(tmp_path), timeout_s=own), MIDNIGHT_US)
    assert asked == [300.0, 900.0]


@pytest.mark.slow
def test_an_hour_that_is_not_closed_is_left_alone(fleet: Fleet) -> None:
    """Nodes seal and send within another hour where all is well."""
    fleet.compact(2.99)
    assert not fleet.files("compacted/**/*.parquet")
    fleet.compact(3.01)
    assert {path.parent.name for path in fleet.files("compacted/node/*/*/*.parquet")} == {"hour=01"}


@pytest.mark.slow
def test_files_are_sorted_by_host_device_and_time_and_of_bounded_size(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large stores get several files an hour, nodes in order; engines prune by host."""
    monkeypatch.setattr(cluster, "TARGET_BYTES", 1)
    monkeypatch.setattr(cluster, "BATCH_BYTES", 1)
    fleet.compact()
    found = fleet.files("compacted/node/*/hour=01/*.parquet")
    assert len(found) == 2
    keys: Rows = []
    for path in found:
        got = pq.read_table(path, partitioning=None, columns=["device", "time"])
        keys += [
            (path.name[:10], d, t.isoformat())
            for d, t in zip(*(c.to_pylist() for c in got.columns), strict=True)
        ]
    assert keys == sorted(keys, key=str)


@pytest.mark.slow
def test_a_late_file_adds_a_part_under_the_next_generation(fleet: Fleet) -> None:
    """What was written is not written again."""
    fleet.compact()
    first = fleet.files("compacted/node/*/hour=01/*")
    fleet.late()
    before = rows(fleet.objects)
    done = fleet.compact(73)
    assert rows(fleet.objects) == before
    assert set(first) < set(fleet.files("compacted/node/*/hour=01/*"))
    assert [path.name for path in fleet.files("compacted/node/*/hour=01/manifest-*")] == [
        "manifest-000001.json",
        "manifest-000002.json",
    ]
    assert done.hours == 5  # node, events, findings, devices, reads


@pytest.mark.slow
def test_readers_see_every_row_once_at_every_moment_and_a_killed_run_is_made_up_for(
    fleet: Fleet, tmp_path: Path
) -> None:
    """After each change in turn: looked at, killed there, looked at again, and run again."""
    fleet.compact(2.5)
    fleet.late()
    before, changes = rows(fleet.objects), 0

    def look(_: str) -> None:
        nonlocal changes
        changes += 1
        assert rows(fleet.objects) == before

    copy = shutil.copytree(fleet.root, tmp_path / "copy")
    for hour in (72.0, 72 + EXPIRE_US / HOUR_US + 1):
        fleet.compact(hour, Watched(fleet.objects, look))
    assert changes > 20
    for number in range(1, changes, changes // 7):
        shutil.rmtree(fleet.root)
        shutil.copytree(copy, fleet.root)
        left = iter(range(number))

        def kill(_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        for hour in (72.0, 72 + EXPIRE_US / HOUR_US + 1):
            with suppress(KeyboardInterrupt):
                fleet.compact(hour, Watched(fleet.objects, kill))
            assert rows(fleet.objects) == before
            fleet.compact(hour)
            assert rows(fleet.objects) == before


@pytest.mark.slow
def test_nodes_files_go_two_days_after_they_were_merged(fleet: Fleet) -> None:
    """Late ones two days after the manifest that covers them, whatever their hour."""
    before = rows(fleet.objects)
    fleet.compact(72)
    fleet.late()
    fleet.compact(100)
    assert fleet.compact(72 + EXPIRE_US / HOUR_US - 0.1).expired == 0
    assert fleet.compact(72 + EXPIRE_US / HOUR_US + 0.1).expired > 10
    assert [path.name for path in fleet.files("node/*/hour=01/*.parquet")] == [
        "c1-n1-boot_1-0000000000000777.parquet"
    ]
    fleet.compact(100 + EXPIRE_US / HOUR_US + 0.1)
    assert not fleet.files("node/**/*.parquet")
    assert set(before) < set(rows(fleet.objects))


@pytest.mark.slow
def test_a_file_that_is_sent_again_after_it_went_adds_nothing(fleet: Fleet) -> None:
    """A node whose answer was lost sends again, days later: put-if-absent
    finds nothing there any more.
    """
    kept = {path: path.read_bytes() for path in fleet.files("node/*/*/*.parquet")}
    before = rows(fleet.objects)
    fleet.compact(72)
    fleet.compact(130)
    for path, content in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert rows(fleet.objects) == before
    assert fleet.compact(131).sources == 0
    assert not fleet.files("node/**/*.parquet")


@pytest.mark.slow
def test_two_compactors_at_once_do_no_harm(fleet: Fleet) -> None:
    """The manifest that comes first counts; the other's files are removed."""
    before = rows(fleet.objects)
    raced = False

    def race(what: str) -> None:
        nonlocal raced
        if not raced and "/node/" in what and what.endswith(".parquet"):
            raced = True
            fleet.compact()

    fleet.compact(objects=Watched(fleet.objects, race))
    assert raced
    assert rows(fleet.objects) == before
    assert len(fleet.files("compacted/node/*/hour=01/*.parquet")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("more", [b"", b" "], ids=["its own", "another that names them"])
def test_merged_files_that_the_manifest_there_names_are_never_removed(
    fleet: Fleet, more: bytes
) -> None:
    """A compactor whose manifest was written but not answered for has won: its files stay, also
    when the nodes' own have gone.
    """
    before = rows(fleet.objects)

    def written(what: str) -> None:
        if "manifest-" in what:
            path = fleet.root / what.removeprefix("put ")
            path.write_bytes(path.read_bytes() + more)

    done = fleet.compact(72, Unanswered(fleet.objects, written))
    assert (done.hours > 0) == (not more)
    assert rows(fleet.objects) == before
    fleet.compact(72 + EXPIRE_US / HOUR_US + 0.1)
    assert not fleet.files("node/**/*.parquet")
    assert rows(fleet.objects) == before
    assert Store(fleet.root).sql("SELECT count(*) FROM node").item() == len(before)


@pytest.mark.slow
def test_what_a_killed_run_left_goes_a_day_later(fleet: Fleet) -> None:
    """Files that no manifest names are garbage, unless a writer is about to name them."""
    folder = fleet.root / "compacted/node/date=2027-01-15/hour=01"
    folder.mkdir(parents=True)
    seconds = MIDNIGHT_US // 1_000_000 + 72 * 3600
    orphan, other = folder / f"000001-000-{seconds}_abc.parquet", folder / "of-another.parquet"
    for path in (orphan, other):
        path.write_bytes(b"x")
    fleet.compact(72 + ORPHAN_US / HOUR_US - 0.1)
    assert orphan.exists()
    fleet.compact(72 + ORPHAN_US / HOUR_US + 0.1)
    assert (orphan.exists(), other.exists()) == (False, True)


@pytest.mark.slow
def test_a_source_that_cannot_be_merged_is_named_and_left(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays where it is forever, does not hold up its hour, and is logged once."""
    bad = fleet.files("node/*/hour=01/*.parquet")[0]
    bad.write_bytes(bad.read_bytes()[:-30])
    done = fleet.compact()
    assert list(done.damaged) == [bad.name]
    assert caplog.text.count(bad.name) == 1
    again = fleet.compact(73)
    assert (again.damaged, again.sources) == ({}, 0)
    fleet.compact(200)
    assert fleet.files("node/*/hour=01/*.parquet") == [bad]
    assert rows(fleet.objects)


def with_a_new_column(path: Path) -> None:
    """Of a catalogue that this version does not know."""
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.append_column("new_celsius", pa.array([1] * len(table))), path)


@pytest.mark.slow
@pytest.mark.parametrize("change", [with_a_new_column, newer], ids=["catalogue", "layout"])
def test_a_source_of_a_newer_version_stays_and_is_read_until_a_newer_compactor_takes_it(
    fleet: Fleet, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """An older compactor merges the rest of the hour around it, and says so."""
    before, source = rows(fleet.objects), fleet.files("node/*/hour=01/*.parquet")[0]
    known = source.read_bytes()
    change(source)
    for hour in (72, 200):
        done = fleet.compact(hour)
        assert (done.newer, done.damaged) == ([source.name], {})
        assert caplog.text.count(source.name) == 1
        caplog.clear()
        assert rows(fleet.objects) == before
        store = Store(fleet.root)
        missing = len(before) - store.sql("SELECT count(*) FROM node").item()
        assert (missing > 0) == (change is newer) == any(source.name in w for w in store.left_out)
    assert fleet.files("node/*/hour=01/*.parquet") == [source]
    source.write_bytes(known)  # to a newer compactor it is like any other
    assert fleet.compact(201).sources == 1
    assert rows(fleet.objects) == before


@pytest.mark.slow
def test_a_source_alone_in_its_hour_and_of_a_newer_version_makes_no_manifest(fleet: Fleet) -> None:
    """There is nothing to say, however often a compactor comes by."""
    for path in fleet.files("node/*/hour=01/*.parquet"):
        with_a_new_column(path)
    fleet.compact()
    assert not fleet.files("compacted/node/*/hour=01/*")


@pytest.mark.slow
def test_a_disk_that_fails_under_a_compactor_damages_no_source(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read is a copy: the run ends, and the next one merges the source."""
    before = rows(fleet.objects)

    def fails(_: Path) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(footer, "is_whole", fails)
        with pytest.raises(OSError, match="Input/output error"):
            fleet.compact()
    assert fleet.compact().damaged == {}
    assert rows(fleet.objects) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "values"),
    [("time", pa.array(["noon"])), ("host", pa.nulls(1, pa.string()))],
)
def test_a_file_with_other_types_or_without_hosts_is_damaged_and_stops_no_other(
    fleet: Fleet, column: str, values: pa.Array
) -> None:
    """Every node may add files to the store, and other programs too."""
    before = rows(fleet.objects)
    own = fleet.files("node/*/hour=01/*-n1-*.parquet")[0]
    table = pq.read_table(own, partitioning=None).slice(0, 1)
    place = table.schema.get_field_index(column)
    foreign = table.set_column(place, column, values).replace_schema_metadata(
        pq.read_schema(own).metadata
    )
    name = "c1-n9-b-0000000000000001.parquet"
    pq.write_table(foreign, own.with_name(name), store_schema=False)
    assert list(fleet.compact().damaged) == [name]
    assert rows(fleet.objects) == before


@pytest.mark.slow
def test_a_manifest_that_cannot_be_read_is_named_and_its_table_left_alone(fleet: Fleet) -> None:
    """Guessing would double rows or lose them: readers and the compactor say which one it is."""
    fleet.compact()
    manifest = fleet.files("compacted/node/*/hour=01/manifest-*")[0]
    manifest.write_bytes(Manifest().to_json().replace(b'"format": 1', b'"format": 9'))
    with pytest.raises(
        ValueError, match=r"hour=01/manifest-000001\.json: written by a newer version"
    ):
        live_objects(fleet.objects, "node/")
    done = fleet.compact(200)
    assert list(done.damaged) == ["node"]
    assert fleet.files("node/*/hour=01/*.parquet")
    assert not fleet.files("reads/*/hour=01/*.parquet")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": 1, "generation": 1, "parts": [{}]}',
        b"\xff",
        b'{"format": null}',
    ],
)
def test_anything_else_is_no_manifest(text: bytes) -> None:
    """Hostile bytes end in a ValueError."""
    with pytest.raises(ValueError, match=r".+"):
        Manifest.from_json(text)


@pytest.mark.slow
def test_a_node_with_more_columns_begins_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file cannot grow columns: what the node before it lacked goes into the next
    file, and no value is lost.
    """
    monkeypatch.setattr(cluster, "BATCH_BYTES", 1)  # so that each node is merged by itself
    share, scratch, clock = tmp_path / "share", tmp_path / "scratch", at(1)
    scratch.mkdir()
    for seq, (owner, reading) in enumerate(
        {"n0": "power_milliwatts", "n1": "energy_millijoules"}.items()
    ):
        clock.advance(1.0)
        store(share, [(observed(clock, gpu_frame(clock, {reading: 7.0}), seq=seq), ())], clock)
        for path in share.glob(f"*/*/*/*-n1-*{seq:016d}.parquet"):
            path.rename(path.with_name(path.name.replace("-n1-", f"-{owner}-")))
    Cluster(Directory(share), MIDNIGHT_US + 72 * HOUR_US, scratch).compact()
    assert len(list(share.glob("compacted/gpu/*/*/*.parquet"))) == 2
    answer = Store(share).sql("SELECT power_milliwatts, energy_millijoules FROM gpu ORDER BY seq")
    assert answer.rows() == [(7, None), (None, 7)]

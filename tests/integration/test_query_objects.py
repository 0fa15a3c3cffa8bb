"""Asking a store in an object store: a real S3 server, read in ranges, with credentials
from a file, through polars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from collector.cli.main import main
from pipeline.store.files.parquet import read, write
from pipeline.store.keep.compact import compact
from pipeline.store.query import file_store as places
from pipeline.store.query.increase import increases
from pipeline.store.query.store import Store, Window
from pipeline.store.remote.objects import Bucket, RefusedError, open_objects
from pipeline.store.remote.upload_plan import Target
from tests.integration.moto import BUCKET, fresh_bucket, s3_server
from tests.pipeline.store.days import at, later, seen, two_days
from tests.pipeline.store.keep.test_seal import store
from tests.pipeline.store.query.test_store import rows_of

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """Port of moto."""
    with s3_server() as port:
        yield port


@pytest.fixture
def target(server: int, tmp_path: Path) -> Target:
    """An empty bucket."""
    fresh_bucket(server)
    credentials = tmp_path / "credentials"
    credentials.write_text("[default]\naws_access_key_id = AKID\naws_secret_access_key = secret\n")
    return Target(
        f"s3://{BUCKET}/fleet", f"http://127.0.0.1:{server}", "us-east-1", str(credentials)
    )


def put(root: Path, target: Target) -> None:
    """Everything that is sealed, under the same names."""
    objects = open_objects(target)
    for path in root.rglob("*.parquet"):
        objects.put(path.relative_to(root).as_posix(), path)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_remote_store_answers_like_the_local_one(
    target: Target, tmp_path: Path, compacted: bool
) -> None:
    """Tables, SQL and increases; what a compacted file replaces counts
    once though both are there.
    """
    local, first = tmp_path / "store", tmp_path / "hours"
    whole = two_days(local)
    two_days(first)
    if compacted:
        put(first, target)
        compact(later(local))
    put(local, target)
    remote = Store(target.url, target=target)
    for table in ("ib_port", "events", "reads", "devices"):
        columns = ["host", "device", "time", "boot_id", "seq"]
        here, there = (
            s.table(table).select(columns).collect().sort(columns) for s in (Store(local), remote)
        )
        assert there.equals(here) or (table == "devices" and not there.is_empty())
    assert remote.sql("SELECT count(*) AS n FROM ib_port")["n"].to_list() == [
        rows_of(whole, "ib_port")
    ]
    here, there = (
        increases(s, "ib_port", ["receive_words"], Window()).sort("device")
        for s in (Store(local), remote)
    )
    assert there.equals(here)
    assert remote.left_out == []


def test_large_objects_are_read_in_ranges(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file beyond the limit only the footer and the columns asked for are fetched."""
    store(tmp_path, list(seen(at(1), 1, 0, ("ib_port",))), at(1))
    path = next((tmp_path / "ib_port").rglob("*.parquet"))
    one, n = read(path, "ib_port"), 200_000
    noise = np.random.default_rng(1).integers(0, 2**60, n, dtype=np.uint64)
    many = one.take(pa.array(np.zeros(n, np.int64)))
    write(
        many.set_column(
            many.column_names.index("receive_words"), many.schema.field("receive_words"), [noise]
        ),
        "ib_port",
        path,
    )
    put(tmp_path, target)
    fetched: list[int] = []
    part = Bucket.part

    def counting(self: Bucket, key: str, start: int, length: int) -> bytes:
        fetched.append(length)
        return part(self, key, start, length)

    monkeypatch.setattr(places, "WHOLE_BYTES", 0)
    monkeypatch.setattr(Bucket, "part", counting)
    assert (
        Store(target.url, target=target)
        .table("ib_port")
        .select("device")
        .collect()["device"]
        .n_unique()
        == 1
    )
    assert 0 < sum(fetched) < path.stat().st_size / 4


def test_a_refusing_store_is_an_error_with_a_cause(target: Target) -> None:
    """No bucket: the message says so, and the exit code of the command is 1."""
    gone = Target(
        "s3://no-such-bucket/x",
        target.endpoint,
        target.region,
        target.credentials_file,
        timeout_s=5,
    )
    with pytest.raises(RefusedError) as caught:
        Store(gone.url, target=gone).table("gpu").collect()
    assert caught.value.cause == "no_bucket"


def test_the_command_asks_a_bucket(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same settings as the upload."""
    two_days(tmp_path)
    put(tmp_path, target)
    settings = ["--storage.path", target.url, "--storage.upload.endpoint", target.endpoint]
    settings += [
        "--storage.upload.region",
        target.region,
        "--storage.upload.credentials-file",
        target.credentials_file,
    ]
    assert main(["query", *settings, "--format", "json", "SELECT count(*) AS n FROM reads"]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 60}


def test_polars_reads_the_same_objects_by_itself(target: Target, tmp_path: Path) -> None:
    """The layout needs nothing of ours: hive partitions and storage options of polars."""
    whole = two_days(tmp_path)
    put(tmp_path, target)
    options = {
        "aws_endpoint_url": target.endpoint,
        "aws_access_key_id": "AKID",
        "aws_secret_access_key": "secret",
        "aws_region": target.region,
        "aws_allow_http": "true",
    }
    # files have the columns that have values
    differ: dict[str, Any] = {"missing_columns": "insert", "extra_columns": "ignore"}
    rows = pl.scan_parquet(
        f"{target.url}/ib_port/", hive_partitioning=True, storage_options=options, **differ
    )
    assert rows.select(pl.len()).collect().item() == rows_of(whole, "ib_port")

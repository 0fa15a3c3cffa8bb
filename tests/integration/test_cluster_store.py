"""A cluster's compactor over a real S3 server: read back through polars and through
``tocsin query``, one winner of a race.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from pipeline.store.keep.cluster import EXPIRE_US, Cluster
from pipeline.store.query.store import Store
from pipeline.store.remote.manifest import live_objects
from pipeline.store.remote.objects import Objects, open_objects
from pipeline.store.remote.upload_plan import Target
from tests.integration.moto import BUCKET, fresh_bucket, s3_server
from tests.pipeline.store.days import MIDNIGHT_NS, two_days

pytestmark = pytest.mark.integration

NOW_US = MIDNIGHT_NS // 1000 + 3 * 86_400_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """Port of moto."""
    with s3_server() as port:
        yield port


@pytest.fixture
def target(server: int, tmp_path: Path) -> Target:
    """A bucket to which a node has sent two days."""
    fresh_bucket(server)
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    there = Target(f"s3://{BUCKET}/fleet", f"http://127.0.0.1:{server}", "us-east-1", str(keys))
    two_days(tmp_path / "node", ("node",))
    for path in sorted((tmp_path / "node").rglob("*.parquet")):
        assert open_objects(there).put(path.relative_to(tmp_path / "node").as_posix(), path)
    return there


def seen(objects: Objects) -> list[tuple[object, ...]]:
    """(number, device) of every row that counts, read by polars as the objects stand there."""
    found = [
        pl.read_parquet(io.BytesIO(objects.get(key)), columns=["seq", "device"])
        for key, _ in live_objects(objects, "node/")
    ]
    return sorted(
        pl.concat([frame.with_columns(pl.col("device").cast(pl.String)) for frame in found]).rows()
    )


def test_rows_are_the_same_before_after_and_when_the_nodes_files_are_gone(
    target: Target, tmp_path: Path
) -> None:
    """By polars over the objects, and by a question over the store's address."""
    objects = open_objects(target)
    before = seen(objects)
    asked = "SELECT count(*) AS n, max(seq) AS last FROM node"
    answer = Store(target.url, target=target).sql(asked).rows()
    assert answer == [(len(before), before[-1][0])]
    for now_us in (NOW_US, NOW_US + EXPIRE_US + 1):
        Cluster(objects, now_us, tmp_path).compact()
        assert seen(objects) == before
        assert Store(target.url, target=target).sql(asked).rows() == answer
    assert not list(objects.names("node/"))
    assert len([key for key in objects.names("compacted/node/") if key.endswith(".parquet")]) == 6


def test_of_many_compactors_at_once_each_hour_has_one_winner(
    target: Target, tmp_path: Path
) -> None:
    """Create-only puts decide; the others' files are gone afterwards."""
    objects = open_objects(target)
    before = seen(objects)

    def compact(_: int) -> int:
        return Cluster(open_objects(target), NOW_US, tmp_path).compact().hours

    with ThreadPoolExecutor(4) as pool:
        won = sum(pool.map(compact, range(4)))
    assert won == len({key.rpartition("/")[0] for key in objects.names("compacted/")})
    assert seen(objects) == before
    assert len([key for key in objects.names("compacted/node/") if key.endswith(".parquet")]) == 6

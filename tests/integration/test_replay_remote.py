"""Replay of a store that is far away: from an object store, and from a directory that a
cluster shares and compacts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli.main import main
from pipeline.store.keep.cluster import Cluster
from pipeline.store.remote.objects import open_objects
from pipeline.store.remote.upload_plan import Target
from tests.collector.replaying.kept import SETTINGS, keep, lived
from tests.integration.moto import BUCKET, fresh_bucket, s3_server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """Port of moto."""
    with s3_server() as port:
        yield port


def replayed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str], str]:
    """Exit code, lines and what was said beside them."""
    code = main(["replay", *argv, *SETTINGS])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def test_an_object_store_gives_what_the_folder_gives(
    server: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same lines from a bucket as from the node's own folder."""
    fresh_bucket(server)
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    target = Target(f"s3://{BUCKET}/fleet", f"http://127.0.0.1:{server}", "us-east-1", str(keys))
    keep(tmp_path / "store", lived(1))
    for path in sorted((tmp_path / "store").rglob("*.parquet")):
        assert open_objects(target).put(path.relative_to(tmp_path / "store").as_posix(), path)
    near = replayed(capsys, "--from", str(tmp_path / "store"))
    far = replayed(
        capsys,
        *("--from", target.url, "--storage.upload.endpoint", target.endpoint),
        *(
            "--storage.upload.region",
            target.region,
            "--storage.upload.credentials-file",
            target.credentials_file,
        ),
    )
    assert near[0] == 0
    assert far == near


def test_a_directory_that_a_cluster_compacts_gives_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its manifests say which files count: nothing is lost and nothing comes twice when the nodes'
    own files are still there.
    """
    keep(tmp_path / "store", lived(1))
    near = replayed(capsys, "--from", str(tmp_path / "store"))
    shutil.copytree(tmp_path / "store", tmp_path / "shared")
    last_us = lived(1)[-1].observation.time_ns // 1000
    shared = open_objects(Target(str(tmp_path / "shared")))
    (tmp_path / "scratch").mkdir()
    assert Cluster(shared, last_us + 3 * 86_400_000_000, tmp_path / "scratch").compact().hours
    assert replayed(capsys, "--from", str(tmp_path / "shared")) == near

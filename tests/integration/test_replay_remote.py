"""Replay of a store that is far away: from an object store, and from a directory that a
cluster shares and compacts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
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


Replayed = tuple[int, list[str], str]


def replayed(*argv: str) -> Replayed:
    """Exit code, lines and what was said beside them."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["replay", *argv, *SETTINGS])
    return code, out.getvalue().splitlines(), err.getvalue()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node's own folder."""
    root = tmp_path_factory.mktemp("node") / "store"
    keep(root, lived(1))
    return root


@pytest.fixture(scope="module")
def near(store: Path) -> Replayed:
    """What its replay says."""
    return replayed("--from", str(store))


def test_an_object_store_gives_what_the_folder_gives(
    server: int, tmp_path: Path, store: Path, near: Replayed
) -> None:
    """The same lines from a bucket as from the node's own folder."""
    fresh_bucket(server)
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    target = Target(f"s3://{BUCKET}/fleet", f"http://127.0.0.1:{server}", "us-east-1", str(keys))
    for path in sorted(store.rglob("*.parquet")):
        assert open_objects(target).put(path.relative_to(store).as_posix(), path)
    far = replayed(
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
    tmp_path: Path, store: Path, near: Replayed
) -> None:
    """Its manifests say which files count: nothing is lost and nothing comes twice when the nodes'
    own files are still there.
    """
    shutil.copytree(store, tmp_path / "shared")
    last_us = lived(1)[-1].observation.time_ns // 1000
    shared = open_objects(Target(str(tmp_path / "shared")))
    (tmp_path / "scratch").mkdir()
    assert Cluster(shared, last_us + 3 * 86_400_000_000, tmp_path / "scratch").compact().hours
    assert replayed("--from", str(tmp_path / "shared")) == near

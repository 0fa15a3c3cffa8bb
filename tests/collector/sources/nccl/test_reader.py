"""The reader in its child: it answers, and neither memory nor time nor size of what is
hostile comes back to the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.nccl.flight_recorder.read import DumpRequest
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import Who
from collector.sources.tenants.limits import NCCL_BYTES
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.nccl.recordings import DUMPS
from tests.wait import PATIENCE_S

pytestmark = pytest.mark.slow

WHO = Who("71", "user1000")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[ChildDesk]:
    """A child that reads below a folder."""
    metrics = SelfMetrics()
    reader = ReaderOf("collector.sources.nccl.reader", NCCL_BYTES, (str(tmp_path),))
    made = ChildDesk("nccl", reader, metrics, Cuts(metrics))
    yield made
    made.close()


def request(root: Path, path: str) -> DumpRequest:
    """For a dump of rank 0."""
    return DumpRequest(str(root), path, None, False, 0, "71", "n1", 5, 10**18)


def test_a_child_finds_the_version_of_a_library(desk: ChildDesk, tmp_path: Path) -> None:
    """In a process's own root; one that is gone has none."""
    (tmp_path / "5/root/lib").mkdir(parents=True)
    (tmp_path / "5/root/lib/libnccl.so.2").write_bytes(
        b"\0" * 5000 + b"NCCL version 2.30.7 compiled with CUDA 13.0\0"
    )
    path = "/lib/libnccl.so.2"
    assert desk.ask(NcclReader.version, WHO, PATIENCE_S, 5, path) == "2.30.7"
    assert desk.ask(NcclReader.version, WHO, PATIENCE_S, 6, path) == ""


def test_a_dump_that_fills_the_memory_costs_nobody_else(desk: ChildDesk, tmp_path: Path) -> None:
    """It is refused for itself; the one after it is read, by the same child."""
    (tmp_path / "containers").write_bytes(b"\x80\x02(" + b"}" * (4 << 20))
    (tmp_path / "numbers").write_bytes(b"\x80\x02(" + b"Jabcd" * (7 << 20))
    (tmp_path / "good").write_bytes((DUMPS / "fr_gloo_missing2_rank0.pickle").read_bytes())
    answers = [
        desk.ask(NcclReader.dump, WHO, PATIENCE_S, request(tmp_path, f"/{name}"))
        for name in ("containers", "numbers", "good")
    ]
    assert [(a.report is None, a.refused.partition(":")[0]) for a in answers] == [
        (True, "FormatError"),
        (True, "MemoryError"),
        (False, ""),
    ]
    assert desk.starts == 1

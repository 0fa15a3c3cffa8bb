"""The children: they answer, and neither memory nor time nor size of what is
hostile comes back to us.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.nccl import children
from collector.sources.nccl.children import find_version, read_dumps
from tests.collector.sources.nccl.recordings import DUMPS


@pytest.mark.slow
def test_a_child_finds_the_version_of_a_library(tmp_path: Path) -> None:
    """In a process's own root."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnccl.so.2").write_bytes(
        b"\0" * 5000 + b"NCCL version 2.30.7 compiled with CUDA 13.0\0"
    )
    assert find_version(tmp_path, "/lib/libnccl.so.2") == "2.30.7"


@pytest.mark.slow
def test_a_library_that_cannot_be_opened_has_no_version(tmp_path: Path) -> None:
    """The process may have ended."""
    assert find_version(tmp_path / "gone", "/lib/libnccl.so.2") == ""


@pytest.mark.slow
def test_a_dump_that_fills_the_memory_costs_nobody_else(tmp_path: Path) -> None:
    """It is refused for itself; the one after it is read."""
    (tmp_path / "bomb").write_bytes(b"\x80\x02(" + b"}" * (4 << 20))
    (tmp_path / "good").write_bytes((DUMPS / "fr_gloo_missing2_rank0.pickle").read_bytes())
    place = {
        "root": str(tmp_path),
        "owner": None,
        "http": False,
        "rank": 0,
        "job": "71",
        "host": "n1",
        "pid": 5,
        "time_ns": 10**18,
    }
    bomb, good = read_dumps([{**place, "path": "/bomb"}, {**place, "path": "/good"}])
    assert "containers" in bomb["refused"]
    assert [kind for kind, _ in good["events"]] == ["nccl_report", "nccl_communicator"]


@pytest.mark.slow
def test_a_child_that_is_killed_answers_what_it_could(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on without the rest."""
    monkeypatch.setattr(children, "DUMPS_S", 0.01)
    assert read_dumps([{}]) == []

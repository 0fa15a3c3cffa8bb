"""The children: they answer, and neither memory nor time nor size of what is hostile comes back to us."""

from __future__ import annotations

from pathlib import Path

from collector.sources.nccl.children import find_version


def test_a_child_finds_the_version_of_a_library(tmp_path: Path) -> None:
    """In a process's own root."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnccl.so.2").write_bytes(b"\0" * 5000 + b"NCCL version 2.30.7 compiled with CUDA 13.0\0")
    assert find_version(tmp_path, "/lib/libnccl.so.2") == "2.30.7"


def test_a_library_that_cannot_be_opened_has_no_version(tmp_path: Path) -> None:
    """The process may have ended."""
    assert find_version(tmp_path / "gone", "/lib/libnccl.so.2") == ""

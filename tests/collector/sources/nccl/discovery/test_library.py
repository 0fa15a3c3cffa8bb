"""NCCL's version: in the name of the library, or in the library; looked for once per file."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.nccl.discovery import library
from collector.sources.nccl.discovery.library import Versions, search
from collector.sources.nccl.discovery.procfs import Library
from collector.sources.untrusted import UntrustedFileError


@pytest.mark.parametrize(
    "before", [0, 10, library.CHUNK - 5, library.CHUNK - 20, 2 * library.CHUNK]
)
def test_the_version_is_found_wherever_it_stands(tmp_path: Path, before: int) -> None:
    """Also across two pieces of the file."""
    (tmp_path / "lib.so").write_bytes(
        b"\0" * before + b"NCCL version 2.30.7 compiled with CUDA 13.0\0"
    )
    assert search("/lib.so", tmp_path) == "2.30.7"


def test_a_library_without_it_has_none(tmp_path: Path) -> None:
    """A stub, or something else of that name."""
    (tmp_path / "lib.so").write_bytes(b"\x7fELF")
    assert search("/lib.so", tmp_path) == ""


def test_a_link_out_of_the_container_is_refused(tmp_path: Path) -> None:
    """Whoever runs the job chooses the path."""
    (tmp_path / "lib.so").symlink_to("/etc/passwd")
    with pytest.raises(UntrustedFileError):
        search("/lib.so", tmp_path)


def test_each_file_is_looked_into_once() -> None:
    """Eight ranks map the same library; a name with a version needs no look."""
    asked: list[tuple[int, str]] = []

    def find(pid: int, path: str) -> str:
        asked.append((pid, path))
        return "2.29.2"

    versions = Versions(find)
    wheel = Library("/venv/libnccl.so.2", "08:01", 7)
    assert versions.known(wheel, "user7") is None
    assert versions.look(wheel, "user7", 812) == "2.29.2"
    other = Library("/other/name/libnccl.so.2", "08:01", 7)
    assert versions.known(other, "user7") == "2.29.2"
    assert versions.known(Library("/usr/lib/libnccl.so.2.18.5", "08:01", 8), "") == "2.18.5"
    assert asked == [(812, "/venv/libnccl.so.2")]


def test_a_tenant_says_nothing_about_the_library_of_others() -> None:
    """Its mounts may show another file at the path of one that all use: RAS of a version that is
    not safe would be asked, or that of a safe one never.
    """
    shared = Library("/shared/libnccl.so.2", "08:01", 7)
    versions = Versions(lambda pid, _: {812: "2.99.0", 813: "2.26.2"}[pid])
    assert versions.look(shared, "user666", 812) == "2.99.0"
    assert versions.known(shared, "user7") is None
    assert versions.look(shared, "user7", 813) == "2.26.2"
    versions.keep([(shared, "user7")])
    assert versions.known(shared, "user666") is None
    assert versions.known(shared, "user7") == "2.26.2"

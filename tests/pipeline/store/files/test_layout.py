"""Files appear whole, and stay after a power cut where that is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.store.files.layout import files_below, settle, write_whole

Calls = list[tuple[str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What was made durable or renamed, in order: of a file its name, of a folder its name."""
    seen: Calls = []
    fsync, replace = os.fsync, Path.replace

    def synced(fd: int) -> None:
        seen.append(("fsync", Path(f"/proc/self/fd/{fd}").readlink().name))
        fsync(fd)

    def replaced(self: Path, target: Path) -> Path:
        seen.append(("replace", target.name))
        return replace(self, target)

    monkeypatch.setattr("pipeline.store.files.layout.os.fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    return seen


def fill(text: str) -> Callable[[Path], object]:
    """Writes a text."""
    return lambda path: path.write_text(text)


def test_a_durable_file_is_on_disk_before_it_has_its_name(tmp_path: Path, calls: Calls) -> None:
    """Its content first, then its name: a power cut leaves the old file or the new one."""
    write_whole(tmp_path / "a", fill("old"))
    calls.clear()
    write_whole(tmp_path / "a", fill("new"))
    assert calls == [("fsync", ".a.new"), ("replace", "a"), ("fsync", tmp_path.name)]
    assert (tmp_path / "a").read_text() == "new"


def test_a_file_that_is_settled_later_is_whole_and_costs_no_sync(
    tmp_path: Path, calls: Calls
) -> None:
    """Others see all of it or nothing at once; the disk is not waited for."""
    write_whole(tmp_path / "a", fill("old"), durable=False)
    write_whole(tmp_path / "a", fill("new"), durable=False)
    assert calls == [("replace", "a"), ("replace", "a")]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "new")]


@pytest.mark.parametrize("durable", [True, False])
def test_a_write_that_fails_leaves_the_file_of_before_and_no_scratch(
    tmp_path: Path, durable: bool
) -> None:
    """The disk may be full in the middle."""

    def half(path: Path) -> None:
        path.write_text("ha")
        raise OSError("no space left")

    write_whole(tmp_path / "a", fill("old"))
    with pytest.raises(OSError, match="no space"):
        write_whole(tmp_path / "a", half, durable=durable)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_settled_files_and_their_names_are_durable(tmp_path: Path, calls: Calls) -> None:
    """Each file, then each folder once: after all files whose names it has."""
    paths = [tmp_path / name for name in ("x/a", "y/b", "x/c")]
    for path in paths:
        write_whole(path, fill(path.name), durable=False)
    calls.clear()
    settle(paths)
    files, folders = calls[:3], calls[3:]
    assert files == [("fsync", name) for name in "abc"]
    assert sorted(folders) == [("fsync", "x"), ("fsync", "y")]


def test_a_file_that_went_before_it_was_settled_is_an_error(tmp_path: Path) -> None:
    """What is gone must not count as done."""
    with pytest.raises(FileNotFoundError):
        settle([tmp_path / "a"])


def test_files_are_listed_on_where_a_folder_goes_meanwhile(tmp_path: Path) -> None:
    """A compactor or an upload removes folders that are empty."""
    for name in ("here", "a/x/gone", "b/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = files_below(tmp_path)
    assert next(found).name == "here"
    shutil.rmtree(tmp_path / "a")
    assert [path.name for path in found] == ["kept"]
    assert list(files_below(tmp_path / "nowhere")) == []

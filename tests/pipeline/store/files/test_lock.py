"""One writer per directory: the second is refused by name, a dead one's lock is gone with it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.child import Child
from pipeline.store.files.lock import DirectoryTakenError, lock
from tests.wait import PATIENCE_S, until


@contextlib.contextmanager
def holder(directory: Path) -> Iterator[Child]:
    """Another process that holds the directory, once it has reported that."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[4])!r})\n"
        "from pathlib import Path; from pipeline.store.files.lock import lock\n"
        "with lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    child = Child([sys.executable, "-I", "-c", code, str(directory)])
    try:
        assert child.receive(PATIENCE_S) == b"held\n"
        yield child
    finally:
        child.kill()
        until(lambda: child.poll() is not None, "the holder's end")


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    """Two agents in one directory would write each other's segments: the second says who
    is there and what to do.
    """
    with (
        holder(tmp_path) as first,
        pytest.raises(
            DirectoryTakenError, match=rf"{tmp_path}.*process {first.pid}.*--storage\.path"
        ),
        lock(tmp_path),
    ):
        pass


@pytest.mark.slow
def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    """After kill -9 the next agent starts without help."""
    with holder(tmp_path) as first:
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: first.poll() is not None, "the holder's end")
        with lock(tmp_path):
            pass


def test_different_work_goes_on_side_by_side(tmp_path: Path) -> None:
    """Compaction by hand does not need the agent to stop."""
    with lock(tmp_path / "new"), lock(tmp_path / "new", "compact"):
        assert (tmp_path / "new" / "agent.lock").read_text() == f"{os.getpid()}\n"


def test_a_directory_that_cannot_be_written_is_no_reason_not_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the agent goes on: hardware is judged with or without a disk."""
    (tmp_path / "file").write_text("in the way")
    with lock(tmp_path / "file" / "below"):
        assert "continuing without" in caplog.text

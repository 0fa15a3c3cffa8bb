"""A sync that does not end keeps no record from the page cache, which a SIGKILL leaves alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.store.files.wal import read_segment, segments
from tests.sources import ROOT

pytestmark = pytest.mark.integration


def test_what_was_shown_is_stored_although_no_sync_ever_ended(tmp_path: Path) -> None:
    """Killed after forty observations: all that were acknowledged are there, the last one too."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "from tests.integration.hung_disk import main; main()"
    )
    argv = [sys.executable, "-I", "-c", code, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = [int(process.stdout.readline()) for _ in range(40)]
        process.kill()
        shown += [int(line) for line in process.stdout.read().split()]
    stored = [
        judged.observation.seq
        for segment in segments(tmp_path / "wal")
        for judged in read_segment(segment)
    ]
    assert stored[: len(shown)] == shown
    assert len(stored) - len(shown) <= 1

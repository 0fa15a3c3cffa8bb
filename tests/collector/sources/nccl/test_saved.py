"""Saved files are recognised by their content, whatever their name."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.sources.nccl.hostile import FormatError
from collector.sources.nccl.saved import parse_saved
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.recordings import DUMPS, RAS


@pytest.mark.parametrize("path", sorted([*RAS.iterdir(), *DUMPS.iterdir()]), ids=lambda p: p.name)
def test_every_recording_is_recognised(path: Path) -> None:
    """Reports, streams and dumps are told apart without looking at the name."""
    assert parse_saved(path.read_bytes()).teller == ("ras" if path.parent == RAS else "flight_recorder")


def test_an_inspector_log_is_recognised() -> None:
    """By its first line."""
    assert parse_saved(line(1) + b"\n").teller == "inspector"


@pytest.mark.parametrize("data", [b"", b"hello\n", b"\x7fELF", b"{}", b'{"a": 1}'])
def test_anything_else_is_refused(data: bytes) -> None:
    """With an error that says what was looked for."""
    with pytest.raises(FormatError):
        parse_saved(data)

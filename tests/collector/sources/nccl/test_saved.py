"""Saved files are recognised by their content, whatever their name."""

from __future__ import annotations

import contextlib
import tracemalloc
from pathlib import Path

import pytest

from collector.sources.nccl.sanitize import FormatError
from collector.sources.nccl.saved import parse_saved
from tests.collector.sources.nccl.inspector.lines import line
from tests.collector.sources.nccl.recordings import DUMPS, RAS


@pytest.mark.parametrize("path", sorted([*RAS.iterdir(), *DUMPS.iterdir()]), ids=lambda p: p.name)
def test_every_recording_is_recognised(path: Path) -> None:
    """Reports, streams and dumps are distinguished without looking at the name."""
    assert parse_saved(path.read_bytes()).teller == (
        "ras" if path.parent == RAS else "flight_recorder"
    )


def test_an_inspector_log_is_recognised() -> None:
    """By its first line."""
    assert parse_saved(line(1) + b"\n").teller == "inspector"


BOMBS = {
    "report of empty lines": b"NCCL version 2.30.7 compiled with CUDA 13.0\n" + b"\n" * (16 << 20),
    "stream of empty lines": b"[2026-11-20 05:08:21] PEER_DEAD: x\n" + b"\n" * (16 << 20),
    "dump of empty lists": b"[" + b"[]," * (5 << 20) + b"[]]",
    "dump of numbers": b'{"entries":[' + b"1," * (8 << 20) + b"1]}",
    "log of empty lines": line(1) + b"\n" * (16 << 20),
    "pickle of empty dictionaries": b"\x80\x02(" + b"}" * (16 << 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_memory_stays_within_a_multiple_of_the_file(name: str) -> None:
    """16 MiB of what costs a loader most: none takes more than 256 MiB above the file itself."""
    tracemalloc.start()
    try:
        with contextlib.suppress(FormatError):
            parse_saved(BOMBS[name])
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"", b"hello\n", b"\x7fELF", b"{}", b'{"a": 1}'])
def test_anything_else_is_refused(data: bytes) -> None:
    """With an error that names what was looked for."""
    with pytest.raises(FormatError):
        parse_saved(data)

"""A saved file of any NCCL reporter but logs: its kind and its content."""

from __future__ import annotations

from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.inspector.log import looks_like_inspector, parse_log
from collector.sources.nccl.ras.parse import looks_like_ras, parse_ras
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.report import Report

PICKLE = b"\x80"


def parse_saved(data: bytes, origin: str = "") -> Report:
    """What a RAS reply, a Flight Recorder dump or an Inspector log says.

    FormatError where it is none of them, or a broken one.
    """
    if looks_like_inspector(data):
        return parse_log(data, origin)
    if looks_like_ras(data):
        return parse_ras(data, origin)
    if data.startswith((PICKLE, b"{", b"[")):
        return parse_dump(data, origin)
    raise FormatError("neither a RAS reply, nor a Flight Recorder dump, nor an Inspector log")

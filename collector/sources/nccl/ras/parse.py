"""A saved RAS reply of any kind: report or monitor stream, text or JSON."""

from __future__ import annotations

import re
from datetime import tzinfo

from collector.sources.nccl.ras.json_report import parse_json
from collector.sources.nccl.ras.monitor import parse_monitor
from collector.sources.nccl.ras.text import parse_text
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.report import Report

# a JSON reply takes 520 bytes per rank and communicator: 1,024 ranks in 100 communicators each fit
MAX_BYTES = 64 << 20
_HEAD = 4096
_SAYS_RAS = re.compile(
    rb"^(?:NCCL version \S+ compiled with|SERVER PROTOCOL |ERROR: )", re.MULTILINE
)
_STREAMS = re.compile(rb"^\[[0-9: -]{19}\] PEER_[A-Z_]+: ", re.MULTILINE)


def looks_like_ras(data: bytes) -> bool:
    """Whether the beginning is that of a RAS reply."""
    head = data[:_HEAD]
    return bool(_SAYS_RAS.search(head) or _STREAMS.search(head)) or (
        b"{" in head and (b'"nccl_version"' in head or b'"PEER_' in head)
    )


def parse_ras(data: bytes, origin: str = "", zone: tzinfo | None = None) -> Report:
    """What a saved reply says. FormatError where it is none, or too large."""
    if len(data) > MAX_BYTES:
        raise FormatError(f"a RAS reply of {len(data)} bytes: at most {MAX_BYTES} are read")
    head = data[:_HEAD]
    if b'"PEER_' in head or _STREAMS.search(head):
        return parse_monitor(data, origin, zone)
    if re.search(rb"^\{", head, re.MULTILINE):
        return parse_json(data, origin, zone)
    return parse_text(data.decode(errors="replace"), origin)

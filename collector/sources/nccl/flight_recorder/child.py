"""The child that reads dumps: ``main([requests])`` prints one JSON line for each, with the
events that it comes to.

A request: ``root`` and ``path`` (a file, or with ``http`` the socket of PyTorch's worker server),
``owner``, ``rank``, ``job``, ``host``, ``pid``, ``time_ns``; with ``between_ns`` the file is read
only if it was last written between these times.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collector.sources.nccl.children import confine
from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.flight_recorder.http import fetch
from collector.sources.nccl.sanitize import FormatError, printable
from collector.sources.untrusted import open_regular, read_regular
from pipeline.frame import Device
from pipeline.nccl.wire import events_of

MAX_BYTES = 64 << 20  # of a live dump; one of 2,000 entries has 5


def main(arguments: Sequence[str]) -> None:
    """Answer each request; one that cannot be answered costs the others nothing."""
    confine()
    for request in json.loads(arguments[0]):
        try:
            answer = _answer(request)
        except (FormatError, OSError, MemoryError) as error:
            answer = {"refused": printable(f"{type(error).__name__}: {error}", 300)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _changed_ns(path: str, root: Path, owner: int) -> int:
    """When a file was last written, unix time; 0 where there is none, or it is a trap."""
    try:
        fd = open_regular(path, root=root, owner=owner)
    except OSError:
        return 0
    try:
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    root, path, owner = Path(request["root"]), request["path"], request["owner"]
    if between := request.get("between_ns"):
        changed_ns = _changed_ns(path, root, owner)
        if not between[0] < changed_ns <= between[1]:
            return {"events": []}
        request = {**request, "time_ns": changed_ns}
    data = (
        fetch(path, root, owner)
        if request["http"]
        else read_regular(path, root=root, owner=owner, max_bytes=MAX_BYTES)
    )
    report = parse_dump(data, path, world_rank=request["rank"], time_ns=request["time_ns"])
    report = replace(report, job=request["job"], host=request["host"], pid=request["pid"])
    events = events_of(report, Device(request["host"], "node", request["host"]), request["time_ns"])
    return {"events": [[event.kind, dict(event.attributes)] for event in events]}

"""Reads one dump, from a file or from PyTorch's worker server."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from collector.foreign_text import printable
from collector.sources.nccl.discovery.mounts import is_served_by_a_user
from collector.sources.nccl.flight_recorder.dump import parse_dump
from collector.sources.nccl.sanitize import FormatError
from collector.sources.untrusted import open_regular, read_regular
from pipeline.nccl.report import Report

MAX_BYTES = 64 << 20  # of a live dump; one of 2,000 entries has 5
MAX_RANKS = 1 << 17  # named by one dump, in all its groups


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """One dump: a file below ``root``, or with ``http`` the socket of PyTorch's worker server.

    ``owner`` is the user whose file it must be, None for any. With ``between_ns`` it is read only
    if it was last written between these times.
    """

    root: str
    path: str
    owner: int | None
    http: bool
    rank: int
    job: str
    host: str
    pid: int
    time_ns: int
    between_ns: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class DumpAnswer:
    """What it reports, why it was refused, or neither where there is nothing new."""

    report: Report | None = None
    refused: str = ""


def read_dump(request: DumpRequest) -> DumpAnswer:
    """What a dump reports."""
    if is_served_by_a_user(Path(request.root).parent, request.path):
        return DumpAnswer(refused="on a file system that a user serves")
    try:
        return DumpAnswer(_report(request))
    except (FormatError, OSError, MemoryError) as error:
        return DumpAnswer(refused=printable(f"{type(error).__name__}: {error}", 300))


def _report(request: DumpRequest) -> Report | None:
    root, time_ns = Path(request.root), request.time_ns
    if request.between_ns is not None:
        after_ns, until_ns = request.between_ns
        time_ns = _changed_ns(request.path, root, request.owner)
        if not after_ns < time_ns <= until_ns:
            return None
    report = parse_dump(
        _content(request, root), request.path, world_rank=request.rank, time_ns=time_ns
    )
    ranks = sum(len(c.ranks) + len(c.members) for c in report.communicators)
    if ranks > MAX_RANKS:
        raise FormatError(f"a dump that names {ranks} ranks: at most {MAX_RANKS} are read")
    return replace(report, job=request.job, host=request.host, pid=request.pid)


def _content(request: DumpRequest, root: Path) -> bytes:
    if request.http:
        from collector.sources.nccl.flight_recorder.http import fetch  # noqa: PLC0415 - most jobs need no HTTP

        return fetch(request.path, root, request.owner)
    return read_regular(request.path, root=root, owner=request.owner, max_bytes=MAX_BYTES)


def _changed_ns(path: str, root: Path, owner: int | None) -> int:
    """When a file was last written, unix time; 0 where there is none, or it is a trap."""
    try:
        fd = open_regular(path, root=root, owner=owner)
    except OSError:
        return 0
    try:
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)

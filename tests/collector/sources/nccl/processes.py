"""Processes of a made-up node, with a root folder each, as discovery would find them."""

from __future__ import annotations

import os
from pathlib import Path

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.procfs import Library


def process(
    proc: Path,
    pid: int = 812,
    *,
    rank: int = 0,
    job: str = "71",
    started_s: float = 10.0,
    **environment: str,
) -> Found:
    """A process whose root is ``proc/PID/root``; owned by us, so that its files may be ours."""
    (proc / str(pid) / "root").mkdir(parents=True, exist_ok=True)
    library = Library("/usr/lib/libnccl.so.2.30.7", "08:01", 1)
    return Found(
        pid,
        pid,
        os.getuid(),
        "python3",
        started_s,
        job,
        rank,
        (f"GPU-{rank}",),
        library,
        0,
        1,
        environment,
    )


def root_of(proc: Path, found: Found) -> Path:
    """Its root folder."""
    return proc / str(found.pid) / "root"

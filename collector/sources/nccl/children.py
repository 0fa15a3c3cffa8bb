"""Work on what a job wrote, done in a child of bounded memory and time: it may be hostile, huge, or
on a file system that hangs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.child import python, run

log = logging.getLogger("tocsin.nccl")

# A dump of PyTorch's default 2,000 entries with 30 stack frames each takes 85 MiB. With the agent
# (64), the driver child (20) and sealing (160) it stays below the unit's MemoryHigh of 512 MiB.
MEMORY_BYTES = 256 << 20  # private and writable (RLIMIT_DATA): shared libraries do not count
ADDRESS_BYTES = 2 << 30  # of address space, most of which is never touched
CPU_S = 60
LIBRARY_S = 20.0  # half a gigabyte from a cold disk
DUMPS_S = 30.0
REMOTE_S = 8.0  # on a file system that may not answer: the other jobs wait meanwhile
MAX_BYTES = 32 << 20  # that a child may write


def find_version(root: Path, path: str) -> str:
    """NCCL's version in a library below a process's root, "" where it is not to be had."""
    done = run(
        python("collector.sources.nccl.discovery.child", str(root), path),
        timeout_s=LIBRARY_S,
        max_bytes=4096,
    )
    match = re.fullmatch(rb"(\d{1,3}\.\d{1,3}\.\d{1,3})\n", done.stdout)
    return match[1].decode() if match else ""


def read_dumps(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a child says of each dump: ``{"events": [[kind, attributes], ...]}`` or
    ``{"refused": why}``; fewer where it did not get so far.

    A request is what flight_recorder/child.py takes.
    """
    argv = python("collector.sources.nccl.flight_recorder.child", json.dumps(list(requests)))
    # numpy's BLAS reserves address space for a thread per core: on a large node more
    # than the child may have.
    done = run(
        argv,
        timeout_s=REMOTE_S if any("between_ns" in request for request in requests) else DUMPS_S,
        max_bytes=MAX_BYTES,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    answers = (
        [json.loads(line) for line in done.stdout.split(b"\n")[:-1]] if not done.truncated else []
    )
    if len(answers) < len(requests):
        log.warning(
            "%d Flight Recorder dumps not read: the child %s",
            len(requests) - len(answers),
            _end(done.returncode),
        )
    return answers


def confine() -> None:
    """In a child: bound its memory and its time, before anything of a job is opened."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    with contextlib.suppress(OSError):  # the first to go where the unit has no memory left
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end(returncode: int | None) -> str:
    return (
        "took too long or wrote too much"
        if returncode in (None, -9)
        else f"ended with {returncode}"
    )

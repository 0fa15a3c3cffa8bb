"""Where the ranks of a node write their dumps, and whether they did.

Files and their names: torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp and
FlightRecorder.hpp, PyTorch 2.2 to 2.13.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.mounts import is_local
from collector.sources.nccl.discovery.relative import absolute_by_helper
from collector.sources.untrusted import open_fifo, open_regular


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file where a process may write its dump. Of one that is not ``local`` nothing is known: its
    file system may not answer.
    """

    pid: int
    path: str
    local: bool
    changed_ns: int = 0
    size: int = 0


def files_of(proc: Path, process: Found) -> Iterator[DumpFile]:
    """The files of a rank that are there, and those on file systems that are not local."""
    own = proc / str(process.pid)
    for given in dump_paths(process):
        try:
            path = absolute_by_helper(given, own)
        except OSError:
            continue  # ended, or its folder may not be known
        if not is_local(own, path):
            yield DumpFile(process.pid, path, local=False)
            continue
        try:
            fd = open_regular(path, root=own / "root", owner=process.user)
        except OSError:
            continue  # not there, or a trap: nothing is read from it
        status = os.fstat(fd)
        os.close(fd)
        yield DumpFile(process.pid, path, True, status.st_mtime_ns, status.st_size)


def ring(proc: Path, process: Found) -> str:
    """Ask for a dump through the FIFO of its rank, where the job has one: any byte will do, and
    the job goes on. Why it takes none, "" where it does or has no FIFO.
    """
    own, given = proc / str(process.pid), process.environment.get(PIPE)
    try:
        prefix = absolute_by_helper(given, own) if given else ""
    except OSError as error:
        return str(error)
    if not prefix or not is_local(own, prefix):
        return ""
    path = f"{prefix}{process.rank}.pipe"
    try:
        fd = open_fifo(path, root=own / "root", owner=process.user)
    except OSError as error:
        return str(error)
    try:
        os.write(fd, b"1\n")
    except OSError as error:
        return str(error)
    finally:
        os.close(fd)
    return ""


PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


def dump_paths(process: Found) -> list[str]:
    """Where a rank writes its dump: where its environment says, else where PyTorch 2.13, and where
    older ones do by default: first below /tmp, then with the same name below the user's cache, then
    there with the present name, whatever XDG_CACHE_HOME. The environment's may be relative.
    """
    environment = process.environment
    given = [
        environment[n]
        for n in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        if environment.get(n)
    ]
    if not given:
        cache = f"{environment.get('HOME') or '/tmp'}/.cache"  # noqa: S108 - as DebugInfoWriter::getWriter
        given = [
            f"{environment.get('XDG_CACHE_HOME') or cache}/torch/comm_lib_trace_rank_",
            f"{cache}/torch/comm_lib_trace_rank_",
            f"{cache}/torch/nccl_trace_rank_",
            "/tmp/nccl_trace_rank_",  # noqa: S108 - read, with its owner checked
        ]
    return [f"{prefix}{process.rank}" for prefix in dict.fromkeys(given)]

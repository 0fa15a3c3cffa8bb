"""One process as the helper sees it, held by a descriptor of its folder below /proc: after its
death every read fails, and none is of another process that got its number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.node.helper.protocol import MAX_DATA
from collector.sources.jobs.slurm.tasks import KEPT as OF_SLURM
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.environment import KEPT, environment_of, rank_of
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.identity import tenant_of

# What the rows of maps that discovery needs name; addresses of all other libraries stay unknown.
_NAMED = (b"/dev/nvidia", b"libnccl.so", b"libtorch_cuda")
MAX_ROW = (
    8192  # bytes of a row that are looked at: PATH_MAX of linux/limits.h, and what precedes it
)


class Process:
    """``folder`` is its /proc/PID, through the descriptor."""

    def __init__(self, fd: int) -> None:
        self.folder = Path(f"/proc/self/fd/{fd}")
        self.root = self.folder / "root"

    def tenant(self) -> str:
        """Its pod or user, as the kernel has it; asking waits for nothing of the process."""
        return tenant_of(self.folder)

    def maps(self) -> bytes:
        """Its rows of maps that name an NVIDIA device file or NCCL, one of each file, as many as a
        reply holds.

        A process chooses how many rows there are, and the names in them: one row at a time is in
        memory, and is only searched for fixed words.
        """
        found: dict[bytes, bytes] = {}
        size = 0
        for row in _rows(self.folder / "maps"):
            file = b" ".join(row.split(None, 5)[3:])
            if file not in found and any(name in file for name in _NAMED):
                size += len(row)
                if size > MAX_DATA:
                    break
                found[file] = row.rstrip(b"\n")
        return b"\n".join(found.values())

    def environment(self) -> dict[str, str]:
        """The variables that the agent uses; all others, which may be secrets, stay here."""
        return environment_of(procfs.environ(self.folder), KEPT | OF_SLURM)

    def holds_gpu(self) -> bool:
        """Whether it has mapped an NVIDIA device file."""
        return procfs.mapped(self.maps()).holds_gpu

    def found(self) -> Found:
        """Its user, rank and environment, as discovery has them."""
        status, environment = procfs.read(self.folder / "status"), self.environment()
        user, inner_pid = procfs.user(status), procfs.inner_pid(status, 0)
        return Found(0, inner_pid, user, "", 0, "", rank_of(environment), environment=environment)


@contextmanager
def opened(pid: int) -> Iterator[Process]:
    """A process while it is held. OSError where there is none."""
    fd = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Process(fd)
    finally:
        os.close(fd)


def _rows(maps: Path) -> Iterator[bytes]:
    """The begin of each row. OSError as it comes."""
    left, at_begin = procfs.MAX_BYTES, True
    with maps.open("rb") as file:
        while left > 0 and (piece := file.readline(MAX_ROW)):
            left -= len(piece)
            if at_begin:
                yield piece
            at_begin = piece.endswith(b"\n")

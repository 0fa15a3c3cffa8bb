"""Starts a real multi-process PyTorch job that stands still, and shows its processes as
a GPU node's /proc would.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.torch import worker
from tests.wait import until

PYTHON = "TORCH_PYTHON"  # an interpreter that has PyTorch; `make test-torch` makes one
STARTUP_S = 180.0  # four imports of PyTorch on a busy machine

# What a process that trains on a GPU has mapped, and one on CPUs has not: discovery looks for it.
MAPPED = """\
7f0000000000-7f0000001000 rw-s 00000000 00:05 512 /dev/nvidia0
7f0000002000-7f0000003000 r-xp 00000000 08:01 99 /usr/lib/x86_64-linux-gnu/libnccl.so.2.30.7
"""


def interpreter() -> str:
    """The interpreter with PyTorch; without one the test is skipped, with
    the command that brings it.
    """
    python = os.environ.get(PYTHON, "")
    if not python:
        pytest.skip(f"{PYTHON} names no interpreter that has PyTorch: make test-torch")
    return python


class TrainingJob:
    """Ranks of one job, each a process.

    ``proc`` is a folder in the form of /proc in which they hold GPUs.
    """

    def __init__(self, folder: Path, fault: str, culprit: int, world: int = 4) -> None:
        self.folder, self.proc, self.world = folder, folder / "proc", world
        folder.mkdir(exist_ok=True)
        common = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "TORCHELASTIC_RUN_ID": "stall",
            "WORLD_SIZE": str(world),
        }
        self.environments = [
            {
                **common,
                "RANK": str(rank),
                "TORCH_FR_BUFFER_SIZE": "2000",
                "TORCH_WORKER_SERVER_SOCKET": str(folder / f"{rank}.sock"),
            }
            for rank in range(world)
        ]
        self.ranks = [self._start(rank, culprit, fault) for rank in range(world)]

    def _start(self, rank: int, culprit: int, fault: str) -> subprocess.Popen[bytes]:
        arguments = [str(rank), str(self.world), str(self.folder), str(culprit), fault]
        with (self.folder / f"{rank}.log").open("wb") as log:
            return subprocess.Popen(
                [interpreter(), "-W", "ignore", worker.__file__, *arguments],
                env=self.environments[rank],
                stdout=log,
                stderr=log,
            )

    def stand_still(self) -> None:
        """Wait until every rank has come to its last step."""

        def there() -> bool:
            steps = [self.folder / f"{rank}.step" for rank in range(self.world)]
            return all(step.exists() and step.read_text() == str(worker.LAST) for step in steps)

        until(there, "the job to stand still", STARTUP_S)
        for rank in self.ranks:
            self.show(rank)

    def show(self, rank: subprocess.Popen[bytes]) -> None:
        """Its entry in ``proc``: its own files, and what it would have mapped on a GPU node."""
        real, shown = Path("/proc") / str(rank.pid), self.proc / str(rank.pid)
        shown.mkdir(parents=True)
        for name in ("stat", "status", "cgroup"):
            (shown / name).write_bytes((real / name).read_bytes())
        pairs = self.environments[self.ranks.index(rank)].items()
        (shown / "environ").write_bytes(
            b"\0".join(f"{name}={value}".encode() for name, value in pairs)
        )
        (shown / "maps").write_text(MAPPED)
        (shown / "root").symlink_to("/")

    def kill(self) -> None:
        """End every rank."""
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()

"""A control group with a memory limit, as systemd and the kubelet make one: set for real."""

from __future__ import annotations

import os
from pathlib import Path

from tests.parts import missing

V2 = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
V1 = Path("/sys/fs/cgroup/memory")


class MemoryLimit:
    """Processes that are put in, and all that they start, may use so many bytes together.

    Version 2 of control groups where its memory controller is to be had, else version 1, which
    charges and kills alike; the test is skipped where this process may make neither.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.path = Path()
        for made in (self._version_2, self._version_1):
            try:
                self.version = made(limit_bytes)
                return
            except OSError as error:
                why = error
                self.close()
        missing(f"no control group with a memory limit: {why}")

    def add(self, pid: int) -> None:
        """Put a process in, with what it starts from now on."""
        (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def peak_bytes(self) -> int:
        """The most that was used; 0 where the kernel does not count it (before 5.19)."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        path = self.path / name
        return int(path.read_text(encoding="ascii")) if path.exists() else 0

    def kills(self) -> int:
        """Processes that the kernel killed because of the limit."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        rows = (self.path / name).read_text(encoding="ascii").splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("oom_kill "))

    def close(self) -> None:
        """Remove it, once its processes have ended. Safe to call twice."""
        if self.path.name and self.path.exists():
            self.path.rmdir()

    def _version_2(self, limit_bytes: int) -> int:
        root = next((r for r in V2 if _has(r, "memory")), None)
        if root is None:
            raise FileNotFoundError("control groups 2 without a memory controller")
        (root / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        self._make(root)
        (self.path / "memory.max").write_text(str(limit_bytes), encoding="ascii")
        swap = self.path / "memory.swap.max"
        if swap.exists():
            swap.write_text("0", encoding="ascii")
        return 2

    def _version_1(self, limit_bytes: int) -> int:
        self._make(V1)
        (self.path / "memory.limit_in_bytes").write_text(str(limit_bytes), encoding="ascii")
        return 1

    def _make(self, root: Path) -> None:
        path = root / f"tocsin-tests-{os.getpid()}-{id(self):x}"
        path.mkdir()
        self.path = path


def _has(root: Path, controller: str) -> bool:
    path = root / "cgroup.controllers"
    return path.exists() and controller in path.read_text(encoding="ascii").split()

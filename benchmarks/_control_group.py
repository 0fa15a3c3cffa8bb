"""A control group for the processor, as systemd makes one for each service and the scheduler or
kubelet one for each job.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

V2, V1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")


class CpuGroup:
    """Use as a context, which removes it; OSError where this process may make none. ``weight`` is
    CPUWeight= of systemd.resource-control(5): 1 to 10,000, 100 where nothing is said.
    """

    def __init__(self, weight: int = 100) -> None:
        controllers = V2 / "cgroup.controllers"
        if controllers.exists():
            (V2 / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        root = V2 if controllers.exists() else V1
        self._path = Path(tempfile.mkdtemp(prefix=f"tocsin-{os.getpid()}-", dir=root))
        if controllers.exists():
            (self._path / "cpu.weight").write_text(str(weight), encoding="ascii")
        else:  # 1,024 shares are a weight of 100 (systemd, cgroup_cpu_weight_to_shares)
            shares = str(max(2, weight * 1024 // 100))
            (self._path / "cpu.shares").write_text(shares, encoding="ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """What is left in it goes to where it came from."""
        for pid in (self._path / "cgroup.procs").read_text(encoding="ascii").split():
            with suppress(OSError):  # it has ended
                (self._path.parent / "cgroup.procs").write_text(pid, encoding="ascii")
        self._path.rmdir()

    def add(self, pid: int) -> None:
        """Put a process in, with what it starts from now on."""
        (self._path / "cgroup.procs").write_text(str(pid), encoding="ascii")

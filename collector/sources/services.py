"""Whether a service of systemd runs: by its control group, which systemd alone makes.

Processes may take any name, and a tenant's container may be root; nobody but systemd puts a process
into the group of a service. A service that stopped has no group, or an empty one.
"""

from __future__ import annotations

import os
from pathlib import Path

# Version 2 (unified), and systemd's own hierarchy beside version 1.
SLICES = ("fs/cgroup/system.slice", "fs/cgroup/systemd/system.slice")
MAX_BYTES = 1 << 16


def running(sysfs: Path, unit: str) -> float | None:
    """1 while a unit has a process, 0 while it has none, None where systemd's groups cannot be
    seen: no systemd, or the control groups of a container.

    OSError where they are there and cannot be read.
    """
    for name in SLICES:
        group = sysfs / name
        try:
            with open(group / unit / "cgroup.procs", "rb", opener=_open) as file:
                return float(bool(file.read(MAX_BYTES).strip()))
        except (FileNotFoundError, NotADirectoryError):
            if group.is_dir():
                return 0.0
    return None


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a FIFO in a saved tree must not hold the reader

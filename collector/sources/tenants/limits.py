"""Limits of a child that reads what tenants wrote."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

# Together with the agent (72 MiB), the driver child (20) and sealing (160) below the unit's
# MemoryHigh of 640 MiB. A dump of PyTorch's default 2,000 entries with 30 stack frames each takes
# 85 MiB, a RAS reply of 32 MiB 150.
NCCL_BYTES, LOGS_BYTES, TASKS_BYTES = 176 << 20, 40 << 20, 40 << 20
# Of it libraries have 54 MiB, hardly touched; the child lasts seconds in ten minutes.
SETTINGS_BYTES = 96 << 20
# One thread, one arena of malloc: each takes memory.
ONE_THREAD = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
ADDRESS_BYTES = 2 << 30  # of address space, most of which is never touched


def confine(memory_bytes: int) -> None:
    """In a child, before anything of a job is opened: bound its private writable memory
    (RLIMIT_DATA), and make it the first to go where the unit has none left.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def cpu_s() -> float:
    """CPU seconds that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def allow_cpu(seconds: float) -> None:
    """From now on the kernel ends this process after so many CPU seconds, rounded up."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s() + seconds) + 2, hard))

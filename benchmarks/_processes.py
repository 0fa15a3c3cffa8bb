"""What processes cost, read from outside: memory, CPU, and which of an agent's children
holds the driver's library.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from tests.agents import AgentProcess


def driver_of(agent: AgentProcess) -> int:
    """Process id of the child that holds the driver's library; 0 while it is being replaced."""
    for child in agent.children():
        if "collector.sources.nvml.driver" in command_line(child).split():
            return child
    return 0


def command_line(pid: int) -> str:
    """Command line of a process; empty once it has ended."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return ""


def pss_mib(pid: int) -> float:
    """Proportional set size; 0 for a process that has just ended."""
    return _memory_mib(pid, "Pss")


def rss_mib(pid: int) -> float:
    """Resident set size; 0 for a process that has just ended."""
    return _memory_mib(pid, "Rss")


def _memory_mib(pid: int, name: str) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def state(pid: int) -> str:
    """State of a process as the kernel spells it (``Z``: ended, not taken leave
    of); empty once it is gone.
    """
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, threads that have ended included."""
    return time.clock_gettime((~pid << 3) | 2)

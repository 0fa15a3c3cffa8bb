"""``process_*``: CPU, memory, descriptors and start time of the agent, under the names every Prometheus client uses.

Read here and not by prometheus_client: importing that costs the agent 1.2 MiB for these six numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pipeline.exposition.loose import Sample
from pipeline.exposition.text import Family

_VIRTUAL = Family("process_virtual_memory_bytes", "gauge", "Virtual memory of the agent.")
_RESIDENT = Family("process_resident_memory_bytes", "gauge", "Resident memory of the agent.")
_START = Family("process_start_time_seconds", "gauge", "Unix time at which the agent was started.")
_CPU = Family("process_cpu_seconds_total", "counter", "CPU time the agent has used, in user and kernel mode.")
_OPEN = Family("process_open_fds", "gauge", "Open file descriptors of the agent.")
_MOST = Family("process_max_fds", "gauge", "Most file descriptors the agent may have open.")

# Fields of /proc/PID/stat behind the command's closing bracket: proc(5) counts the state as field 3.
_UTIME, _STIME, _STARTTIME, _VSIZE, _RSS = (n - 3 for n in (14, 15, 22, 23, 24))


class ProcessSamples:
    """Reads the process's own folder in ``proc``."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._own = proc / "self"
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._boot_s = _boot_s(proc / "stat")

    def samples(self) -> Iterator[Sample]:
        """The samples of this instant; fewer where the kernel does not tell."""
        with suppress(OSError, ValueError, IndexError):
            yield from self._stat((self._own / "stat").read_bytes())
        with suppress(OSError):
            yield Sample(_OPEN, (), sum(1 for _ in os.scandir(self._own / "fd")))
        with suppress(OSError, ValueError, IndexError):
            line = next((li for li in (self._own / "limits").read_text().splitlines() if li.startswith("Max open files")), "")
            yield Sample(_MOST, (), int(line.split()[3]))

    def _stat(self, text: bytes) -> Iterator[Sample]:
        fields = text[text.rindex(b")") + 2 :].split()
        yield Sample(_VIRTUAL, (), int(fields[_VSIZE]))
        yield Sample(_RESIDENT, (), int(fields[_RSS]) * self._page)
        yield Sample(_CPU, (), (int(fields[_UTIME]) + int(fields[_STIME])) / self._ticks)
        if self._boot_s:
            yield Sample(_START, (), int(fields[_STARTTIME]) / self._ticks + self._boot_s)


def _boot_s(stat: Path) -> int:
    """Unix time of the boot, 0 where it is not told."""
    with suppress(OSError, ValueError):
        for line in stat.read_text().splitlines():
            if line.startswith("btime "):
                return int(line.split()[1])
    return 0

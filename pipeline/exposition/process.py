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
    """Reads the process's own folder in ``proc``. What cannot change while it runs is read once."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._stat_file = os.fspath(proc / "self" / "stat")
        self._fd_folder = os.fspath(proc / "self" / "fd")
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._boot_s = _number(proc / "stat", "btime ", 1)
        self._most = _number(proc / "self" / "limits", "Max open files ", 3)

    def samples(self) -> Iterator[Sample]:
        """The samples of this instant; fewer where the kernel does not tell."""
        with suppress(OSError, ValueError, IndexError):
            yield from self._stat(_read(self._stat_file))
        with suppress(OSError):
            yield Sample(_OPEN, (), len(os.listdir(self._fd_folder)))  # noqa: PTH208 - a count needs no paths
        if self._most:
            yield Sample(_MOST, (), self._most)

    def _stat(self, text: bytes) -> Iterator[Sample]:
        fields = text[text.rindex(b")") + 2 :].split()
        yield Sample(_VIRTUAL, (), int(fields[_VSIZE]))
        yield Sample(_RESIDENT, (), int(fields[_RSS]) * self._page)
        yield Sample(_CPU, (), (int(fields[_UTIME]) + int(fields[_STIME])) / self._ticks)
        if self._boot_s:
            yield Sample(_START, (), int(fields[_STARTTIME]) / self._ticks + self._boot_s)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _number(file: Path, start: str, word: int) -> int:
    """A word of the line that begins so, as a number; 0 where it is not told."""
    with suppress(OSError, ValueError, IndexError):
        line = next((line for line in file.read_text().splitlines() if line.startswith(start)), "")
        return int(line.split()[word])
    return 0

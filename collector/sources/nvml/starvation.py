"""How long a child had no processor: a call that could not run does not hang."""

from __future__ import annotations

import contextlib
import os


class Starvation:
    """Of one child: how long its main thread was ready to run and did not, by the kernel's account
    (/proc/PID/schedstat, second field, ns; Documentation/scheduler/sched-stats.rst), and how much
    later than it wanted this process woke up: a control group that was frozen or had used up its
    quota stops both.

    Without the file, as on kernels without CONFIG_SCHED_INFO, only the second is known.
    """

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self._fd = -1
        with contextlib.suppress(OSError):
            self._fd = os.open(f"{proc}/{pid}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._late_ns = 0
        self._mark = (0, 0)

    def woke_late(self, ns: int) -> None:
        """This process woke up so much later than it wanted."""
        self._late_ns += max(0, ns)

    def mark(self) -> None:
        """Count from now on."""
        self._mark = (self._delay_ns(), self._late_ns)

    def since_mark_ns(self) -> int:
        """For how long the child could not have answered, ns."""
        return max(self._delay_ns() - self._mark[0], self._late_ns - self._mark[1])

    def total_ns(self) -> int:
        """The same since the child began."""
        return max(self._delay_ns(), self._late_ns)

    def close(self) -> None:
        """Close the kernel's file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _delay_ns(self) -> int:
        """0 where the kernel does not say, or the process is gone."""
        try:
            return int(os.pread(self._fd, 128, 0).split()[1]) if self._fd >= 0 else 0
        except (OSError, ValueError, IndexError):
            return 0

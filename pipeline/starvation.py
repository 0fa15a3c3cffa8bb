"""How long a child had no processor: a call that could not run does not hang."""

from __future__ import annotations

import os


class Starvation:
    """Of one child: how long its main thread was ready to run and did not, by the kernel's account
    (/proc/PID/schedstat, second field, ns; Documentation/scheduler/sched-stats.rst), and how much
    later than it wanted this process woke up: a control group that was frozen or had used up its
    quota stops both.

    Without the file, as on kernels without CONFIG_SCHED_INFO, only the second is known. The kernel
    counts a wait when it is over: of one that goes on there is the state of the thread (R,
    /proc/PID/stat, third field; proc(5)) and that it did not run meanwhile.
    """

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self._fd = _opened(f"{proc}/{pid}/schedstat")
        self._stat_fd = _opened(f"{proc}/{pid}/stat")
        self._late_ns = 0
        self._mark = (0, 0)
        self._ran_ns = -1  # for how long it had run when it was last seen to be ready

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

    def waits_now(self) -> bool:
        """Whether it is ready to run, and has not run since this was asked last; also where that
        was never so.
        """
        ran_ns, before_ns = self._field(0), self._ran_ns
        if self._fd < 0 or _word(self._stat_fd, after=b")", number=0) != b"R":
            self._ran_ns = -1
            return False
        self._ran_ns = ran_ns
        return before_ns in (-1, ran_ns)

    def close(self) -> None:
        """Close the kernel's files."""
        for fd in (self._fd, self._stat_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._stat_fd = -1

    def _delay_ns(self) -> int:
        return self._field(1)

    def _field(self, number: int) -> int:
        """0 where the kernel does not say, or the process is gone."""
        word = _word(self._fd, number=number)
        return int(word) if word.isdigit() else 0


def _opened(path: str) -> int:
    """-1 where it cannot be opened."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _word(fd: int, *, number: int, after: bytes = b"") -> bytes:
    """A word of a file's text, after the last of some mark; empty where there is none."""
    if fd < 0:
        return b""
    try:
        text = os.pread(fd, 512, 0)
    except OSError:
        return b""
    words = (text.rpartition(after)[2] if after else text).split()
    return words[number] if number < len(words) else b""

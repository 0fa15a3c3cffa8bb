"""Tells systemd how the agent fares: sd_notify(3), which is one datagram to the socket
that $NOTIFY_SOCKET names.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """Notifies the service manager that started this process, if there is one.

    Every word is for the manager alone: one that is gone or slow is not waited for, and its absence
    is no trouble of the agent's. ``environ`` is read once, here.
    """

    def __init__(self, environ: Mapping[str, str], pid: int | None = None) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._every_ns = _half_of_watchdog_ns(environ, os.getpid() if pid is None else pid)
        self._next_ns = 0

    @property
    def watched(self) -> bool:
        """Whether the manager kills a process that it does not hear of (WatchdogSec=)."""
        return bool(self._address and self._every_ns)

    def ready(self, status: str) -> None:
        """Started, or done with a reload."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self, monotonic_ns: int) -> None:
        """A reload begins; ``ready`` ends it.

        The time is CLOCK_MONOTONIC's, which Type=notify-reload wants.
        """
        self._send(
            "RELOADING=1",
            f"MONOTONIC_USEC={monotonic_ns // 1000}",
            "STATUS=Reloading the configuration",
        )

    def stopping(self) -> None:
        """The end has begun."""
        self._send("STOPPING=1", "STATUS=Stopping: writing what was read")

    def beat(self, now_ns: int, *, alive: bool) -> None:
        """Pet the watchdog, twice as often as it asks.

        Not for a stalled loop: a restart is then the remedy.
        """
        if self.watched and alive and now_ns >= self._next_ns:
            self._next_ns = now_ns + self._every_ns
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A leading @ stands for the zero byte of an abstract address (unix(7)).
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager,
        ):
            manager.setblocking(False)
            manager.sendto("\n".join(line.replace("\n", " ") for line in lines).encode(), address)


def _half_of_watchdog_ns(environ: Mapping[str, str], pid: int) -> int:
    """Half of $WATCHDOG_USEC as sd_watchdog_enabled(3) advises; 0 where it is unset, nonsense, or
    meant for another process.
    """
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return 0
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) * 1000 // 2 if text.isascii() and text.isdigit() else 0

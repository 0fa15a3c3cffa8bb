"""Requests to end: by SIGTERM or SIGINT, at any instruction of the main thread."""

from __future__ import annotations

import os
import select
import signal


class SignalStop:
    """As ``threading.Event``, but may be set from a signal's handler.

    An Event must not: the handler runs in the main thread, which may be inside that Event's own
    lock at that moment, and then waits for itself for ever. A byte in a pipe is no lock.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._set = False

    def on_signals(self) -> SignalStop:
        """From now on SIGTERM and SIGINT set it. Main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())
        return self

    def set(self) -> None:
        """Waiting threads go on, now and ever after."""
        if not self._set:
            self._set = True
            os.write(self._write_end, b".")

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._set

    def wait(self, timeout_s: float) -> bool:
        """Whether it was set within that time."""
        return bool(select.select([self._read_end], [], [], max(timeout_s, 0.0))[0])

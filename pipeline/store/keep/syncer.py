"""A thread for what waits for the disk: a sync of seconds delays no record."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], None]


class Syncer:
    """Does work in order in a thread of its own; an error is kept until it is asked for.

    What is asked for again while it still waits is done once: a disk that hangs costs one entry.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._asked: list[Work] = []
        self._error: OSError | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None

    def __call__(self, work: Work) -> None:
        """Do it later; returns at once."""
        with self._lock:
            if work in self._asked:
                return
            self._asked.append(work)
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
                self._thread.start()
        self._waiting.put(work)

    def take_error(self) -> OSError | None:
        """What the disk refused since this was last asked; None where nothing."""
        with self._lock:
            error, self._error = self._error, None
            return error

    def wait(self, deadline_s: float) -> bool:
        """Let what was asked for be done; whether it was within the deadline."""
        return self._idle.wait(deadline_s)

    def _run(self) -> None:
        while True:
            work = self._waiting.get()
            try:
                work()
            except OSError as error:
                with self._lock:
                    self._error = error
            with self._lock:
                self._asked.remove(work)
                if not self._asked:
                    self._idle.set()

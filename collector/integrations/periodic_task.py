"""A thread that looks at the verdict every few seconds and reports it to another system: guarded,
counted, and logged once when it begins to fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pipeline.clock import Clock
from pipeline.guard import Guard, Health

CLOSE_S = 1.0


class PeriodicTask:
    """Calls ``tick``, which raises, once a period until ``close``.

    Failures are counted under the stage ``gate``.
    """

    def __init__(
        self, name: str, tick: Callable[[], None], period_s: float, guard: Guard, clock: Clock
    ) -> None:
        self._name, self._tick, self._period_s = name, tick, period_s
        self._guard, self._clock, self._health = guard, clock, Health(f"integration {name}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"gate-{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; a request on its way may take its own deadline, nobody waits for it."""
        self._stop.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            _, error = self._guard.call("gate", self._name, self._tick)
            if error is None:
                self._health.succeeded()
            else:
                self._health.failed(f"{type(error).__name__}: {error}", self._clock.monotonic_ns())

"""How long a child may take to answer: while it has no processor, its time stands still."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipeline.starvation import Starvation

# At a load of thirty on two processors everything takes fifteen times as long. However long it has
# no processor, this is the end.
MAX_STRETCH = 15.0
LOOK_S = 0.02  # between two looks at a child that waits for a processor


class AnswerTime:
    """So many ``seconds`` from now on."""

    def __init__(
        self,
        starvation: Starvation,
        seconds: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starvation, self._seconds, self._clock_s = starvation, seconds, clock_s
        self._began_s = clock_s()
        starvation.mark()

    def left_s(self) -> float:
        """Seconds that are left, as far as is known now; negative once it is over."""
        passed_s = self._clock_s() - self._began_s
        starved_s = self._starvation.since_mark_ns() / 1e9
        return self._seconds - max(passed_s - starved_s, passed_s / MAX_STRETCH)

    def receive(self, receive: Callable[[float], bytes | None]) -> bytes | None:
        """What ``receive`` gives within a number of seconds; None where nothing came in time."""
        while True:
            wait_s, asked_s = max(self.left_s(), LOOK_S), self._clock_s()
            data = receive(wait_s)
            if data is not None:
                return data
            late_s = self._clock_s() - asked_s - wait_s
            self._starvation.woke_late(round(late_s * 1e9))
            if self.left_s() <= 0 and not self._waits():
                return receive(0.0)  # what came at the last moment

    def _waits(self) -> bool:
        """Whether it waits for a processor now, and may go on to."""
        passed_s = self._clock_s() - self._began_s
        return passed_s < MAX_STRETCH * self._seconds and self._starvation.waits_now()

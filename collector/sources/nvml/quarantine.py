"""GPUs that hung a driver call: left out, and tried again ever more rarely."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pipeline.clock import SECOND_NS

# no pause is shorter; bound of the first, and of the longest
MIN_S, FIRST_S, MAX_S = 1.0, 5.0, 300.0


class Backoff:
    """Pauses with full jitter below a doubling, capped bound ("Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015).

    >>> pauses = Backoff(random.Random(1))
    >>> [round(pauses.next(), 1) for _ in range(3)]
    [1.0, 8.5, 15.3]
    """

    def __init__(
        self, jitter: random.Random, first_s: float = FIRST_S, max_s: float = MAX_S
    ) -> None:
        self._jitter = jitter
        self._first, self._most = first_s, max_s
        self._tries = 0

    def next(self) -> float:
        """Seconds to wait before the next try."""
        cap = min(self._most, self._first * 2.0**self._tries)
        self._tries = min(self._tries + 1, 32)
        return max(MIN_S, self._jitter.uniform(0.0, cap))

    def reset(self) -> None:
        """Begin with the shortest pause again."""
        self._tries = 0


@dataclass(slots=True)
class LeftOut:
    """One GPU that is left out: what its child came to (hung, died), and when it is
    tried again (monotonic ns).
    """

    uuid: str
    cause: str
    backoff: Backoff
    retry_ns: int = 0


class Quarantine:
    """The GPUs that are left out, by index."""

    def __init__(self, jitter: random.Random) -> None:
        self._jitter = jitter
        self._left_out: dict[int, LeftOut] = {}

    def add(self, index: int, uuid: str, cause: str, now_ns: int) -> float:
        """Leave a GPU out, or leave it out longer; the seconds until it is tried again."""
        entry = self._left_out.setdefault(index, LeftOut(uuid, cause, Backoff(self._jitter)))
        entry.uuid, entry.cause = uuid or entry.uuid, cause
        pause = entry.backoff.next()
        entry.retry_ns = now_ns + round(pause * SECOND_NS)
        return pause

    def release(self, index: int) -> None:
        """It may be read again."""
        self._left_out.pop(index, None)

    def moved(self, uuid: str, index: int) -> None:
        """A GPU answers at this index: if it is left out at another, what is
        there now is tried at once.
        """
        for left_out, entry in self._left_out.items():
            if entry.uuid == uuid and left_out != index:
                entry.uuid, entry.retry_ns = "", 0

    def shrink(self, count: int) -> None:
        """There are only so many GPUs: the others need not be left out."""
        for index in [i for i in self._left_out if i >= count]:
            del self._left_out[index]

    def due(self, now_ns: int) -> list[int]:
        """Those that may be tried again now."""
        return [index for index, entry in self._left_out.items() if entry.retry_ns <= now_ns]

    def causes(self) -> dict[str, str]:
        """UUID and cause of those left out, as far as the UUID is known."""
        return {entry.uuid: entry.cause for entry in self._left_out.values() if entry.uuid}

    def indices(self) -> list[int]:
        """Indices of those left out, in order."""
        return sorted(self._left_out)

    def __contains__(self, index: int) -> bool:
        return index in self._left_out

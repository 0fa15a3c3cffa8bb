"""How long jobs may make the others wait: a RAS server that takes the question and is silent costs
13 s, and a tenant may have many.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")

# Of one read: a silent job takes 13 to 20 s, and a stall is to be named within 90.
TENANT_S, NODE_S = 15.0, 40.0
SLOW_S = 2.0  # a healthy RAS answers within a second; a job that takes longer may be stopped
# Where others have jobs too, so many times as long as a slow job took no tenant is asked that was
# slow: two looks at a stall are 15 s apart, and a read that waits is one look less for everybody.
RESTS = 3.0
MAX_TENANTS = 4096


class Patience:
    """Orders jobs so that nobody waits for a tenant that was slow recently, and ends its turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow: dict[Hashable, float] = {}  # when a job of the tenant last took its time
        self._waited: dict[Hashable, float] = {}  # seconds of this read
        self._rested_at = 0.0  # from when on tenants that were slow may be asked
        self._alone = True

    def begin(
        self, jobs: Sequence[T], tenant: Callable[[T], Hashable], rank: Callable[[T], int]
    ) -> list[T]:
        """A read begins: tenants that were never slow first, then by how long ago; within that the
        jobs of the lowest ``rank``, and one job of each tenant before the second of any.
        """
        self._waited.clear()
        self._alone = len(set(map(tenant, jobs))) == 1
        turns: Counter[Hashable] = Counter()
        keyed = []
        for at, job in enumerate(jobs):
            whose = tenant(job)
            keyed.append((self._slow.get(whose, 0.0), rank(job), turns[whose], at))
            turns[whose] += 1
        return [jobs[key[-1]] for key in sorted(keyed)]

    def may_ask(self, tenant: Hashable) -> bool:
        """Whether a job may be asked in this read; one that may not waits for the next."""
        if self._waited.get(tenant, 0.0) >= TENANT_S or sum(self._waited.values()) >= NODE_S:
            return False
        return self._alone or tenant not in self._slow or self._clock() >= self._rested_at

    def took(self, tenant: Hashable, waited_s: float) -> None:
        """A job of a tenant was asked; ``waited_s`` is how long its servers kept others, without
        questions that were answered within ``SLOW_S``: many jobs on one port need many.
        """
        if waited_s > 0:
            now = self._clock()
            self._waited[tenant] = self._waited.get(tenant, 0.0) + waited_s
            self._rested_at = now + RESTS * waited_s
            self._slow.pop(tenant, None)
            if len(self._slow) >= MAX_TENANTS:
                self._slow.pop(next(iter(self._slow)))
            self._slow[tenant] = now

"""What one tenant may cost the others: CPU seconds of the child, and deaths of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

from collector.sources.tenants.desk import Who

# CPU seconds that may be used at once, and gained each second. 16 dumps of 2,000 entries take 30 s,
# a read of an Inspector log 0.03 s.
JOB_S, JOB_RATE = 60.0, 0.2
TENANT_S, TENANT_RATE = 120.0, 0.3
# After a look that ended the child the same look at the same job is not tried for so long, doubled
# each time.
FIRST_REST_S, MAX_REST_S = 60.0, 3600.0
FORGOTTEN_S = 2 * MAX_REST_S
SHOWN_S = 900.0  # a lost look is shown in tocsin_tenant_cut
MAX_REMEMBERED, TIDY_S = 4096, 1.0


@dataclass(slots=True)
class _Account:
    left_s: float
    at_s: float


@dataclass(slots=True)
class _Strike:
    who: Who
    at_s: float
    count: int = 0
    until_s: float = 0.0


class Accounts:
    """CPU seconds left, of each job and each tenant: an account fills with time, up to its size."""

    def __init__(self, size_s: float, rate: float) -> None:
        self._size_s, self._rate = size_s, rate
        self._of: dict[Hashable, _Account] = {}
        self._tidied_s = float("-inf")

    def left_s(self, key: Hashable, now_s: float) -> float:
        """What may be used now; negative after an overdraft."""
        account = self._of.get(key)
        if account is None:
            return self._size_s
        gained = (now_s - account.at_s) * self._rate
        return min(account.left_s + gained, self._size_s)

    def charge(self, key: Hashable, seconds: float, now_s: float) -> None:
        """So much was used."""
        left_s = self.left_s(key, now_s) - seconds
        if len(self._of) >= MAX_REMEMBERED and now_s - self._tidied_s >= TIDY_S:
            self._tidied_s = now_s
            self._of = {k: a for k, a in self._of.items() if self.left_s(k, now_s) < self._size_s}
        if len(self._of) < MAX_REMEMBERED or key in self._of:
            self._of[key] = _Account(left_s, now_s)


class Strikes:
    """Looks that ended the child, by job and kind of look."""

    def __init__(self) -> None:
        self._of: dict[Hashable, _Strike] = {}

    def add(self, key: Hashable, who: Who, now_s: float) -> float:
        """One more; how long to rest, in seconds."""
        for old in [k for k, s in self._of.items() if now_s - s.at_s > FORGOTTEN_S]:
            del self._of[old]
        if len(self._of) >= MAX_REMEMBERED:
            self._of.pop(next(iter(self._of)))
        strike = self._of.setdefault(key, _Strike(who, now_s))
        strike.count, strike.at_s = strike.count + 1, now_s
        rest_s: float = min(FIRST_REST_S * 2.0 ** min(strike.count - 1, 16), MAX_REST_S)
        strike.until_s = now_s + rest_s
        return rest_s

    def resting(self, key: Hashable, now_s: float) -> bool:
        """Whether this look is not to be tried now."""
        strike = self._of.get(key)
        return strike is not None and now_s < strike.until_s

    def shown(self, now_s: float) -> Counter[tuple[str, str]]:
        """Lost looks of each (job, tenant) that rests, or lost one within 15 minutes."""
        found: Counter[tuple[str, str]] = Counter()
        for strike in self._of.values():
            if now_s < max(strike.until_s, strike.at_s + SHOWN_S):
                found[strike.who] += strike.count
        return found

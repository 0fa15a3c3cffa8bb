"""Which hints each process was given by which channel: a channel that failed is tried again a few
times, one that worked never.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from collector.hint.subscription import Subscription
from collector.integrations.durable import write_json

MAX_TRIES = 3  # of one hint by one channel: one a minute, as the timer runs
SPEND_S = 20.0  # on the processes of one user in a run: the next run goes on


class Tries(NamedTuple):
    """Until when a channel is over with a hint (unix seconds), and how often it has failed."""

    until: float
    failures: int = 0
    worked: bool = False

    @property
    def over(self) -> bool:
        """Whether it is tried no more."""
        return self.worked or self.failures >= MAX_TRIES


class Given:
    """The file of all that was given. One that cannot be read counts as empty."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            found: Any = json.loads(file.read_text(encoding="utf-8"))
            self._tries = {
                str(key): Tries(float(until), int(failures), bool(worked))
                for key, (until, failures, worked) in found.items()
            }
        except (OSError, ValueError, AttributeError, TypeError):
            self._tries = {}

    def due(self, who: Subscription, one: Mapping[str, Any], now: float) -> Subscription | None:
        """The process with the channels by which it is to get a hint now; None: by none."""
        left = [
            channel
            for channel in who.channels
            if (tries := self._tries.get(_key(who, one, channel))) is None
            or tries.until <= now
            or not tries.over
        ]
        return who.only(left) if left else None

    def note(
        self, who: Subscription, one: Mapping[str, Any], outcomes: Mapping[str, str], now: float
    ) -> None:
        """How it went, by channel; "" worked."""
        for channel, trouble in outcomes.items():
            key = _key(who, one, channel)
            before = self._tries.get(key)
            if before is None or before.until <= now:
                before = Tries(now + one["horizon_s"])
            self._tries[key] = before._replace(
                failures=before.failures + bool(trouble), worked=not trouble
            )

    def write(self, now: float) -> None:
        """What still counts. OSError."""
        write_json(self._file, {key: one for key, one in self._tries.items() if one.until > now})


def _key(who: Subscription, one: Mapping[str, Any], channel: str) -> str:
    return f"{who.pid} {who.started} {one['gpu_uuid']} {one['reason']} {channel}"

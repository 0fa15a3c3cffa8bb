"""How fast the store may lose days by age: a day for every six hours by which its data grow.

A node that was off for ten days catches up within three. A clock that is wrong for an hour costs
the oldest day. Kept on disk, since a clock may be wrong over restarts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pipeline.store.files.layout import HOUR_US, write_whole

FILE = "state/retention.json"
TURN_US = 6 * HOUR_US
MAX_TURNS = 64  # remembered: a clock that goes to and fro between more is not expected


class Pace:
    """Which day of data, since 1970, each tier lost in which turn of the store's time."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE

    def take(self, now_us: int, oldest: Mapping[int, int]) -> dict[int, int]:
        """Days that may go now, by tier: the oldest ones, unless another went in this turn.

        None where that cannot be kept: a disk that refuses this frees nothing either.
        """
        if not oldest:
            return {}
        turns, turn = self._turns(), str(now_us // TURN_US)
        gone = turns.pop(turn, {})
        days = {tier: day for tier, day in oldest.items() if gone.get(str(tier), day) == day}
        turns[turn] = {**gone, **{str(tier): day for tier, day in days.items()}}
        text = json.dumps(dict(list(turns.items())[-MAX_TURNS:])).encode()
        try:
            write_whole(self._path, lambda scratch: scratch.write_bytes(text))
        except OSError:
            return {}
        return days

    def _turns(self) -> dict[str, dict[str, int]]:
        with suppress(OSError, ValueError, AttributeError):
            turns = json.loads(self._path.read_bytes())
            return {turn: dict(days) for turn, days in turns.items()}
        return {}  # never written, or damaged: that costs one day at most

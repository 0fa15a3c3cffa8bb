"""Times on the command line: ``2027-01-15T08:30``, ``2027-01-15 08:30:00Z``, or how
long ago: ``7d``, ``90m``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from collector.config.units import Seconds


def moment(text: str, now_us: int) -> int:
    """Unix time in microseconds; without a zone UTC is meant.

    ValueError where the text is neither a time nor a duration.

    >>> moment("1h", 10_000_000_000), moment("1970-01-01T00:00:10Z", 0), moment("now", 7)
    (6400000000, 10000000, 7)
    """
    if text == "now":
        return now_us
    if re.match(r"\d{4}-", text):
        time = datetime.fromisoformat(text)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    return now_us - round(Seconds.parse(text) * 1_000_000)

"""Times on the command line: ``2027-01-15T08:30``, ``2027-01-15 08:30:00Z``, or how
long ago: ``7d``, ``90m``.
"""

from __future__ import annotations

import re
from argparse import Namespace
from datetime import UTC, datetime

from collector.config.error import ConfigError
from collector.config.units import Seconds


def moment(text: str, now_us: int) -> int:
    """Unix time in microseconds; without a zone UTC is meant.

    What is before 1970 is 1970. ValueError where the text is neither a time nor a duration.

    >>> moment("1h", 10_000_000_000), moment("1970-01-01T00:00:10Z", 0), moment("now", 7)
    (6400000000, 10000000, 7)
    >>> moment("99999999d", 10_000_000_000), moment("0001-01-01", 0)
    (0, 0)
    """
    if text == "now":
        return now_us
    if re.match(r"\d{4}-", text):
        time = datetime.fromisoformat(text)
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        return max(round(seconds * 1_000_000), 0)
    return max(now_us - round(Seconds.parse(text) * 1_000_000), 0)


def interval(
    args: Namespace, now_us: int, *, default: str = "", ago_of_until: bool = False
) -> tuple[int | None, int | None]:
    """Begin and end that ``--since`` and ``--until`` give, unix time in microseconds; None is open.

    How long ago counts from now, with ``ago_of_until`` from the end; ``default`` is what begins
    where ``--since`` is not given, counted from the end. ConfigError where they make no sense.

    >>> interval(Namespace(since="1h", until=""), 10_000_000_000, default="30d")
    (6400000000, None)
    """
    try:
        until = moment(args.until, now_us) if args.until else None
        end = now_us if until is None else until
        begin = moment(args.since, end if ago_of_until else now_us) if args.since else None
        begin = moment(default, end) if begin is None and default else begin
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"--since, --until: {error}") from error
    if begin is not None and until is not None and begin >= until:
        since = args.since or default
        raise ConfigError(f"--since ({since}) does not lie before --until ({args.until})")
    return begin, until

"""Observations that a store's folder holds, files first and then what a
running agent's log still has.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.judged import JudgedObservation
from pipeline.replay import replay
from pipeline.store.files.live import hours_of
from pipeline.store.files.record import CorruptError
from pipeline.store.files.segment import NewerError
from pipeline.store.files.wal import read_segment, segments

log = logging.getLogger("tocsin.replay")
HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since_us`` up to but not including ``until_us``, unix time in
    microseconds; None is open.
    """

    since_us: int | None = None
    until_us: int | None = None

    def holds(self, time_us: int) -> bool:
        """Whether a read that began then belongs to it."""
        return (self.since_us is None or time_us >= self.since_us) and (
            self.until_us is None or time_us < self.until_us
        )


def stored(root: Path, span: Span, hosts: Collection[str] = ()) -> Iterator[JudgedObservation]:
    """Every observation of a span with the findings of then; no hosts means all.

    An hour is in memory at a time.

    The log is read before files are listed, so that nothing falls between when a segment is sealed
    meanwhile; what stands in both is taken from the files.
    """
    logged = list(_logged(root / "wal", span))
    last: dict[tuple[str, str], int] = {}
    for observation, findings, *_ in replay(root, since_us=span.since_us, until_us=span.until_us):
        last[observation.host, observation.boot_id] = observation.seq
        if not hosts or observation.host in hosts:
            yield JudgedObservation(observation, findings)
    for judged in logged:
        observation = judged.observation
        sealed = observation.seq <= last.get((observation.host, observation.boot_id), -1)
        if not sealed and (not hosts or observation.host in hosts):
            yield judged


def extent(root: Path, span: Span) -> tuple[int, int]:
    """Begin and end of what there is of a span, unix time in microseconds, by whole hours: to
    tell how far a replay is.
    """
    hours = [hour for hour in hours_of(root) if span.holds(hour) or span.holds(hour + HOUR_US - 1)]
    begin, end = (hours[0], hours[-1] + HOUR_US) if hours else (0, 0)
    return max(begin, span.since_us or begin), min(end, span.until_us or end)


def _logged(directory: Path, span: Span) -> Iterator[JudgedObservation]:
    for segment in segments(directory):
        try:
            yield from (
                judged
                for judged in read_segment(segment)
                if span.holds(judged.observation.time_ns // 1000)
            )
        except FileNotFoundError:  # sealed meanwhile
            continue
        except (CorruptError, NewerError) as error:
            log.warning("skipped: %s", error)

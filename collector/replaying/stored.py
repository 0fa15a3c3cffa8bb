"""Observations that a store's folder holds, files first and then what a
running agent's log still has.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.judged import JudgedObservation
from pipeline.replay import parts
from pipeline.store.decode.nodes import Seen
from pipeline.store.decode.stretches import TABLES
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


@dataclass(frozen=True, slots=True)
class Hours:
    """Observations up to ``end_us``, unix time in microseconds, of each node by its name."""

    end_us: int
    nodes: Iterator[tuple[str, Iterator[JudgedObservation]]]


def stored(root: Path, span: Span, hosts: Collection[str] = ()) -> Iterator[JudgedObservation]:
    """Every observation of a span with the findings of then; no hosts means all.

    An hour is in memory at a time.
    """
    for hours in stored_hours(root, span, hosts):
        for _, node in hours.nodes:
            yield from node


def stored_hours(
    root: Path, span: Span, hosts: Collection[str] = (), tables: Collection[str] = TABLES
) -> Iterator[Hours]:
    """As ``stored``, hour by hour and node by node; the nodes of an hour may be read in turn.
    Files of other ``tables`` are not read.

    The log is read before files are listed, so that nothing falls between when a segment is sealed
    meanwhile; what stands in both is taken from the files.
    """
    logged: dict[str, list[JudgedObservation]] = {}
    for judged in _logged(root / "wal", span):
        if not hosts or judged.observation.host in hosts:
            logged.setdefault(judged.observation.host, []).append(judged)
    last: dict[tuple[str, str], int] = {}

    def sealed(node: Iterator[Seen]) -> Iterator[JudgedObservation]:
        for observation, findings in node:
            last[observation.host, observation.boot_id] = observation.seq
            yield JudgedObservation(observation, findings)

    def unsealed(node: list[JudgedObservation]) -> Iterator[JudgedObservation]:
        for judged in node:
            observation = judged.observation
            if observation.seq > last.get((observation.host, observation.boot_id), -1):
                yield judged

    for part in parts(root, since_us=span.since_us, until_us=span.until_us, tables=tables):
        yield Hours(
            part.end_us,
            ((name, sealed(node)) for name, node in part.nodes if not hosts or name in hosts),
        )
    if logged:
        end_us = 1 + max(node[-1].observation.time_ns for node in logged.values()) // 1000
        yield Hours(end_us, ((name, unsealed(node)) for name, node in logged.items()))


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

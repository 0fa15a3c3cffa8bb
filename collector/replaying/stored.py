"""Observations that a store's folder holds, files first and then what a
running agent's log still has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from pipeline.arrival_cut import GATEWAY
from pipeline.clock import SECOND_NS
from pipeline.judged import JudgedObservation
from pipeline.replay import Part, parts
from pipeline.round import Round
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
class Joined:
    """The nodes of some hours by ``names``, in their order; ``rounds`` gives the observations of
    some of them joined, once: in place of the nodes' own.
    """

    names: Sequence[str]
    rounds: Callable[[Sequence[str]], Iterator[Round]]


@dataclass(frozen=True, slots=True)
class Hours:
    """Observations up to ``end_us``, unix time in microseconds, of each node by its name; of files,
    or of an agent's log. ``periods``: seconds between two reads, as most are, by node and source.
    ``joined``: the same nodes for those who judge many at once; None where there is only ``nodes``.
    """

    end_us: int
    nodes: Iterator[tuple[str, Iterator[JudgedObservation]]]
    is_logged: bool = False
    periods: Mapping[tuple[str, str], float] = field(default_factory=dict)
    joined: Joined | None = None


def stored(root: Path, span: Span, hosts: Collection[str] = ()) -> Iterator[JudgedObservation]:
    """Every observation of a span with the findings of then; no hosts means all.

    An hour is in memory at a time.
    """
    for hours in stored_hours(root, span, hosts):
        for _, node in hours.nodes:
            yield from node


def name_of(node: str) -> str:
    """The host's name of a node: of several with one name the others are numbered
    (pipeline/store/decode/machines.py).

    >>> name_of("n1~2")
    'n1'
    """
    return node.partition("~")[0]


def stored_hours(
    root: Path,
    span: Span,
    hosts: Collection[str] = (),
    *,
    tables: Collection[str] = TABLES,
    nodes: Collection[str] = (),
    shelves: int = 1,
) -> Iterator[Hours]:
    """As ``stored``, hour by hour and node by node; the nodes of an hour may be read in turn.
    Files of other ``tables``, and of other hosts than ``nodes`` (all nodes of these names; none
    means all), are not read. ``shelves``: so many such iterators are read in turn.

    The log is read before files are listed, so that nothing falls between when a segment is sealed
    meanwhile; what stands in both is taken from the files.
    """

    def wanted(name: str) -> bool:
        return (not hosts or name in hosts) and (not nodes or name_of(name) in nodes)

    logged: dict[str, list[JudgedObservation]] = {}
    for judged in _logged(root / "wal", span):
        if wanted(judged.observation.host):
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

    since_us, until_us = span.since_us, span.until_us
    for part in parts(
        root, since_us=since_us, until_us=until_us, tables=tables, hosts=nodes, shelves=shelves
    ):
        some = ((name, sealed(node)) for name, node in part.nodes if wanted(name))
        names = [name for name in part.names() if wanted(name)]
        joined = Joined(names, partial(_joined, part, last if logged else None))
        yield Hours(part.end_us, some, periods=part.periods, joined=joined)
    if logged:
        end_us = 1 + max(node[-1].observation.time_ns for node in logged.values()) // 1000
        rest = ((name, unsealed(node)) for name, node in logged.items())
        yield Hours(end_us, rest, is_logged=True, periods=_steps(logged))


def _joined(
    part: Part, last: dict[tuple[str, str], int] | None, names: Sequence[str]
) -> Iterator[Round]:
    if last is not None:
        last.update(part.last(names))
    return part.rounds(names)


def hosts_of(root: Path, span: Span, hosts: Collection[str] = ()) -> set[str]:
    """Names of the hosts that have observations; several nodes of one name are one."""
    return {
        name_of(name)
        for hours in stored_hours(root, span, hosts, tables=("reads",))
        for name, _ in hours.nodes
        if name_of(name) != GATEWAY
    }


def extent(root: Path, span: Span) -> tuple[int, int]:
    """Begin and end of what there is of a span, unix time in microseconds, by whole hours: to
    tell how far a replay is.
    """
    hours = [hour for hour in hours_of(root) if span.holds(hour) or span.holds(hour + HOUR_US - 1)]
    begin, end = (hours[0], hours[-1] + HOUR_US) if hours else (0, 0)
    return max(begin, span.since_us or begin), min(end, span.until_us or end)


def _steps(logged: Mapping[str, list[JudgedObservation]]) -> dict[tuple[str, str], float]:
    """Seconds between two reads with frames, as most are, by node and source."""
    last: dict[tuple[str, str, str], int] = {}
    steps: dict[tuple[str, str], list[int]] = {}
    for host, node in logged.items():
        for one in (judged.observation for judged in node):
            key = (host, one.source, one.boot_id)
            if one.frames and (before := last.get(key)) is not None and one.mono_ns > before:
                steps.setdefault(key[:2], []).append(one.mono_ns - before)
            if one.frames:
                last[key] = one.mono_ns
    return {key: median(some) / SECOND_NS for key, some in steps.items()}


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

"""A store's hours some nodes at a time: what is in memory does not grow with the fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from collector.replaying.arrivals import is_gateway
from collector.replaying.stored import HOUR_US, Hours, Span, name_of, stored_hours
from pipeline.store.files.live import hours_of
from pipeline.store.files.wal import segments
from pipeline.store.query.hosts import hosts_below


def in_passes(
    root: Path, span: Span, at_once: int, hosts: Collection[str] = (), nodes: Collection[str] = ()
) -> Iterator[Hours]:
    """As ``stored_hours`` without what gateways stored: an hour comes several times, each time with
    ``at_once`` other nodes, and is to be judged before the next is asked for.
    """
    if segments(root / "wal"):  # an agent's own store
        yield from stored_hours(root, span, hosts, nodes=nodes)
        return
    hours = hours_in(root, span)
    found = nodes or set(map(name_of, hosts)) or hosts_below(root, hours)
    names = sorted(name for name in found if not is_gateway(name))
    each = [names[begin : begin + at_once] for begin in range(0, len(names), at_once)]
    passes = [stored_hours(root, span, hosts, nodes=some, shelves=len(each)) for some in each]
    if len(passes) < 2:
        yield from stored_hours(root, span, hosts, nodes=nodes)
        return
    yield from _merged(passes, [hour + HOUR_US for hour in hours])


def hours_in(root: Path, span: Span) -> list[int]:
    """Hours of a store that a span has a part of, unix time of their begins in microseconds."""
    return [hour for hour in hours_of(root) if _overlaps(span, hour)]


def _overlaps(span: Span, hour: int) -> bool:
    return (span.since_us is None or hour + HOUR_US > span.since_us) and (
        span.until_us is None or hour < span.until_us
    )


def _merged(passes: Sequence[Iterator[Hours]], ends_us: Sequence[int]) -> Iterator[Hours]:
    """Hour by hour; of a pass that has none of an hour the next one is held."""
    heads: list[Hours | None] = [None] * len(passes)

    def due(number: int, end_us: int) -> Iterator[Hours]:
        while True:
            head = heads[number] or next(passes[number], None)
            heads[number] = head if head is not None and head.end_us > end_us else None
            if head is None or heads[number] is not None:
                return
            yield head
            if head.end_us == end_us:  # the next is not asked for yet: it would be in memory
                return

    for end_us in (*ends_us, 1 << 62):  # the last: of a clock that was far ahead
        for number in range(len(passes)):
            yield from due(number, end_us)

"""From runs of equal lines to events of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from collector.sources.kmsg.collapse import Run
from collector.sources.kmsg.reader import Loss
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

MAX_TEXT = 1024  # characters of the line in an event: the longest line the kernel prints


class Log(NamedTuple):
    """Where lines were read: the words for ``origin`` and ``stream`` in the catalogue of events."""

    origin: str
    stream: str


def tell(run: Run, device: Device, log: Log, first: Instant, last: Instant, **marks: bool) -> Event:
    """The event of one run.

    ``marks`` are before_start and previous_boot; only those that are true are included.
    """
    facts: dict[str, Value] = {**run.parsed.facts, "origin": log.origin, "stream": log.stream}
    if run.parsed.pci:
        facts["pci"] = run.parsed.pci
    if run.first.seq >= 0:
        facts["seq"] = run.first.seq
    if run.count > 1:
        facts |= {"count": run.count, "last_seq": run.last.seq, "last_time_ns": last.time_ns}
    facts |= {name: True for name, holds in marks.items() if holds}
    facts["text"] = run.first.text[:MAX_TEXT]
    return Event(first.time_ns, first.mono_ns, device, run.parsed.kind, facts)


def tell_losses(losses: Iterable[Loss], node: Device, log: Log, when: Instant) -> Iterator[Event]:
    """One event per reason.

    Malformed records and lines in an unknown format are counted, but nothing is known to be lost
    with them.
    """
    sums: dict[str, int] = {}
    for loss in losses:
        sums[loss.reason] = sums.get(loss.reason, 0) + loss.records
    for reason, records in sums.items():
        if reason not in ("malformed", "format"):
            facts: dict[str, Value] = {
                "reason": reason,
                "records": records,
                "origin": log.origin,
                "stream": log.stream,
            }
            yield Event(when.time_ns, when.mono_ns, node, "kernel_log_lost", facts)

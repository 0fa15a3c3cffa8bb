"""Times out of service for repair, by part and by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from history.economics.evidence import NodeEvidence, Span
from history.economics.reliability import HOUR_MS, Duration


class Repair(NamedTuple):
    """A node, the kind of device that was repaired there, and how long it took."""

    host: str
    part: str
    took: Duration


def repairs(nodes: Iterable[NodeEvidence]) -> Iterator[Repair]:
    """Those of a node that overlap are one, of the part that is named beside the drained node.
    Spans are of times before and after as well; what ended or began there is not counted.
    """
    for node in nodes:
        named = sorted((s for s in node.spans if s.part), key=lambda one: one.begin_ms)
        for span in _merged(named):
            if span.end_ms <= node.begin_ms or span.begin_ms >= node.end_ms:
                continue
            hours = (span.end_ms - span.begin_ms) / HOUR_MS
            yield Repair(node.host, span.part, Duration(hours, span.end_ms < node.end_ms))


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        if found and span.begin_ms <= found[-1].end_ms:
            last = found.pop()
            part = last.part if last.part != "node" else span.part
            found.append(replace(last, end_ms=max(last.end_ms, span.end_ms), part=part))
        else:
            found.append(span)
    return found

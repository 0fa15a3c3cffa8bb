"""The arrival cut that gateways stored (pipeline/arrival_cut.py)."""

from __future__ import annotations

from pathlib import Path

from collector.replaying.stored import Span, stored_hours
from pipeline.arrival_cut import GATEWAY, ArrivalCut
from pipeline.observation import Observation

TABLES = ("reads", "events")
# Gateways repeat the state of each host every ten minutes (gateway/cut.py).
BEFORE_US = 660 * 1_000_000


def cut_of(root: Path, span: Span) -> ArrivalCut | None:
    """What gateways judged of a span; None where no gateway stored anything below ``root``.

    All gateways of a cluster judge alike: what they stored is taken in the order of its seconds.
    """
    since_us = None if span.since_us is None else span.since_us - BEFORE_US
    found: list[Observation] = []
    for hours in stored_hours(root, Span(since_us, None), tables=TABLES):
        for name, node in hours.nodes:
            if is_gateway(name):
                found += (judged.observation for judged in node)
    found.sort(key=lambda one: (one.time_ns, one.boot_id, one.seq))
    return ArrivalCut(event for one in found for event in one.events) if found else None


def is_gateway(name: str) -> bool:
    """Whether what is stored under this name is a gateway's: of several the others are numbered
    (pipeline/store/decode/machines.py).
    """
    return name == GATEWAY or name.startswith(f"{GATEWAY}~")

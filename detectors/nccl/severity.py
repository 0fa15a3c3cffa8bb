"""How serious a verdict is."""

from __future__ import annotations

from collections.abc import Collection

from detectors.nccl.verdict import Cause, Verdict
from pipeline.finding import Severity

SURE = 0.7  # confidence of a page
SLOW: tuple[Cause, ...] = ("slow_straggler", "slow_network")
TEXTS = frozenset({"log", "launcher", "network", "scheduler", "kernel"})  # sources: lines of a log


def severity_of(verdict: Verdict, own: Collection[str], *, gave_up: bool) -> Severity:
    """The severity of a verdict.

    ``own``: what the kernel or a counter of ours says of hardware. Reports and logs are the job's
    word about itself: by that alone no hardware and no node is paged.

    ``gave_up``: a watchdog of the job has timed out. Until then a rank that has not joined a
    collective may be writing a checkpoint, which RAS shows alike: a ticket. The detector ``hang``
    knows how long the pauses of a job are, and makes the incident a page.
    """
    if verdict.phase != "confirmed" or verdict.cause == "unknown":
        return "record"
    if verdict.cause in SLOW or verdict.confidence < SURE:
        return "ticket"
    if verdict.cause == "host_hang" and not gave_up:
        return "ticket"
    said = {e.text for e in verdict.evidence}
    if verdict.cause == "hardware_fault" or any(c.port for c in verdict.culprits):
        return "page" if said & set(own) else "ticket"
    by_text = not {e.source for e in verdict.evidence if e.weight} - TEXTS
    nodes = any(c.is_node for c in verdict.culprits)
    return "ticket" if nodes and by_text else "page"

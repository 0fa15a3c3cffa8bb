"""A verdict in words, for people at a terminal and for the summary of a finding."""

from __future__ import annotations

from collections.abc import Iterator

from detectors.nccl.verdict import Cause, Verdict

CAUSES: dict[Cause, str] = {
    "process_lost": "a process of the job is lost",
    "hardware_fault": "a GPU or network card failed",
    "order_mismatch": "ranks called different collectives: a fault of the job's own code",
    "host_hang": "a rank never came to the collective that the others wait in: it is stuck outside NCCL",
    "straggler": "a rank is far behind the others",
    "launch_order_deadlock": "ranks wait for each other in a circle: a fault of the order in which the job calls",
    "in_flight": "all ranks came to the collective and it does not end: network, NVLink or a kernel",
    "init_hang": "a communicator is being made and does not get done",
    "storage": "the job waits for storage",
    "global_host_phase": "all ranks are busy outside NCCL",
    "slow_straggler": "the job moves, and waits for one rank all the time",
    "slow_network": "the job moves, and its network carries less than before",
    "slow_uniform": "the job moves more slowly, all ranks alike",
    "unknown": "something stands still, and what was told names nobody",
    "no_evidence": "nothing that was told says that the job stands still, which is not to say that it is healthy",
}


def summary(verdict: Verdict) -> str:
    """One sentence.

    >>> from detectors.nccl.verdict import Culprit
    >>> summary(Verdict("host_hang", culprits=(Culprit(0.85, rank=2),), operation="all_reduce", sequence=6, confidence=0.85))
    'A rank never came to the collective that the others wait in: it is stuck outside NCCL (all_reduce #6): rank 2; confidence 85 %.'
    """
    said = CAUSES[verdict.cause]
    call = " ".join(p for p in (verdict.operation, f"#{verdict.sequence}" if verdict.sequence > 0 else "") if p)
    text = said[0].upper() + said[1:] + (f" ({call})" if call else "")
    if verdict.culprits:
        more = f" and {len(verdict.culprits) - 4} more" if len(verdict.culprits) > 4 else ""
        text += ": " + "; ".join(c.words() for c in verdict.culprits[:4]) + more
    if verdict.confidence:
        text += f"; confidence {verdict.confidence:.0%}".replace("%", " %")
    return f"{text}."


def lines(verdict: Verdict) -> Iterator[str]:
    """The whole, line by line."""
    yield f"{verdict.cause} ({verdict.phase}): {summary(verdict)}"
    if verdict.job:
        yield f"  job: {verdict.job}"
    if verdict.communicator:
        yield f"  communicator: {verdict.communicator}"
    if verdict.victims:
        yield f"  waiting: {verdict.victims} rank(s), which are victims"
    for title, those in (("culprit", verdict.culprits), ("perhaps", verdict.candidates)):
        for culprit in those:
            yield f"  {title}: {culprit.words()} ({culprit.score:.2f})"
    for evidence in verdict.evidence:
        weight = f"{evidence.weight:.2f}" if evidence.weight else "  - "
        yield f"  {weight} {evidence.source}: {evidence.text}" + (f" [{evidence.ref}]" if evidence.ref else "")

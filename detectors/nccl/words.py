"""A verdict as text, for the terminal and for the summary of a finding."""

from __future__ import annotations

from collections.abc import Iterator

from detectors.nccl.verdict import Cause, Verdict

CAUSES: dict[Cause, str] = {
    "process_lost": "a process of the job is lost",
    "hardware_fault": "a GPU or network card failed",
    "order_mismatch": "ranks called different collectives: a bug in the job's code",
    "host_hang": (
        "a rank never joined the collective that the others wait in: it is stuck outside NCCL"
    ),
    "straggler": "a rank is far behind the others",
    "launch_order_deadlock": (
        "ranks wait for each other in a circle: the job calls collectives in a wrong order"
    ),
    "in_flight": (
        "all ranks joined the collective and it does not end: network, NVLink or a kernel"
    ),
    "init_hang": "a communicator is being created and does not complete",
    "storage": "the job waits for storage",
    "global_host_phase": "all ranks are busy outside NCCL",
    "slow_straggler": "the job progresses, but always waits for one rank",
    "slow_network": "the job progresses, but its network carries less than before",
    "slow_uniform": "the job progresses more slowly, on all ranks alike",
    "unknown": "part of the job is stalled, and no report identifies the root cause",
    "no_evidence": (
        "no report shows that the job is stalled; this does not prove that it is healthy"
    ),
}


def summary(verdict: Verdict) -> str:
    """One sentence.

    >>> from detectors.nccl.verdict import Culprit
    >>> summary(
    ...     Verdict(
    ...         "host_hang",
    ...         culprits=(Culprit(0.85, rank=2),),
    ...         operation="all_reduce",
    ...         sequence=6,
    ...         confidence=0.85,
    ...     )
    ... )
    'A rank never joined the collective that the others wait in: it is stuck outside NCCL (all_reduce #6): rank 2; confidence 85 %.'
    """  # noqa: E501 - an example or a table
    cause = CAUSES[verdict.cause]
    call = " ".join(
        p for p in (verdict.operation, f"#{verdict.sequence}" if verdict.sequence > 0 else "") if p
    )
    text = cause[0].upper() + cause[1:] + (f" ({call})" if call else "")
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
        yield f"  {weight} {evidence.source}: {evidence.text}" + (
            f" [{evidence.ref}]" if evidence.ref else ""
        )

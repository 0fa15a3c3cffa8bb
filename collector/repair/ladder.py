"""Which act a fault needs: the one that its action proposes, or a stronger one where that was
tried before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collector.repair.case import LADDER, Case, Past, Rung

# Of the proposed actions (pipeline/finding.py). What a person must look at first ends in a ticket.
FIRST: Mapping[str, Rung] = {
    "COMPONENT_RESET": "reset",
    "RESTART_VM": "reboot",
    "RESTART_BM": "reboot",
    "REPLACE_VM": "replace",
    "CONTACT_SUPPORT": "replace",
    "RUN_FIELDDIAG": "replace",
    "RUN_DCGMEUD": "replace",
}


def rung_of(
    case: Case, past: Iterable[Past], *, now: float, again_within_s: float, max_attempts: int
) -> Rung:
    """The next act. A fault that came back to the same part within ``again_within_s`` needs a
    stronger one than helped it before; after ``max_attempts`` acts the part is replaced.
    """
    if case.attempts >= max_attempts:
        return "replace"
    level = LADDER.index(FIRST.get(case.action, "replace"))
    if level == LADDER.index("reset") and case.kind != "gpu":
        level += 1  # nothing but a GPU has a reset of its own
    if case.rung:
        level = max(level, LADDER.index(case.rung) + 1)
    before = [
        LADDER.index(one.rung)
        for one in past
        if (one.fault, one.device) == (case.fault, case.device)
        and now - one.at <= again_within_s
        and one.rung in LADDER
    ]
    return LADDER[min(max([level, *(rung + 1 for rung in before)]), len(LADDER) - 1)]


def proposal(fault: str, past: Iterable[Past]) -> str:
    """What helped this class of fault, in words; empty where nothing is known.

    >>> proposal("xid/gpu", [Past("xid/gpu", "GPU-1", "reset", helped=True, at=0.0)])
    'reset helped in 1 of 1 for xid/gpu'
    """
    counts: dict[str, list[bool]] = {}
    for one in past:
        if one.fault == fault:
            counts.setdefault(one.rung, []).append(one.helped)
    return ", ".join(
        f"{rung} helped in {sum(helped)} of {len(helped)} for {fault}"
        for rung, helped in sorted(counts.items(), key=lambda item: -sum(item[1]) / len(item[1]))
    )

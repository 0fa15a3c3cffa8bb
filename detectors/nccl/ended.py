"""Processes of a job that ended, as looks at their node find them gone: whom that accuses.

A node is looked at every 15 s (collector/sources/nccl), so the order of two ends between the same
two looks is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from detectors.nccl.case import Ended
from detectors.nccl.clue import GONE, Clue, RankTarget
from detectors.nccl.identity import Identities, Who
from pipeline.clock import SECOND_NS

LOOK_NS = 15 * SECOND_NS  # between two looks of one node; those of two nodes are not in step
# The launcher ends the others of a job that lost a process: torchrun gives them 30 s, Slurm
# (KillWait) 30 s, after it has noticed.
FOLLOWS_NS = 60 * SECOND_NS


def ended_clues(ended: Sequence[Ended], identities: Identities, *, firm: bool) -> list[Clue]:
    """A process that ended is the root cause where others wait; where none does, it may have done
    its work. Those that ended after it, as a launcher ends them, are named as such only.
    """
    together = Counter((one.host, one.seen_ns) for one in ended)
    found = []
    for one in ended:
        who = Who(one.rank, one.host, one.pid, uuid=one.uuid)
        if _follows(one, ended):
            found.append(Clue("proc", f"{who.words()} ended after another process of its job"))
            continue
        text = f"{who.words()} {_words(one, together[one.host, one.seen_ns])}"
        target = RankTarget(identities.find(who))
        found.append(Clue("proc", text, GONE, target, "process_lost", firm=firm))
    return found


def _follows(one: Ended, ended: Sequence[Ended]) -> bool:
    """Whether another process ended before it, and not long before."""
    return any(
        (0 if other.host == one.host else LOOK_NS) < one.seen_ns - other.seen_ns <= FOLLOWS_NS
        for other in ended
    )


def _words(one: Ended, together: int) -> str:
    if one.last:
        words = (
            "ended between two looks with all processes of its job on the node, "
            "while others ran on other nodes"
        )
        return f"{words}; which was the first is not known" if together > 1 else words
    words = "ended while other processes of its job ran on the node"
    if together == 1:
        return words
    return f"{words}; {together} ended between the same two looks, the first is not known"

"""Runs the detectors over stored observations of many nodes together, as a gateway does: a job on
all of its nodes, which no agent alone has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from collector.replaying.rejudge import Rejudged
from collector.replaying.seconds import seconds
from collector.replaying.stored import Hours
from pipeline.arrival_cut import ArrivalCut
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.roster import Roster
from pipeline.seconds import FORGOTTEN_NS, groups_of


def rejudge_fleet(
    stored: Iterable[Hours], judge: Judge, cut: ArrivalCut | None
) -> Iterator[Rejudged]:
    """What ``judge`` says of the nodes joined, second by second.

    With the arrival ``cut`` of a gateway these are its seconds: what it did not judge is left out,
    and clocks are corrected as it did. Findings of the agents are left out: agents see one node
    only.
    """
    roster, last_ns = Roster(), dict[str, int]()
    for at_ns, second in seconds(stored, cut):
        gone = [name for name, then in last_ns.items() if then < at_ns + SECOND_NS - FORGOTTEN_NS]
        roster.forget(gone)
        for name in gone:
            del last_ns[name]
        last_ns |= dict.fromkeys((name for name, _ in second), at_ns + SECOND_NS)
        learnt = cut.learnt(at_ns + SECOND_NS) if cut is not None else ()
        for group in groups_of([mine for _, mine in second]):
            joined = roster.join(group)
            yield Rejudged(judge.judge(replace(joined, events=(*joined.events, *learnt))), ())
            learnt = ()

"""How far a pause is to be reported now: not at all, as a ticket, as a page."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.hang.members import Members
from detectors.hang.pauses import EVIDENCE_S, STARVES, page_after, report_after

# the last one: of one steady node, as a ticket
NOT_YET, REPORTED, PAGED, IDLE_REPORTED = range(4)
# A job on one node whose GPUs idle may be a notebook; one that worked nearly all the time before
# and pauses for longer than loaders stall (99 % within 120 s) is reported.
STEADY, STEADY_AFTER_S = 0.8, 1800.0
IDLE_REPORT_S = 900.0
Floats = NDArray[np.float64]


def stages_of(
    members: Members, still: NDArray[np.bool_], evidence: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], tuple[Floats, Floats]]:
    """The stage of each job's pause and the seconds after which a pause of it is reported and
    pages, (job,).

    ``evidence``: a process of the job is gone, or a serious XID of one of its GPUs is fresh.
    """
    of, known = members.of, members.known()
    kind, jobs = of["kind"].astype(np.int64), np.arange(len(still))
    proved = (kind != STARVES) & evidence
    report, page = (
        np.where(proved, EVIDENCE_S, limit(known)[kind, jobs])
        for limit in (report_after, page_after)
    )
    steady = (of["steady"] >= STEADY) & (of["worked_s"] >= STEADY_AFTER_S)
    # By its own pauses alone: of one node that stands still there is no other sign.
    own = report_after(known._replace(alike_s=np.zeros_like(known.alike_s)))[kind, jobs]
    idles = (kind == STARVES) & steady & of["single"]
    idle_report = np.where(idles, np.maximum(own, IDLE_REPORT_S), np.inf)
    paused = np.where(still, of["silent_s"], 0.0)
    stage = np.where(paused >= report, REPORTED, NOT_YET)
    stage = np.where((paused >= page) & (stage > NOT_YET), PAGED, stage)
    return np.where(paused >= idle_report, IDLE_REPORTED, stage), (report, page)

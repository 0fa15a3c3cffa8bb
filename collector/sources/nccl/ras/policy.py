"""When a live job may be asked: RAS has crashed the jobs it looks after, so there must be a reason,
and no reason against it.

NVIDIA/nccl#1669 and #1718 (before 2.27.3: a query during the set-up of a communicator crashes the
job), #1762 (2.26.2 to 2.28.9: out of bounds whenever a rank is missing, in JSON too), #2346 (2.29.7
to 2.30.7: the text form crashes on a communicator that is half set up, JSON shows a phantom).
2.29.2 is the first release that is considered safe, in JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from collector.sources.nccl.discovery.library import Version

Mode = Literal["auto", "on", "off"]
"""``auto`` asks on suspicion only; ``on`` also every minute, so that members are
known before they are missed.
"""

Refusal = Literal[
    "off",  # by configuration
    "disabled",  # NCCL_RAS_ENABLE=0 in the job
    "no_socket",  # no process of the job listens
    "version_unknown",
    "version_unsafe",
    "young",  # the job, or one of its processes: communicators are being set up
    "quiet",  # nothing is suspected
    "spacing",  # asked a moment ago
    "not_poller",  # another node asks
]
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)

FIRST_SAFE: Version = (2, 29, 2)
YOUNG_JOB_S, YOUNG_PROCESS_S = 120.0, 60.0
# the first looks of a suspicion follow closely: two that agree make a verdict
SPACING_S, CLOSE_LOOKS = 15.0, 3
ROUTINE_S = 60.0
OTHERS_FIRST_S = 60.0  # the others wait so long for the node that asks, and up to as long again


@dataclass(frozen=True, slots=True)
class JobSituation:
    """What this node knows of a job when it decides.

    Times are monotonic seconds, versions those of its processes here.

    ``starts_s`` are when its processes here started. ``asked_s`` is when it was last asked, None
    for never, ``asked_times`` how often in this suspicion. ``suspected_s`` is since when something
    is suspected, None for nothing. ``first_to_ask``: this node is the one that asks for the job,
    None where that is unknown.
    """

    starts_s: tuple[float, ...]
    versions: tuple[Version, ...]
    listeners: int
    disabled: bool = False
    asked_s: float | None = None
    asked_times: int = 0
    suspected_s: float | None = None
    first_to_ask: bool | None = True


def unfit(mode: Mode, job: JobSituation, now_s: float) -> Refusal | None:
    """Why the job may not be connected to at all, whatever is suspected; None: it may."""
    if mode == "off":
        return "off"
    if job.disabled:
        return "disabled"
    if not job.listeners:
        return "no_socket"
    if not job.versions or not all(job.versions):
        return "version_unknown"
    if min(job.versions) < FIRST_SAFE:
        return "version_unsafe"
    if now_s - min(job.starts_s) < YOUNG_JOB_S or now_s - max(job.starts_s) < YOUNG_PROCESS_S:
        return "young"
    return None


def refusal(mode: Mode, job: JobSituation, now_s: float, slot: float = 0.0) -> Refusal | None:
    """Why the job may not be asked now; None: ask.

    A node whose job another node asks still asks once in each suspicion, late and in its ``slot``
    (0 to 1), which spreads the nodes of a job: the other node may be the one that died, and after
    that poll all know again which node asks.
    """
    if reason := unfit(mode, job, now_s):
        return reason
    since_asked = float("inf") if job.asked_s is None else now_s - job.asked_s
    if job.suspected_s is None and (mode != "on" or since_asked < ROUTINE_S):
        return "quiet"
    if since_asked < (SPACING_S if job.asked_times < CLOSE_LOOKS else ROUTINE_S):
        return "spacing"
    if job.first_to_ask is True:
        return None
    waited = job.suspected_s is not None and now_s - job.suspected_s >= OTHERS_FIRST_S * (1 + slot)
    return None if waited and not job.asked_times else "not_poller"


def slot_of(host: str, job: str) -> float:
    """This node's slot among those that do not know which node asks, 0 to 1: the same at each
    start.
    """
    return (
        int.from_bytes(hashlib.blake2b(f"{host}\0{job}".encode(), digest_size=4).digest(), "big")
        / 2**32
    )


def is_of(
    reported: Collection[int], own: Collection[int], rivals: Iterable[Collection[int]]
) -> bool:
    """Whether a report with these pids is of the job with ``own`` pids, and of none of ``rivals``:
    other jobs that answer on the same address.

    Pids are those the processes themselves see: in containers two jobs may have the same. A report
    that may be of either is of none.

    >>> is_of([7, 8], [7, 8], [[9]]), is_of([9], [7, 8], [[9]]), is_of([7, 8], [7, 8], [[7, 8]])
    (True, False, False)
    """
    mine = len({*reported} & {*own})
    return mine > max((len({*reported} & {*rival}) for rival in rivals), default=0)


def poller(members: Iterable[tuple[str, int]]) -> str:
    """The host that asks for a job of these (host, pid): every node that has seen the same
    members comes to the same.

    >>> poller([("10.0.0.1", 5), ("10.0.0.2", 6)]) == poller([("10.0.0.2", 6), ("10.0.0.1", 5)])
    True
    """
    pids: dict[str, list[int]] = {}
    for host, pid in members:
        pids.setdefault(host, []).append(pid)
    return min(
        pids,
        key=lambda host: hashlib.blake2b(f"{host}\0{sorted(set(pids[host]))}".encode()).digest(),
        default="",
    )


def own_host(
    members: Collection[tuple[str, int]],
    own_pids: Collection[int],
    own_addresses: Collection[str] = (),
) -> str:
    """What RAS calls this node: the address that is ours, else the host whose processes have most
    of the pids that are ours; empty for none.

    Pids are those the processes themselves see: in containers every node may have the same.

    >>> own_host([("10.0.0.1", 5), ("10.0.0.2", 5), ("10.0.0.2", 6)], [5, 6])
    '10.0.0.2'
    """
    ours = {host for host, _ in members if host in own_addresses}
    if len(ours) == 1:
        return ours.pop()
    common: dict[str, int] = {}
    for host, pid in set(members):
        if pid in own_pids:
            common[host] = common.get(host, 0) + 1
    best = max(common.values(), default=0)
    leaders = [host for host, count in common.items() if count == best]
    return leaders[0] if len(leaders) == 1 else ""

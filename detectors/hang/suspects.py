"""Whom a stalled job waits for, from what its GPUs do: those who wait in a kernel are victims,
the odd ones out are not.

Root cause, in this order: a member with a serious hardware error, a member whose process is gone,
the minority that is idle while the others wait, nodes with a dead link. Power identifies victims: a
GPU that waits for no other is idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from detectors.hang.activity import BUSY, FREE, IDLE, LOST, SPINS
from pipeline.finding import Action, Severity
from pipeline.frame import Device

MAX_NAMED = 8  # suspects named one by one; where there are more, the job is named
MINORITY = 0.25  # of the members
MAX_STUCK = 2  # ranks that stand still by themselves at once; more of them save, or none stands out
Reach = Literal["here", "beyond", "unknown", "no job"]
# what the driver or a port said holds, whatever shares a job
WITNESSED = ("hang/hardware", "hang/link")
# hard evidence: no checkpoint looks like that
PROVED = (*WITNESSED, "hang/process_lost")


class Member(NamedTuple):
    """A GPU of the job, what it does (activity.py), and what else is known of it.

    ``xid`` is the code of a serious XID that it had recently, 0 for none; ``link_down``: a link of
    its node went down recently; ``witnessed``: its tensor, memory or link activity is read too, not
    its utilisation and power alone.
    """

    gpu: Device
    does: int
    xid: int = 0
    link_down: bool = False
    worked_s_ago: float = 0.0
    witnessed: bool = True


@dataclass(frozen=True, slots=True)
class Blame:
    """Who is to blame, for what class of stall, how sure that is (0 to 1), and what it means.

    No culprits: the job itself is reported.
    """

    fault: str
    severity: Severity
    action: Action
    culprits: tuple[Device, ...]
    confidence: float
    words: str


def blame(members: Sequence[Member], job: Device, reach: Reach) -> Blame:
    """The verdict on a job nobody of which moves anything.

    ``reach``: whether all of it is seen here, or some is elsewhere.

    Where nobody reported a job, those who stand still may be strangers to those
    who wait: that is no page.

    >>> gpus = [Device("n1", "gpu", f"GPU-{n}") for n in range(8)]
    >>> found = blame(
    ...     [Member(gpu, IDLE if gpu.id == "GPU-3" else SPINS) for gpu in gpus],
    ...     Device("", "job", "7"),
    ...     "here",
    ... )
    >>> found.fault, [gpu.id for gpu in found.culprits], found.severity
    ('hang/rank_stuck', ['GPU-3'], 'page')
    """
    waits = any(member.does == SPINS for member in members)
    if waits and (busy := [member for member in members if member.does == BUSY]):
        return _alone(busy, reach)
    found = _waited_for(members, job, reach) if waits else _starved(members, job, reach)
    if reach == "no job" and found.severity == "page" and found.fault not in WITNESSED:
        words = f"{found.words}; or they are unrelated, as no job is known here"
        return replace(found, severity="ticket", confidence=0.5, words=words)
    return found


def crawling(members: Sequence[Member], job: Device, reach: Reach) -> Blame:
    """The verdict on a job all of which goes on at a fraction of its speed: nobody stands out."""
    words = "Its GPUs compute at a fraction of the speed that is usual for this job"
    culprit = job if reach == "here" else _node(members[0])
    severity: Severity = "record" if reach in ("beyond", "no job") else "ticket"
    return Blame("hang/crawl", severity, "RESTART_APP", (culprit,), 0.5, words)


def _alone(busy: Sequence[Member], reach: Reach) -> Blame:
    """Few compute while all others wait for them: an endless loop, or an evaluation."""
    words = (
        "computes while all others wait: an evaluation on one rank, a loop without end or a dead "
        "lock in its program"
    )
    severity: Severity = "ticket" if reach == "no job" else "page"
    culprits = tuple(m.gpu for m in busy[:MAX_NAMED])
    return Blame("hang/rank_busy", severity, "RESTART_APP", culprits, 0.5, words)


def _waited_for(members: Sequence[Member], job: Device, reach: Reach) -> Blame:
    broken = [m for m in members if m.xid]
    if 0 < len(broken) <= MAX_NAMED:
        codes = ", ".join(sorted({str(m.xid) for m in broken}, key=int))
        return _page(
            "hang/hardware", "COMPONENT_RESET", [m.gpu for m in broken], 0.9, f"has had XID {codes}"
        )
    lost = [m for m in members if m.does in (FREE, LOST)]
    if lost and _few(lost, members):
        return _page(
            "hang/process_lost",
            "RESTART_APP",
            _parts(lost, members),
            0.9,
            "has no process any more",
        )
    idle = [m for m in members if m.does == IDLE]
    if (
        idle
        and (parts := _parts(idle, members))
        and (parts[0].kind == "node" or (_few(idle, members) and len(idle) <= MAX_STUCK))
    ):
        return _page(
            "hang/rank_stuck",
            "RESTART_APP",
            parts,
            0.8,
            "is idle: its process writes a checkpoint or waits outside the collective",
        )
    cut = list(dict.fromkeys(_node(m) for m in members if m.link_down))
    if 0 < len(cut) <= MAX_NAMED:
        return _page("hang/link", "CONTACT_SUPPORT", cut, 0.5, "has lost a link")
    return _undecided(members, job, reach)


def _undecided(members: Sequence[Member], job: Device, reach: Reach) -> Blame:
    """Everybody waits, or too many do not: nobody here stands out.

    A ticket where one who generates by a trickle would look the same.
    """
    sure = any(member.witnessed for member in members if member.does == SPINS)
    severity: Severity = "page" if sure else "ticket"
    doubt = (
        ""
        if sure
        else (
            "; or they work lightly, which utilisation and power alone do not "
            "distinguish from waiting"
        )
    )
    if idle := sum(member.does != SPINS for member in members):
        words = (
            f"Some of its GPUs wait in a collective and {idle} do not: too many to "
            "single out one of them"
        )
        culprit = job if reach == "here" else _node(members[0])
        return Blame("hang/undecided", severity, "RESTART_APP", (culprit,), 0.5, words + doubt)
    if reach == "here":
        words = (
            "All its GPUs wait in a collective, and none differs: a message was lost or "
            "their programs disagree"
        )
        return Blame("hang/in_flight", severity, "RESTART_APP", (job,), 0.5, words + doubt)
    severity = "record" if reach == "beyond" else "ticket"
    words = (
        "Its GPUs wait in a collective, as do all GPUs seen here: the rank they wait for is on "
        "another node, or a message was lost"
    )
    return Blame("hang/waits", severity, "NONE", (_node(members[0]),), 0.4, words)


def _starved(members: Sequence[Member], job: Device, reach: Reach) -> Blame:
    """All are idle, and hold their memory: the hosts do not feed them.

    A job on one node may be a notebook: for the record.
    """
    hosts = {member.gpu.host for member in members}
    words = (
        "All its GPUs have processes but are idle, and nothing is read or written: a data loader "
        "or the storage hangs"
    )
    if reach == "here" and len(hosts) > 1:
        return Blame("hang/host_stall", "page", "CONTACT_SUPPORT", (job,), 0.5, words)
    severity: Severity = "page" if reach == "beyond" else "record"
    return Blame("hang/host_stall", severity, "CONTACT_SUPPORT", (_node(members[0]),), 0.5, words)


def _page(
    fault: str, action: Action, culprits: Sequence[Device], confidence: float, words: str
) -> Blame:
    return Blame(fault, "page", action, tuple(culprits), confidence, words)


def _few(odd: Sequence[Member], members: Sequence[Member]) -> bool:
    return len(odd) <= max(1, MINORITY * len(members))


def _parts(odd: Sequence[Member], members: Sequence[Member]) -> list[Device]:
    """The nodes where these are all GPUs of the job, at most half of its nodes; else the
    GPUs, the last to work first.
    """
    hosts = {member.gpu.host for member in members}
    whole = [
        host
        for host in sorted({m.gpu.host for m in odd})
        if sum(m.gpu.host == host for m in members) > 1
    ]
    gpus = {id(m) for m in odd}
    whole = [host for host in whole if all(id(m) in gpus for m in members if m.gpu.host == host)]
    if whole and 2 * len(whole) <= len(hosts) and {m.gpu.host for m in odd} == set(whole):
        return [Device(host, "node", host) for host in whole[:MAX_NAMED]]
    return [m.gpu for m in sorted(odd, key=lambda m: m.worked_s_ago)[:MAX_NAMED]]


def _node(member: Member) -> Device:
    return Device(member.gpu.host, "node", member.gpu.host)

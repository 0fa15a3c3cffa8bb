"""What the lines of job logs report: how far each rank was, which process ended first, who waited,
and whether the scheduler ended it all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from detectors.nccl.clue import (
    BEHIND,
    FATAL_XID,
    GONE,
    OWN_ERROR,
    STUCK_PROCESS,
    Clue,
    RankTarget,
)
from detectors.nccl.communicators import DEFAULT_GROUP
from detectors.nccl.cuda_errors import fault_of
from detectors.nccl.identity import Identities, Who
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import WHOLE, Counts, Member, Operation
from pipeline.nccl.report import Communicator, Report
from pipeline.xid.table import XidEntry, xid_entry

MAX_RANK = 1 << 20
NONE: Counts = ((WHOLE, 0),)  # no collective
NOBODY = Who()  # an exception of a program that does not say which rank it is

# How processes end that were ended by others: watchdogs abort (6), launchers terminate (15).
FOLLOW_UPS = (-6, -15, 134, 143)
_FOLLOW_UP_WORDS = re.compile(r"Aborted|Terminated|exit code (?:134|143)\b")
KILLED = (-9, 9)  # what Hydra does to the others, as a signal and as a status
INIT_PATIENCE_NS = 120 * 10**9  # of a communicator that is being made


def progress(hits: Sequence[Hit]) -> Report | None:
    """How far each rank was in each group, as a report; None where no line has it."""
    members: dict[tuple[str, int], Member] = {}
    newest = 0
    for hit in hits:
        for group, member in _steps(hit):
            known = members.get((group, member.rank))
            members[group, member.rank] = _further(known, member) if known else member
            newest = max(newest, hit.time_ns)
    _note_calls(hits, members)
    uneven = {group for (group, _), member in members.items() if _transfers(member)}
    members = {
        place: m for place, m in members.items() if place[0] not in uneven or m.launched != NONE
    }
    if not any(m.launched for m in members.values()):
        return None
    groups = sorted({group for group, _ in members})
    communicators = tuple(
        Communicator(g, 0, tuple(m for (of, _), m in members.items() if of == g and m.launched))
        for g in groups
    )
    return Report("log", time_ns=newest, communicators=communicators)


def _steps(hit: Hit) -> Iterator[tuple[str, Member]]:
    rank = hit.rank if hit.rank >= 0 else hit.world_rank
    group = hit.group or DEFAULT_GROUP
    world = hit.world_rank if hit.world_rank >= 0 else rank if group == DEFAULT_GROUP else -1
    if hit.name == "wd_progress" and rank >= 0:
        launched, completed = max(hit.number("enq"), 0), max(hit.number("done"), 0)  # -1: none yet
        yield (
            group,
            Member(
                rank,
                world,
                hit.host,
                hit.pid,
                launched=((WHOLE, launched),),
                completed=((WHOLE, completed),),
            ),
        )
    elif hit.name == "desync":
        last, done = (
            (hit.number("fin"),) * 2
            if "fin" in hit.fields
            else (hit.number("jf"), hit.number("jf") - 1)
        )
        for number in _numbers(hit.fields["ranks"]):
            yield (
                DEFAULT_GROUP,
                Member(number, number, launched=((WHOLE, last),), completed=((WHOLE, done),)),
            )


def _note_calls(hits: Iterable[Hit], members: dict[tuple[str, int], Member]) -> None:
    """What ranks waited in. A watchdog's first line names no group, and its "Rank" is that in the
    group which the process used first (WorkNCCL::logPrefix of ProcessGroupNCCL.cpp): it is about
    the one of the reporter's groups that has come as far.
    """
    places: dict[tuple[int, Counts], list[tuple[str, int]]] = {}
    for place, member in members.items():
        places.setdefault((member.world_rank, member.completed), []).append(place)
    for hit in hits:
        seq = hit.number("seq")
        if hit.name != "wd_timeout" or seq <= 0:
            continue
        its = [(hit.group or DEFAULT_GROUP, hit.rank if hit.group else hit.number("r"))]
        if not hit.group and hit.world_rank >= 0:
            its = places.get((hit.world_rank, ((WHOLE, seq - 1),)), [])
        if len(its) == 1 and its[0] in members:
            call = Operation(seq, hit.fields.get("op", "").lower())
            known = members[its[0]]
            calls = {o.seq: o for o in (*known.operations, call)}
            members[its[0]] = replace(known, operations=tuple(calls[n] for n in sorted(calls)))


def _transfers(member: Member) -> bool:
    """Whether it waits in a send or receive, or in a coalesced call that may be of these: they are
    counted as well, and not all ranks have any.
    """
    return any(call.name in ("send", "recv", "coalesced") for call in member.operations)


def _further(known: Member, new: Member) -> Member:
    ahead = max(known, new, key=lambda m: (m.launched, m.completed))
    return replace(ahead, world_rank=max(known.world_rank, new.world_rank))


def _numbers(text: str) -> list[int]:
    """Ranks of a list such as ``1, 2`` or ``3,5-7``.

    >>> _numbers("[3,5-7]")
    [3, 5, 6, 7]
    """
    found: list[int] = []
    for first, last in re.findall(r"(\d{1,7})(?:-(\d{1,7}))?", text):
        low, high = int(first), int(last or first)
        found += range(low, min(high, low + MAX_RANK, MAX_RANK) + 1) if high - low < 65536 else ()
    return found


class Cancelled(NamedTuple):
    """The scheduler ended the job."""

    why: str
    time_ns: int
    origin: str


def before_the_end(hits: Sequence[Hit]) -> Sequence[Hit]:
    """The lines up to the one in which the scheduler ends the job; where it ends a
    job, others fail for that.

    Other logs count by time.
    """
    end = next((i for i, h in enumerate(hits) if h.name == "slurm_cancel"), None)
    if end is None:
        return hits
    last = hits[end]
    others = [
        h
        for h in hits[end + 1 :]
        if h.origin != last.origin
        and (not h.time_ns or not last.time_ns or h.time_ns <= last.time_ns)
    ]
    return [*hits[: end + 1], *others]


@dataclass(frozen=True, slots=True)
class Reported:
    """What lines report other than progress.

    ``began_ns``: when the first rank began to wait, 0 where no line has it.
    ``victims``: how many ranks reported that they wait.
    """

    clues: tuple[Clue, ...]
    cancelled: Cancelled | None = None
    began_ns: int = 0
    victims: int = 0
    operation: str = ""
    sequence: int = -1


def reported(hits: Sequence[Hit], identities: Identities) -> Reported:
    """What the lines report, in their order."""
    clues = [*_processes(hits, identities), *_ranks(hits, identities), *_init(hits, identities)]
    cancelled = next((h for h in hits if h.name == "slurm_cancel"), None)
    waits = [h for h in hits if h.name == "wd_timeout"]
    first = min(waits, key=lambda h: h.number("seq"), default=None)
    waiters = {h.world_rank for h in waits if h.world_rank >= 0} or {h.number("r") for h in waits}
    if first:
        clues.append(
            Clue(
                "log",
                f"{len(waiters)} rank(s) waited until the watchdog timed out: victims",
                ref=first.origin,
            )
        )
    return Reported(
        tuple(clues),
        Cancelled(cancelled.fields.get("why", ""), cancelled.time_ns, cancelled.origin)
        if cancelled
        else None,
        min((h.time_ns - h.number("ran", 0) * 10**6 for h in waits if h.time_ns), default=0),
        len(waiters),
        first.fields.get("op", "").lower() if first else "",
        first.number("seq") if first else -1,
    )


def _processes(hits: Sequence[Hit], identities: Identities) -> Iterator[Clue]:
    """The process that ended first of its own accord: those after it, and those that
    others ended, follow from it.
    """
    # Hydra of Intel MPI names each process, in order of rank; those that it killed itself among
    # them. Of MPICH it is the first that ended, however it did.
    hydra = [hit for hit in hits if hit.name == "hydra"]
    of_own = (hit for hit in hydra if _code(hit) not in (*FOLLOW_UPS, *KILLED))
    first = next(of_own, hydra[0] if hydra else None)
    ended = [
        (hit, *found)
        for hit in hits
        if (hit.name != "hydra" or hit is first) and (found := _ended(hit)) is not None
    ]
    if all(hit.time_ns for hit, *_ in ended):
        ended.sort(key=lambda one: one[0].time_ns)  # logs of several nodes come in any order
    for hit, who, text in ended[:1]:
        yield Clue(
            "launcher",
            text,
            GONE,
            RankTarget(identities.find(who)),
            "process_lost",
            hit.origin,
            time_ns=hit.time_ns,
        )


def _code(hit: Hit) -> int:
    """Exit code of a process, or the signal that ended it, below zero."""
    return -hit.number("sig") if "sig" in hit.fields else hit.number("code", 0)


def _ended(hit: Hit) -> tuple[Who, str] | None:
    """Which process a launcher names, and how it ended; None where others ended it, or where the
    line is no launcher's.
    """
    if hit.name == "srun":
        if _FOLLOW_UP_WORDS.search(hit.fields["why"]):
            return None
        ranks = _numbers(hit.fields["t"])
        who = Who(rank=ranks[0] if ranks else -1, host=hit.fields["node"])
        return who, f"task {hit.fields['t']} on {who.host} ended first: {hit.fields['why']}"
    if hit.name == "mpi_abort":
        who = Who(hit.number("rank"))
        return who, f"rank {who.rank} called MPI_Abort, with {hit.fields['code']}"
    code = _code(hit)
    if code in FOLLOW_UPS:
        return None
    how = f"by signal {-code}" if "sig" in hit.fields else f"with exit code {code}"
    if hit.name == "elastic":
        who = Who(host=hit.host, pid=hit.number("pid"))
        return who, f"process {who.pid} (local rank {hit.fields['lr']}) ended first, {how}"
    if hit.name == "mpi":
        who = Who(hit.number("rank"), hit.fields["node"], hit.number("pid"))
        return who, f"rank {who.rank} on {who.host} ended first, {how}"
    if hit.name == "mpi_exit":
        who = Who(hit.number("rank"))
        return who, f"rank {who.rank} ended first, {how}"
    if hit.name == "hydra":
        who = Who(hit.number("rank"), hit.fields["node"], hit.number("pid"))
        return who, f"process {who.pid} on {who.host} ended first, {how}"
    return None


def _ranks(hits: Sequence[Hit], identities: Identities) -> Iterator[Clue]:
    """Lines in which a rank reports about itself, or that name one."""
    alone = _stuck_alone(hits)
    for hit in hits:
        who = Who(hit.world_rank, hit.host, hit.pid, hit.gpu)
        number = identities.find(who) if hit.blame == "reporter" and who != NOBODY else -1
        if hit.name in ("cuda", "cuda_error"):
            yield _cuda(hit, RankTarget(number) if number >= 0 else None)
        elif hit.name in ("wd_stuck", "gil"):
            text = (
                "its watchdog was stuck in a CUDA call"
                if hit.name == "wd_stuck"
                else "its interpreter lock was held"
            )
            if number >= 0 and _reporter(hit) in alone:
                yield Clue("log", text, STUCK_PROCESS, RankTarget(number), "host_hang", hit.origin)
            else:
                name = who.words() if number >= 0 else "a rank that its line does not name"
                yield Clue("log", f"{name}: {text}", ref=hit.origin)
        elif hit.name == "desync_never":
            for rank in _numbers(hit.fields["ranks"])[:64]:
                target = RankTarget(identities.of_world_rank(rank))
                yield Clue(
                    "log",
                    f"PyTorch names rank {rank} as lagging",
                    BEHIND["log"],
                    target,
                    "host_hang",
                    hit.origin,
                )
        elif hit.name == "xid" and (entry := xid_entry(hit.number("xid"))) and stops_a_rank(entry):
            who = Who(host=hit.host, pid=hit.number("pid"))
            text = f"XID {entry.code} of the GPU at {hit.fields['bdf']}: {entry.description}"
            at = RankTarget(identities.find(who)) if who.pid >= 0 else None
            yield Clue(
                "kernel", text, FATAL_XID, at, "hardware_fault", hit.origin, time_ns=hit.time_ns
            )
        elif hit.name == "segv":
            who = Who(host=hit.host, pid=hit.number("pid"))
            text = f"process {who.pid} crashed in {hit.fields['lib']}"
            yield Clue(
                "kernel", text, GONE, RankTarget(identities.find(who)), "process_lost", hit.origin
            )
        elif hit.name in ("mixed_nccl", "nvls", "verbs_call", "last_error"):
            yield Clue("log", hit.text, ref=hit.origin)


def _reporter(hit: Hit) -> tuple[int, str, int]:
    return hit.world_rank, hit.host, hit.pid


def _stuck_alone(hits: Sequence[Hit]) -> set[tuple[int, str, int]]:
    """Ranks that are stuck outside of a collective while most of those that wrote are not. One that
    timed out itself is a victim, which is stuck in giving up; at the end of a job all may be.
    """
    stuck = {_reporter(h) for h in hits if h.name in ("wd_stuck", "gil")}
    stuck -= {_reporter(h) for h in hits if h.name == "wd_timeout"}
    writers = {_reporter(h) for h in hits if h.world_rank >= 0 or h.pid >= 0}
    return stuck if len(stuck) == 1 or 2 * len(stuck) < len(writers) else set()


def _cuda(hit: Hit, target: RankTarget | None) -> Clue:
    """A CUDA call that failed: the GPU's fault, the program's, or one that an XID decides."""
    text, fault = f"a CUDA call failed: {hit.fields['err']}", fault_of(hit.fields["err"])
    if fault == "software":
        return Clue("log", f"{text}: an error of the program", ref=hit.origin)
    return Clue(
        "log",
        text if fault == "hardware" else f"{text}: of the GPU only with an XID",
        OWN_ERROR,
        target,
        "hardware_fault",
        hit.origin,
        firm=fault == "hardware",
    )


FATAL = frozenset(("hw-fatal", "hw-reset", "ecc"))  # categories of the XID table that stop a rank


def stops_a_rank(entry: XidEntry) -> bool:
    """Whether an XID explains that a rank stopped: not one that only records what was repaired or
    corrected (63, 92).
    """
    return entry.category in FATAL and entry.level != "record"


def _init(hits: Sequence[Hit], identities: Identities) -> Iterator[Clue]:
    """Communicators that began to be made and did not get done while the log went on."""
    begun: dict[tuple[str, int, str], Hit] = {}
    latest = max((h.time_ns for h in hits), default=0)
    for hit in hits:
        if hit.name == "comm_life":
            key = (hit.host, hit.pid, hit.fields["comm"])
            if hit.fields["what"] == "Init START":
                begun[key] = hit
            else:
                begun.pop(key, None)
    waiting = [h for h in begun.values() if h.time_ns and latest - h.time_ns >= INIT_PATIENCE_NS]
    # Ranks of the largest communicator are those of the job; of a smaller one they are its own.
    largest = max((h.number("nranks") for h in hits if h.name == "comm_life"), default=0)
    for commid in sorted({h.fields.get("commid", "") for h in waiting}):
        those = [h for h in waiting if h.fields.get("commid", "") == commid]
        there, size = {h.number("rank") for h in those}, those[0].number("nranks")
        text = (
            f"{len(there)} of {size} ranks began to create communicator {commid} "
            "and have not finished"
        )
        yield Clue("log", text, 0.0, None, "init_hang", those[0].origin)
        if len(there) > size // 2:
            for rank in [r for r in range(size) if r not in there][:8]:
                of_job = size == largest
                yield Clue(
                    "log",
                    f"rank {rank}{'' if of_job else f' of communicator {commid}'} never began to",
                    LEFT_OUT if of_job else 0.0,
                    RankTarget(identities.find(Who(rank))) if of_job else None,
                    "init_hang",
                    those[0].origin,
                )


LEFT_OUT = 0.5  # a rank whose log was not given looks the same

"""Codes that come back: on one GPU they indicate the GPU, on many GPUs of a job the program."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator

from detectors.xid.burst import Suspicion, is_application
from detectors.xid.history import DAY_NS, GAP_NS, WEEK_NS, History, Past
from pipeline.frame import Device
from pipeline.xid.table import xid_entry

REPEATED = "xid/repeated"
# Bursts in 24 hours (NVIDIA's advice: a program's XID that comes back on one GPU is to be
# diagnosed; five of a fatal code go to support).
SUSPECT, FATAL_TOO_OFTEN, PAGE_BURSTS = 2, 5, 5
# as many bursts as this on a GPU for each that others had, and none of them is by chance
OTHERS = 2
BY_CHANCE = 0.05  # of a job whose program fails here and there: some GPU of it is struck as often
BOOTS = 3  # the same code in three boots, so after two reboots
# For the record once, a ticket the second time (93: after another driver load).
SECOND_TIME = frozenset({93, 147, 148, 157, 161})
SM_EXCEPTION, MMU_FAULT = 13, 31


def suspicion_of(
    device: Device, past: Past, history: History, now_ns: int, suspects: Container[Device] = ()
) -> Suspicion | None:
    """Suspicion from the last day and week about a code that a GPU has shown again; None where
    there is no evidence against the GPU.

    ``suspects``: GPUs that are known to repeat programs' codes; what they had
    does not exonerate this one.
    """
    if is_application(past.code):
        return _program(device, past, history, now_ns, suspects)
    day = [p for p in history.of(device, now_ns, DAY_NS) if p.code == past.code]
    week = [p for p in history.of(device, now_ns, WEEK_NS) if p.code == past.code]
    if (
        past.code in SECOND_TIME
        and len(week) >= SUSPECT
        and (past.code != 93 or len({p.epoch for p in week}) > 1)
    ):
        return Suspicion(
            past.code,
            "ticket",
            "CONTACT_SUPPORT",
            f"XID {past.code} again on this GPU.",
            f"{len(week)} bursts in 7 days",
        )
    if xid_entry(past.code).level != "page":
        return None
    boots = {p.epoch.partition("/")[0] for p in week}
    if len(day) >= FATAL_TOO_OFTEN:
        summary = f"XID {past.code} recurs on this GPU: contact vendor support."
        return Suspicion(
            past.code, "page", "CONTACT_SUPPORT", summary, f"{len(day)} bursts in 24 h"
        )
    if len(boots) >= BOOTS:
        summary = f"XID {past.code} came back after two reboots: inspect the hardware."
        return Suspicion(
            past.code,
            "page",
            "RUN_FIELDDIAG",
            summary,
            f"{len(week)} bursts in {len(boots)} boots within 7 days",
        )
    if len(week) >= SUSPECT:
        summary = (
            f"XID {past.code} recurred within a week: the action taken did not fix it. "
            "Contact vendor support."
        )
        return Suspicion(
            past.code, "page", "CONTACT_SUPPORT", summary, f"{len(week)} bursts in 7 days"
        )
    return None


def too_often(device: Device, history: History, now_ns: int) -> bool:
    """Whether a GPU showed one fatal code again and again within a day: then a reset that seems to
    have helped proves little.
    """
    day = Counter(
        p.code for p in history.of(device, now_ns, DAY_NS) if xid_entry(p.code).level == "page"
    )
    return any(bursts >= FATAL_TOO_OFTEN for bursts in day.values())


def by_chance(bursts: int, others: int, size: int) -> float:
    """How many GPUs of a job would have as many bursts as one has, if each struck any of them: C(m,
    k) n^(1 - k), the birthday problem.

    >>> by_chance(2, 1, 8), round(by_chance(2, 1, 168), 3), by_chance(5, 4, 360) < 1e-7
    (0.375, 0.018, True)
    """
    return math.comb(bursts + others, bursts) * float(size) ** (1 - bursts)


def _program(
    device: Device, past: Past, history: History, now_ns: int, suspects: Container[Device]
) -> Suspicion | None:
    """Codes of programs are evidence against a GPU that alone had them, again and again: 13 on one
    unit, the rest far more than others, and in more than one program where each job has this GPU
    only.
    """
    if sum(_alike(p, past) for p in history.of(device, now_ns, DAY_NS)) < SUSPECT:
        return None
    alone = [(gpu, p) for gpu, p in _alone(history, now_ns) if _alike(p, past)]
    bursts = [p for gpu, p in alone if gpu == device]
    if len(bursts) < SUSPECT:
        return None
    only = all(p.size == 1 for p in bursts)  # no other GPU of the job could be struck
    if past.code != SM_EXCEPTION and only and len({p.program for p in bursts}) < SUSPECT:
        return None
    jobs = {p.job for p in bursts}
    near = [
        gpu
        for gpu, p in alone
        if gpu != device
        and gpu not in suspects
        and (gpu.host == device.host or p.job in jobs - {""})
    ]
    rare = (
        jobs == {past.job}
        and past.size > 1
        and by_chance(len(bursts), len(near), past.size) <= BY_CHANCE
    )
    if past.code != SM_EXCEPTION and len(bursts) <= OTHERS * len(near) and not rare:
        # a program that fails now here, now there returns to a GPU by chance;
        # to one unit of it hardly
        return None
    shared = [p.job for p in bursts if p.size > 1]
    # one program that is started again proves nothing
    page = len(shared) >= PAGE_BURSTS and len(set(shared)) > 1
    words = f"{len(bursts)} bursts in 24 h" + (f", always on {past.place}" if past.place else "")
    words += f", {len(near)} on other GPUs of its node{' and jobs' if past.job else ''}" + (
        f", {len(jobs)} jobs" if past.job else ""
    )
    summary = (
        f"Application XID {past.code} recurs on this GPU far more than on others: run diagnostics."
    )
    return Suspicion(past.code, "page" if page else "ticket", "RUN_DCGMEUD", summary, words)


def _alone(history: History, now_ns: int) -> Iterator[tuple[Device, Past]]:
    """Bursts of programs' codes within a day that one GPU of a job had, and
    no other at the same time.
    """
    sources: dict[tuple[str, int], list[tuple[Device, Past]]] = {}
    for gpu in history.devices():
        for p in history.of(gpu, now_ns, DAY_NS):
            if is_application(p.code):
                sources.setdefault((_source(gpu, p), p.code), []).append((gpu, p))
    for bursts in sources.values():
        episode: list[tuple[Device, Past]] = []
        lasted = 0
        for gpu, p in sorted(bursts, key=lambda burst: burst[1].first_ns):
            if episode and p.first_ns - lasted >= GAP_NS:
                yield from _if_alone(episode)
                episode = []
            episode.append((gpu, p))
            lasted = max(lasted, p.last_ns)
        yield from _if_alone(episode)


def _if_alone(episode: list[tuple[Device, Past]]) -> list[tuple[Device, Past]]:
    return episode if len({gpu for gpu, _ in episode}) == 1 else []


def _source(gpu: Device, p: Past) -> str:
    """Whose program it was: the job's, where jobs are known, else the host's."""
    return f"job {p.job}" if p.job else f"host {gpu.host}"


def _alike(p: Past, past: Past) -> bool:
    """Whether a burst counts beside another: of 13 on the same unit, of 31, or of
    any other code of programs.
    """
    if past.code == SM_EXCEPTION:
        return p.code == past.code and p.place == past.place != ""
    return p.code == past.code or (
        past.code != MMU_FAULT
        and p.code not in (SM_EXCEPTION, MMU_FAULT)
        and is_application(p.code)
    )

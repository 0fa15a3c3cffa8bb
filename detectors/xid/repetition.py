"""Codes that come back: on one GPU they speak against it, on many GPUs of a job against the program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from detectors.xid.burst import is_application
from detectors.xid.history import DAY_NS, WEEK_NS, History, Past
from pipeline.finding import Action, Severity
from pipeline.frame import Device
from pipeline.xid import xid_entry

REPEATED = "xid/repeated"
# Bursts in 24 hours (NVIDIA's advice: a program's XID that comes back on one GPU is to be diagnosed; five of a fatal code go to support).
SUSPECT, FATAL_TOO_OFTEN, PAGE_BURSTS = 2, 5, 5
OTHERS = 2  # GPUs of the same job with the same code: then it is the program
BOOTS = 3  # the same code in three lives of the machine, so after two reboots
SECOND_TIME = frozenset({93, 157, 161})  # for the record once, a ticket the second time (93: in another life of the driver)
SM_EXCEPTION, MMU_FAULT = 13, 31


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What repetition adds to a burst. ``action`` and ``severity`` are at least these; ``words`` say why."""

    severity: Severity
    action: Action
    summary: str
    words: str


def suspicion_of(device: Device, past: Past, history: History, now_ns: int) -> Suspicion | None:
    """What the last day and week say about a code that a GPU has shown again; None where nothing speaks against the GPU."""
    if is_application(past.code):
        return _program(device, past, history, now_ns)
    day = [p for p in history.of(device, now_ns, DAY_NS) if p.code == past.code]
    week = [p for p in history.of(device, now_ns, WEEK_NS) if p.code == past.code]
    if past.code in SECOND_TIME and len(week) >= SUSPECT and (past.code != 93 or len({p.life for p in week}) > 1):
        return Suspicion("ticket", "CONTACT_SUPPORT", f"XID {past.code} again on this GPU.", f"{len(week)} bursts in 7 days")
    if xid_entry(past.code).level != "page":
        return None
    boots = {p.life.partition("/")[0] for p in week}
    if len(day) >= FATAL_TOO_OFTEN:
        summary = f"XID {past.code} comes back on this GPU again and again: vendor support."
        return Suspicion("page", "CONTACT_SUPPORT", summary, f"{len(day)} bursts in 24 h")
    if len(boots) >= BOOTS:
        summary = f"XID {past.code} came back after two reboots: inspect the hardware."
        return Suspicion("page", "RUN_FIELDDIAG", summary, f"{len(week)} bursts in {len(boots)} boots within 7 days")
    if len(week) >= SUSPECT:
        summary = f"XID {past.code} is back within a week: what was done was not the remedy. Vendor support."
        return Suspicion("page", "CONTACT_SUPPORT", summary, f"{len(week)} bursts in 7 days")
    return None


def too_often(device: Device, history: History, now_ns: int) -> bool:
    """Whether a GPU showed one fatal code again and again within a day: then a reset that seems to have helped proves little."""
    day = Counter(p.code for p in history.of(device, now_ns, DAY_NS) if xid_entry(p.code).level == "page")
    return any(bursts >= FATAL_TOO_OFTEN for bursts in day.values())


def others_of(device: Device, past: Past, history: History, now_ns: int) -> int:
    """How many other GPUs of the same job, where jobs are known, else of the same host, showed the same code within a day."""

    def same(p: Past, other: Device) -> bool:
        return p.code == past.code and (p.job == past.job if past.job else other.host == device.host)

    return sum(any(same(p, other) for p in history.of(other, now_ns, DAY_NS)) for other in history.devices() if other != device)


def _program(device: Device, past: Past, history: History, now_ns: int) -> Suspicion | None:
    """Codes of programs: 13 speaks against one unit, 31 only where no other GPU has it, the rest where fewer than two have."""
    bursts = [p for p in history.of(device, now_ns, DAY_NS) if _alike(p, past)]
    others = others_of(device, past, history, now_ns)
    if len(bursts) < SUSPECT or others >= (1 if past.code == MMU_FAULT else OTHERS):
        return None
    jobs = {p.job for p in bursts}
    page = len(bursts) >= PAGE_BURSTS and (len(jobs) > 1 or jobs == {""})  # one program that is started again proves nothing
    words = f"{len(bursts)} bursts in 24 h" + (f", always on {past.place}" if past.place else "")
    words += f", {others} other GPUs of its {'job' if past.job else 'node'}" + (f", {len(jobs)} jobs" if past.job else "")
    summary = f"XID {past.code} of programs comes back on this GPU and not on others: diagnose it."
    return Suspicion("page" if page else "ticket", "RUN_DCGMEUD", summary, words)


def _alike(p: Past, past: Past) -> bool:
    """Whether a burst counts beside another: of 13 on the same unit, of 31, or of any other code of programs."""
    if past.code == SM_EXCEPTION:
        return p.code == past.code and p.place == past.place != ""
    return p.code == past.code or (past.code != MMU_FAULT and p.code not in (SM_EXCEPTION, MMU_FAULT) and is_application(p.code))

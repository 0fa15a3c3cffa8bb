"""Codes that come together have one cause: what a burst on one GPU means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from detectors.kit.findings import RANK
from detectors.xid.meaning import ARBITER, MEMORY, TEARDOWN, Meaning
from detectors.xid.nvlink5 import CODES as NVLINK5
from pipeline.clock import SECOND_NS
from pipeline.finding import Action, Severity
from pipeline.xid.table import xid_entry

GAP_NS = 180 * SECOND_NS  # a burst is over after three minutes of silence on the node
# XID 48 waits so long for the codes that say whether the error was contained
DECIDE_NS = 10 * SECOND_NS
DECIDED_NS = 60 * SECOND_NS  # by then it was asked again
UNCORRECTABLE = 48
MAX_CODES = 64  # of one burst on one GPU; what comes beyond is counted
UNCONTAINED = frozenset({64, 79, 95, 140})
NVLINK = frozenset({74, *NVLINK5})
APPLICATION, MEMORY_FAULT, LINK_FAULT, GPU_FAULT = (
    "xid/application",
    "xid/memory",
    "xid/nvlink",
    "xid/gpu",
)


@dataclass(slots=True)
class Seen:
    """One code in one burst of one GPU.

    Times: ``first_ns`` unix, ``at_ns`` of arrival on the detector's clock.
    """

    code: int
    count: int
    first_ns: int
    at_ns: int
    meaning: Meaning
    text: str = ""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What the repetition of a code adds to a burst.

    ``action`` and ``severity`` are at least these; ``words`` say why.
    """

    code: int
    severity: Severity
    action: Action
    summary: str
    words: str


@dataclass(slots=True)
class Burst:
    """The codes of one GPU in one burst of its node.

    ``fault`` and ``reported`` are fault and summary of its finding, empty until then.

    ``suspect``: the GPU is the root cause, and not the program. ``suspicion``: a code of the
    hardware is back. ``job`` held the GPU as it began. ``last_ns`` is of the last code, on the
    detector's clock.
    """

    seen: dict[int, Seen] = field(default_factory=dict)
    dropped: int = 0
    fault: str = ""
    reported: str = ""
    suspect: bool = False
    suspicion: Suspicion | None = None
    job: str = ""
    last_ns: int = 0

    def add(self, seen: Seen) -> None:
        """Count a code; its most serious meaning stays."""
        self.last_ns = max(self.last_ns, seen.at_ns)
        known = self.seen.get(seen.code)
        if known is not None:
            known.count += seen.count
            if RANK[seen.meaning.severity] > RANK[known.meaning.severity]:
                known.meaning, known.text = seen.meaning, seen.text
        elif len(self.seen) < MAX_CODES:
            self.seen[seen.code] = seen
        else:
            self.dropped += seen.count

    def undecided(self, now_ns: int) -> bool:
        """Whether time alone may decide: nothing was reported, or 48 has waited recently for the
        code that shows whether it was contained.
        """
        waits = self.seen.get(UNCORRECTABLE)
        return not self.fault or (waits is not None and now_ns - waits.at_ns <= DECIDED_NS)

    @property
    def first_ns(self) -> int:
        """Unix time of its first code."""
        return min(seen.first_ns for seen in self.seen.values())

    def evidence(self) -> tuple[str, ...]:
        """Every code in the order it came, with its number and details;
        then the line of the first.
        """
        codes = []
        for seen in sorted(self.seen.values(), key=lambda s: s.first_ns):
            times = f" x{seen.count}" if seen.count > 1 else ""
            details = f" ({seen.meaning.words})" if seen.meaning.words else ""
            codes.append(f"XID {seen.code}{times}: {xid_entry(seen.code).description}{details}")
        lines = [
            seen.text
            for seen in sorted(self.seen.values(), key=lambda s: -RANK[s.meaning.severity])
            if seen.text
        ]
        return (
            *codes,
            *([f"{self.dropped} XIDs of further codes"] if self.dropped else []),
            *lines[:1],
        )


@dataclass(frozen=True, slots=True)
class BurstDiagnosis:
    """What a burst means now: the code that leads it, and how serious it is."""

    lead: int
    severity: Severity
    action: Action
    fault: str


def is_application(code: int) -> bool:
    """Whether a program, not the GPU, is the likely cause."""
    return xid_entry(code).category == "app"


def read(
    burst: Burst, now_ns: int, *, closed: bool, others: Iterable[int]
) -> BurstDiagnosis | None:
    """What the codes of a burst say together; None where they say nothing (yet).

    ``others`` are codes of the node's other GPUs.

    A code that only follows (45, and programs that fail on a broken GPU) never leads beside one
    that explains it. 154 decides how serious a burst is, never what it is about, unless it is
    alone.
    """
    codes = set(burst.seen)
    candidates = [r for code in codes if (r := _of(code, burst, codes, now_ns)) is not None]
    if codes == {TEARDOWN}:
        solo = closed and not set(others) - {TEARDOWN}
        return BurstDiagnosis(TEARDOWN, "ticket", "RESTART_APP", APPLICATION) if solo else None
    hardware = [r for r in candidates if r.fault != APPLICATION]
    serious = [r for r in hardware if RANK[r.severity] > 0]
    leads = serious or [r for r in candidates if r.fault == APPLICATION] or hardware
    if not leads:
        return None
    lead = max(leads, key=lambda r: (r.lead != ARBITER, RANK[r.severity], _weight(r.lead), -r.lead))
    arbiter = burst.seen.get(ARBITER)
    if arbiter is not None and lead.fault != APPLICATION:
        asks = arbiter.meaning
        graver = RANK[asks.severity] > RANK[lead.severity]
        # A reset does not repair what the driver wants a reboot for.
        reboots = asks.action == "RESTART_BM" and lead.action == "COMPONENT_RESET"
        if graver or (reboots and asks.severity == lead.severity):
            return BurstDiagnosis(lead.lead, asks.severity, asks.action, lead.fault)
    return lead


def _of(code: int, burst: Burst, codes: set[int], now_ns: int) -> BurstDiagnosis | None:
    """One code beside the others."""
    seen = burst.seen[code]
    severity, action = seen.meaning.severity, seen.meaning.action
    if code == TEARDOWN:
        return None
    if is_application(code):
        return BurstDiagnosis(code, severity, action, APPLICATION)
    if code == UNCORRECTABLE and not codes & UNCONTAINED:
        if 94 in codes:
            return BurstDiagnosis(code, "ticket", "RESTART_APP", MEMORY_FAULT)
        if now_ns - seen.at_ns < DECIDE_NS:
            return None
    fault = MEMORY_FAULT if code in MEMORY else LINK_FAULT if code in NVLINK else GPU_FAULT
    return BurstDiagnosis(code, severity, action, fault)


def _weight(code: int) -> int:
    """Among codes that are equally serious: what is gone from the bus explains all, and a lost
    remap more than its error.
    """
    return {79: 3, 64: 2, 95: 2, 140: 2, 94: 1}.get(code, 0)

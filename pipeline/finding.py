"""Finding and Incident: what a detector says about one device, and findings that share a cause."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from pipeline.frame import Device, whole_microseconds

Phase = Literal["onset", "ongoing", "cleared"]
Severity = Literal["page", "ticket", "record"]
SEVERITIES: tuple[Severity, ...] = ("record", "ticket", "page")

# The vocabulary of NVSentinel's recommendedAction (health_event.proto), so that its
# bridge needs no translation.
Action = Literal[
    "NONE",
    "COMPONENT_RESET",
    "CONTACT_SUPPORT",
    "RUN_FIELDDIAG",
    "RESTART_VM",
    "RESTART_BM",
    "REPLACE_VM",
    "RUN_DCGMEUD",
    "RESTART_APP",
    "UNKNOWN",
]


def finding_id(detector: str, device: Device, onset_ns: int) -> str:
    """Stable id of a finding: the same detector, device and onset give the same id after a restart.

    >>> finding_id("xid", Device("n1", "gpu", "GPU-1"), 5) == finding_id(
    ...     "xid", Device("n1", "gpu", "GPU-1"), 5
    ... )
    True
    """
    text = "\0".join((detector, device.host, device.kind, device.id, str(onset_ns)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Finding:
    """One detector's statement about one device.

    ``fault`` is the class of fault (ecc, xid, thermal, ...); ``onset_ns`` when the evidence began,
    ``time_ns`` when this was said, both unix, in whole microseconds. ``value`` and ``expected`` are
    in ``unit``; NaN where the fault is not a number. ``evidence`` is ordered, oldest first, in
    words with numbers. ``action`` is proposed to people and other systems; nothing here acts.
    ``times``: how often it has happened while it was open; ``again_ns``: when last, 0 for once.
    """

    detector: str
    device: Device
    fault: str
    phase: Phase
    severity: Severity
    onset_ns: int
    time_ns: int
    summary: str
    action: Action = "NONE"
    value: float = float("nan")
    expected: float = float("nan")
    unit: str = ""
    evidence: tuple[str, ...] = ()
    times: int = 1
    again_ns: int = 0

    def __post_init__(self) -> None:
        for name in ("onset_ns", "time_ns", "again_ns"):
            object.__setattr__(self, name, whole_microseconds(getattr(self, name)))

    @property
    def id(self) -> str:
        """Stable id (detector, device, onset)."""
        return finding_id(self.detector, self.device, self.onset_ns)

    def is_same(self, other: Finding) -> bool:
        """Whether both have one id. A storm asks this of a thousand: nothing is hashed."""
        mine, its = self.device, other.device
        return (
            self.onset_ns == other.onset_ns
            and self.detector == other.detector
            and (mine.host, mine.kind, mine.id) == (its.host, its.kind, its.id)
        )

    @property
    def active(self) -> bool:
        """Whether the fault still stands."""
        return self.phase != "cleared"


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings that share a cause: what people are notified of.

    ``root`` is the device to blame; ``findings`` are ids in the order of first evidence. ``reason``
    says in words why this action. ``opened_ns``, ``cleared_ns`` (0 while it is open) and
    ``acknowledged_ns`` (0 until a user did) are unix times in whole microseconds; ``note`` is
    what the acknowledging user wrote, ``acknowledged_by`` their user name. ``ended`` says why it
    is over; empty while it is open. ``jobs`` held its devices when the evidence began: a job may be
    gone since, for this very reason. ``times``: how often a fault of its root cause has happened
    while it was open; ``again_ns``: when last, 0 for once.
    """

    id: str
    root: Device
    fault: str
    severity: Severity
    action: Action
    opened_ns: int
    findings: tuple[str, ...]
    summary: str
    cleared_ns: int = 0
    reason: str = ""
    acknowledged_ns: int = 0
    note: str = ""
    acknowledged_by: str = ""
    ended: str = ""
    jobs: tuple[str, ...] = ()
    times: int = 1
    again_ns: int = 0

    def __post_init__(self) -> None:
        for name in ("opened_ns", "cleared_ns", "acknowledged_ns", "again_ns"):
            object.__setattr__(self, name, whole_microseconds(getattr(self, name)))

    @property
    def active(self) -> bool:
        """Whether it is open."""
        return not self.cleared_ns

"""What one XID means by itself: how serious it is, what to do, and what its details add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from detectors.xid import nvlink4, nvlink5
from pipeline.catalog.gpu_memory_errors import RECOVERY_ACTIONS
from pipeline.finding import Action, Severity
from pipeline.observation import Value
from pipeline.xid.table import XidEntry

NVLINK4, ARBITER, TEARDOWN = 74, 154, 45
MEMORY = frozenset({48, 63, 64, 92, 94, 95, 140, 171, 172})

# NVIDIA's immediate resolution -> the vocabulary of actions (pipeline/finding.py).
ACTIONS: Mapping[str, Action] = {
    "RESTART_BM": "RESTART_BM",
    "RESET_GPU": "COMPONENT_RESET",
    "CHECK_MECHANICALS": "CONTACT_SUPPORT",
    "RESTART_APP": "RESTART_APP",
    "IGNORE": "NONE",
    "RESTART_VM": "RESTART_VM",
    "CONTACT_SUPPORT": "CONTACT_SUPPORT",
    "UPDATE_SWFW": "CONTACT_SUPPORT",
    "CHECK_UVM": "CONTACT_SUPPORT",
    "WORKFLOW_48": "COMPONENT_RESET",
    "WORKFLOW_45": "RESTART_APP",  # the Fabric Manager
    "WORKFLOW_NVLINK": "CONTACT_SUPPORT",
    "WORKFLOW_NVLINK5": "COMPONENT_RESET",
}
# What the recovery action of XID 154 and of NVML field 230 asks for (nvml.h,
# nvmlDeviceGpuRecoveryAction_t).
RECOVERY: Mapping[int, tuple[Severity, Action]] = {
    0: ("record", "NONE"),
    1: ("page", "COMPONENT_RESET"),
    2: ("page", "RESTART_BM"),
    3: ("ticket", "CONTACT_SUPPORT"),
    4: ("page", "COMPONENT_RESET"),
    5: ("ticket", "CONTACT_SUPPORT"),
    6: ("page", "COMPONENT_RESET"),
    7: ("page", "RESTART_BM"),
}
UNKNOWN_RECOVERY: tuple[Severity, Action] = ("ticket", "CONTACT_SUPPORT")


@dataclass(frozen=True, slots=True)
class Meaning:
    """One XID on its own. ``words`` are what its details add."""

    severity: Severity
    action: Action
    words: str = ""


def recovery(action: int) -> Meaning:
    """What a recommended recovery action means.

    >>> recovery(2)
    Meaning(severity='page', action='RESTART_BM', words='the driver asks for: node reboot')
    """
    severity, proposed = RECOVERY.get(action, UNKNOWN_RECOVERY)
    name = dict(RECOVERY_ACTIONS).get(action, f"unknown action {action}")
    return Meaning(severity, proposed, f"the driver asks for: {name.replace('_', ' ')}")


def meaning(entry: XidEntry, facts: Mapping[str, Value], *, alone: bool, times: int) -> Meaning:
    """What an XID with these attributes says.

    ``alone`` and ``times`` (of this link, in a day) matter to XID 74.
    """
    action = ACTIONS.get(entry.bucket, "UNKNOWN")
    if entry.code == ARBITER:
        to = facts.get("recovery_to")
        return (
            recovery(to)
            if isinstance(to, int)
            else Meaning(*UNKNOWN_RECOVERY, "it names no recovery action")
        )
    if entry.code == NVLINK4:
        cause = nvlink4.cause_of(str(facts.get("registers", "")), alone=alone, times=times)
        severity: Severity = "page" if cause is not None and cause.hardware else "ticket"
        return Meaning(
            severity,
            action,
            _link(facts, cause.words if cause else "its registers name no hardware error"),
        )
    if entry.code in nvlink5.CODES:
        return _nvlink5(entry, facts, action)
    where = {name: facts[name] for name in ("gpc", "tpc", "sm", "gpu_instance") if name in facts}
    return Meaning(
        entry.level,
        action,
        " ".join(f"{name.replace('_', ' ')} {value}" for name, value in where.items()),
    )


def _nvlink5(entry: XidEntry, facts: Mapping[str, Value], action: Action) -> Meaning:
    unit, severity, sub_code = (
        str(facts.get("unit", "")),
        str(facts.get("severity", "")),
        facts.get("sub_code"),
    )
    sub_code = sub_code if isinstance(sub_code, int) else None
    words = str(facts.get("registers", "")).split()
    # A line with interrupt information in front has the error status second; older drivers
    # print one register only.
    status = int(words[1], 16) if sub_code is not None and len(words) > 1 else None
    outcome = nvlink5.outcome_of(entry.code, unit, severity, status, sub_code)
    if outcome is None:
        return Meaning(entry.level, action, "it could not be decoded")
    root = nvlink5.root_of(unit, sub_code)
    details = _link(
        facts,
        f"unit {unit}, sub-code {sub_code}" + (f": root cause: {root}" if root else ""),
    )
    if outcome == "reset":
        return Meaning(
            "page", "CONTACT_SUPPORT" if root == "the peer device" else "COMPONENT_RESET", details
        )
    return Meaning("record", "NONE", details)


def _link(facts: Mapping[str, Value], words: str) -> str:
    return f"NVLink {facts['link']}: {words}" if "link" in facts else words

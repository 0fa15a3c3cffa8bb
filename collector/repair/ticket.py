"""A step of a repair as an event for the store, and a case as a ticket for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from collector.repair.case import Case


def event_of(case: Case, now: float, *, helped: bool | None) -> dict[str, Any]:
    """For the agent's socket (collector/agent/operator_commands.py)."""
    known = {} if helped is None else {"helped": helped}
    return {
        "command": "repair",
        "kind": case.kind,
        "device": case.device,
        "incident": case.incident,
        "fault": case.fault,
        "step": case.step,
        "act": case.rung,
        "attempt": case.attempts,
        "note": case.note,
        "at": now,
        **known,
    }


def ticket_of(case: Case, node: str, now: float, proposal: str) -> dict[str, Any]:
    """JSON for a webhook, mail or file. ``id`` is the same whenever it is sent again."""
    return {
        "id": f"{case.incident}-{case.step}-{case.attempts}",
        "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        "node": node,
        "incident": case.incident,
        "class": case.fault,
        "kind": case.kind,
        "device": case.device,
        "name": case.name,
        "serial": case.serial,
        "action": case.action,
        "step": case.step,
        "last_act": case.rung or None,
        "attempts": case.attempts,
        "note": case.note,
        "bundle": case.bundle or None,
        "known": proposal,
        "summary": summary(case, node),
    }


def summary(case: Case, node: str) -> str:
    """One sentence with the part first.

    >>> gone = Case("5a", "gpu_lost", "gpu", "GPU-8a", "GPU 3", "16", "REPLACE_VM", "rma", 0.0)
    >>> summary(gone, "gpu07")
    'GPU 3 on gpu07 (serial 16): replace it (gpu_lost, after 0 attempts).'
    """
    serial = f" (serial {case.serial})" if case.serial else ""
    what = "replace it" if case.step == "rma" else f"repair stopped: {case.note}"
    return f"{case.name} on {node}{serial}: {what} ({case.fault}, after {case.attempts} attempts)."

"""Evidence that a part was repaired since the node was drained: another boot, another part,
another life of the same part.
"""

from __future__ import annotations

from collections.abc import Mapping

from collector.integrations.agent_client import Answer
from collector.integrations.record import Drained, key

# What undoes which proposed action (pipeline/finding.py). A part that must go is not repaired by a
# reboot, whatever it looks like after.
SUFFICES: Mapping[str, tuple[str, ...]] = {
    "COMPONENT_RESET": ("reset", "rebooted", "replaced"),
    "RUN_FIELDDIAG": ("reset", "rebooted", "replaced"),  # the burn-in check is the diagnosis
    "RUN_DCGMEUD": ("reset", "rebooted", "replaced"),
    "RESTART_VM": ("rebooted",),
    "RESTART_BM": ("rebooted",),
    "REPLACE_VM": ("replaced",),
    "CONTACT_SUPPORT": ("replaced",),
}


def evidence(record: Drained, answer: Answer) -> str:
    """What proves a repair that fits the fault, in words that another repair does not share;
    empty where nothing does.
    """
    seen = {
        "reset": _reset(record, answer),
        "rebooted": _rebooted(record, answer),
        "replaced": _replaced(record, answer),
    }
    return next((seen[kind] for kind in SUFFICES.get(record.action, ()) if seen[kind]), "")


def _rebooted(record: Drained, answer: Answer) -> str:
    if record.boot_id and answer.boot_id and record.boot_id != answer.boot_id:
        return f"the node was rebooted (boot id {record.boot_id[:8]} is now {answer.boot_id[:8]})"
    return ""


def _replaced(record: Drained, answer: Answer) -> str:
    """The part is gone, one that nobody knew has come, and none is missing."""
    before = {part for part in record.parts if part.startswith(f"{record.kind} ")} | {
        key(record.kind, record.device)
    }
    now = {key(kind, part) for kind, part in answer.parts if kind == record.kind}
    silent = set(record.silent)  # one of these that answers again fills no gap
    new = sorted(now - before - silent)
    if key(record.kind, record.device) in now or not new or len(now - silent) < len(before):
        return ""
    return f"the part was replaced ({record.device} by {new[0].partition(' ')[2]})"


def _reset(record: Drained, answer: Answer) -> str:
    """A GPU's life is a driver and a number that the agent raises at each reset it sees."""
    was, epoch = (
        record.parts.get(key(record.kind, record.device), ""),
        answer.parts.get((record.kind, record.device), ""),
    )
    before, now = _life(was), _life(epoch)
    if before is not None and now is not None and now > before:
        return f"the GPU was reset (epoch {was} is now {epoch})"
    return ""


def _life(epoch: str) -> int | None:
    _, mark, number = epoch.rpartition("#")
    return int(number) if mark and number.isdecimal() else None

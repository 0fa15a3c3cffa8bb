"""One word and one level for each device of the status document: the worse of its reading and its
findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Level = Literal["bad", "warn", "blind", "out", "note", "ok"]
WORST_FIRST: tuple[Level, ...] = ("bad", "warn", "blind", "out", "note", "ok")

HEALTH: Mapping[str, Level] = {
    "failed": "bad",
    "predicted_failure": "warn",
    "degraded": "warn",
    "ok": "ok",
}
# lost, hung, absent, unreadable: bad
GPU_STATE: Mapping[str, Level] = {"ok": "ok", "passthrough": "out", "unknown": "blind"}
PORT_STATE: Mapping[str, Level] = {
    "active": "ok",
    "active_defer": "ok",
    "init": "warn",
    "armed": "warn",
    "down": "bad",
    "absent": "bad",
}
SEVERITY: Mapping[str, Level] = {"page": "bad", "ticket": "warn", "record": "note"}


def gpu(row: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Level, str]:
    """Of a GPU.

    >>> row = {"id": "G", "state": "hung", "health": "ok", "fresh": True}
    >>> gpu(row, {"maintenance": [], "findings": []})
    ('bad', 'hung')
    """
    level = GPU_STATE.get(row["state"], "bad")
    return _device(row, (level, row["state"]), document)


def port(row: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Level, str]:
    """Of a port. One that is not expected to be active may be down.

    >>> row = {"id": "P", "state": "down", "health": "ok", "fresh": True, "expected": True}
    >>> (
    ...     port(row, {"maintenance": [], "findings": []}),
    ...     port(row | {"expected": False}, {"maintenance": [], "findings": []}),
    ... )
    (('bad', 'down'), ('note', 'down, not expected up'))
    """
    level = PORT_STATE.get(row["state"], "blind")
    if level in ("warn", "bad") and row["expected"] is False:
        return _device(row, ("note", f"{row['state']}, not expected up"), document)
    return _device(row, (level, row["state"]), document)


def _device(
    row: Mapping[str, Any], state: tuple[Level, str], document: Mapping[str, Any]
) -> tuple[Level, str]:
    if any(out["device"] == row["id"] for out in document["maintenance"]):
        return "out", "out of service"
    levels: list[tuple[Level, str]] = [
        state,
        (HEALTH[row["health"]], row["health"].replace("_", " ")),
    ]
    if not row["fresh"] and state[0] != "out":
        levels.append(("blind", "not read"))
    levels += [
        (_found(finding, row), "has findings")
        for finding in document["findings"]
        if f"{finding['device']}/".startswith(f"{row['id']}/")
    ]
    return min(levels, key=lambda one: WORST_FIRST.index(one[0]))


def _found(finding: Mapping[str, Any], row: Mapping[str, Any]) -> Level:
    """Health says how bad the device's own findings are; it has none of an NVLink or an instance,
    whose ids begin with that of their GPU.
    """
    return "note" if finding["device"] == row["id"] else SEVERITY[finding["severity"]]

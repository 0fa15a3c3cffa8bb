"""The objects that are written: a NodeCondition and an Event of core/v1, made from the verdict."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

TYPE = "TocsinGpuProblem"  # ours alone, in node-problem-detector's polarity: True is a problem
TAINT = "tocsin/drained"  # of a node that `tocsin repair` has drained
STATUS = {"ok": "False", "problem": "True", "unknown": "Unknown"}
MAX_MESSAGE = 1000  # an Event's note may have 1024 (events.k8s.io/v1)
MAX_NAME = 253


def condition(
    verdict: Mapping[str, Any], now: str, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    """``before`` is what the Node says: its transition time stays while the status does.

    A ticket is no problem of the node's, yet.
    """
    state, severity = verdict["verdict"], verdict["severity"]
    status = "False" if state == "problem" and severity != "page" else STATUS[state]
    same = before is not None and before.get("status") == status
    return {
        "type": TYPE,
        "status": status,
        "reason": _reason(verdict),
        "message": str(verdict["reason"])[:MAX_MESSAGE],
        "lastHeartbeatTime": now,
        "lastTransitionTime": str(before.get("lastTransitionTime") or now)
        if same and before
        else now,
    }


def event(incident: Mapping[str, Any], node: str, now: str, *, over: bool) -> dict[str, Any]:
    """One Event per incident, gravity, part and phase: its name says which, so that writing it
    again after a restart is a conflict and no second one.
    """
    phase = f"{incident['severity']}-{_digest(incident)}-{'cleared' if over else 'opened'}"
    name = f"{node}.tocsin-{incident['id']}-{phase}"
    serial = f" (serial {incident['serial']})" if incident.get("serial") else ""
    said = f"{incident['name']}{serial}: {incident['summary']} Proposed: {incident['action']}."
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": re.sub(r"[^a-z0-9.-]", "-", name.lower())[:MAX_NAME],
            "namespace": "default",
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": node,
            "uid": node,
        },  # as the kubelet's own Events about nodes
        "type": "Normal" if over else "Warning",
        "reason": f"{_camel(incident['class'])}{'Cleared' if over else ''}",
        "message": said[:MAX_MESSAGE],
        "source": {"component": "tocsin", "host": node},
        "reportingComponent": "tocsin",
        "reportingInstance": node,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _reason(verdict: Mapping[str, Any]) -> str:
    if verdict["verdict"] == "unknown":
        return "TocsinBlind"
    pages = [incident for incident in verdict["incidents"] if incident["severity"] == "page"]
    return (
        _camel(pages[0]["class"]) if verdict["verdict"] == "problem" and pages else "NoGpuProblem"
    )


def _digest(incident: Mapping[str, Any]) -> str:
    """Which part is blamed, short enough for a name."""
    return hashlib.blake2b(
        f"{incident['kind']} {incident['device']}".encode(), digest_size=4
    ).hexdigest()


def _camel(fault: str) -> str:
    """A class of fault as conditions spell reasons.

    >>> _camel("ecc/row_remap_failure")
    'EccRowRemapFailure'
    """
    return (
        "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", fault))
        or "GpuProblem"
    )

"""A step of `tocsin repair`, as an event of the store."""

from __future__ import annotations

from typing import Any

from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

MAX_UNIX_S, MAX_TEXT = 1 << 33, 1000
KINDS = frozenset({"node", "gpu", "gpu_instance", "nvlink", "nvswitch", "ib_port"})
TEXTS = ("incident", "fault", "step", "act", "note", "user")


def repair_event(request: dict[str, Any], node: Device, now: Instant) -> Event:
    """About the part, which may be gone from the node by now. ValueError where it is none."""
    kind, name = request.get("kind"), request.get("device")
    if kind not in KINDS or not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT:
        raise ValueError(f"kind, device: no device of a node: {kind!r} {name!r}")
    at, attempt, helped = (request.get(key) for key in ("at", "attempt", "helped"))
    if not isinstance(at, int | float) or not 0 <= at < MAX_UNIX_S:
        raise ValueError(f"at: expected unix seconds, got {at!r}")
    attributes: dict[str, Value] = {"at_ns": int(at * SECOND_NS)}
    attributes |= {key: str(request[key])[:MAX_TEXT] for key in TEXTS if request.get(key)}
    attributes |= {"attempt": attempt} if isinstance(attempt, int) else {}
    attributes |= {"helped": helped} if isinstance(helped, bool) else {}
    return Event(*now, Device(node.host, str(kind), name), "repair_step", attributes)

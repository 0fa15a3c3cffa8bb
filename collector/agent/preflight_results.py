"""Results of `tocsin preflight` as events: checked, for all who may write to the agent's socket may
have made an error.
"""

from __future__ import annotations

import math
from typing import Any

from collector.agent.request_text import request_text
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

MAX_RESULTS = 512
OUTCOMES, LEVELS = ("ok", "problem", "unknown"), ("quick", "standard", "deep")
SEVERITIES = ("", "page", "ticket")


def preflight_events(request: dict[str, Any], node: Device, at: Instant) -> tuple[Event, ...]:
    """One of the result, one of each measurement. ValueError names the key that is wrong."""
    known = {"outcome": OUTCOMES, "level": LEVELS, "severity": SEVERITIES}
    facts: dict[str, Value] = {}
    for key, words in known.items():
        if request.get(key) not in words:
            raise ValueError(f"{key}: expected {' or '.join(filter(None, words))}")
        facts[key] = request[key]
    for key in ("reason", "failed"):
        facts[key] = request_text(request, key)
    facts["seconds"] = _number(request, "seconds")
    results = request.get("measured", [])
    if not isinstance(results, list) or len(results) > MAX_RESULTS:
        raise ValueError(f"measured: expected at most {MAX_RESULTS} results")
    shown = {key: value for key, value in facts.items() if value != ""}
    return (
        Event(*at, node, "preflight", shown),
        *(_measured(one, node, at) for one in results),
    )


def _measured(one: object, node: Device, at: Instant) -> Event:
    if not isinstance(one, dict):
        raise ValueError("measured: expected objects")  # noqa: TRY004 - the client is wrong, not a caller
    name = request_text(one, "device")
    device = node if name == node.id else Device(node.host, "gpu", name)
    facts: dict[str, Value] = {key: request_text(one, key) for key in ("measure", "model")}
    return Event(*at, device, "preflight_measured", facts | {"value": _number(one, "value")})


def _number(given: dict[str, Any], key: str) -> float:
    value = given.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key}: expected a number")
    return float(value)

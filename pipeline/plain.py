"""Findings and incidents as lists of plain values and back: how the write-ahead log and
snapshots write them as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import Any, get_type_hints

import orjson

from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.observation import Event, Value

FINDING_FIELDS = tuple(get_type_hints(Finding))
INCIDENT_FIELDS = tuple(get_type_hints(Incident))
AT_ONCE = 1024  # devices
# Versions before wrote none of what follows.
SINCE_0_5 = INCIDENT_FIELDS.index("ended")
SINCE_0_6 = FINDING_FIELDS.index("times"), INCIDENT_FIELDS.index("times")


def plain_device(device: Device) -> list[Any]:
    """The device; ``Device(*plain_device(d))`` is the same one."""
    return [device.host, device.kind, device.id, dict(device.attributes)]


def devices_to_json(devices: Iterable[Device]) -> bytes:
    """A list of ``plain_device`` of each: a cluster has hundreds of thousands, of which only some
    are plain values at a time.

    >>> devices_to_json(
    ...     [Device("n1", "gpu", "GPU-1", {"rack": "r1"}), Device("n1", "gpu", "GPU-2")]
    ... )
    b'[["n1","gpu","GPU-1",{"rack":"r1"}],["n1","gpu","GPU-2",{}]]'
    """
    left, parts = iter(devices), list[bytes]()
    while some := [plain_device(device) for device in islice(left, AT_ONCE)]:
        try:
            text = orjson.dumps(some)
        except TypeError:  # a name that is no UTF-8, which JSON can escape
            text = json.dumps(some, separators=(",", ":")).encode()
        parts.append(text[1:-1])
    return b"[%b]" % b",".join(parts)


def plain_value(value: Value) -> Any:
    """JSON has no NaN and no infinity: they travel as text in a one-element list.

    >>> plain_value(float("nan")), plain_value(1.5)
    (['nan'], 1.5)
    """
    return [str(value)] if isinstance(value, float) and not isfinite(value) else value


def value_from(value: Any) -> Value:
    """What ``plain_value`` was given."""
    return float(value[0]) if isinstance(value, list) else value


def plain_event(event: Event) -> list[Any]:
    """Times, device, kind and attributes of an event."""
    return [
        event.time_ns,
        event.mono_ns,
        plain_device(event.device),
        event.kind,
        {name: plain_value(value) for name, value in event.attributes.items()},
    ]


def plain(said: Finding | Incident) -> list[Any]:
    """All fields, in their order."""
    names = FINDING_FIELDS if isinstance(said, Finding) else INCIDENT_FIELDS
    values = (getattr(said, name) for name in names)
    return [
        plain_device(v)
        if isinstance(v, Device)
        else list(v)
        if isinstance(v, tuple)
        else plain_value(v)
        for v in values
    ]


def finding_from(values: list[Any]) -> Finding:
    """What ``plain`` was given. TypeError, ValueError or KeyError where it is no finding."""
    names = FINDING_FIELDS if len(values) != SINCE_0_6[0] else FINDING_FIELDS[: SINCE_0_6[0]]
    named = dict(zip(names, values, strict=True))
    named |= {"device": Device(*named["device"]), "evidence": tuple(named["evidence"])}
    named |= {name: value_from(named[name]) for name in ("value", "expected")}
    return Finding(**named)


def incident_from(values: list[Any]) -> Incident:
    """What ``plain`` was given. TypeError, ValueError or KeyError where it is no incident."""
    written = len(values) if len(values) in (SINCE_0_5, SINCE_0_6[1]) else None
    names = INCIDENT_FIELDS[:written]
    named = dict(zip(names, values, strict=True))
    lists = {name: tuple(named.get(name, ())) for name in ("findings", "jobs")}
    return Incident(**named | lists | {"root": Device(*named["root"])})

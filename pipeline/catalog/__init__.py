"""The catalogue: every name, unit and help text of the program is spelt once, here.

Collectors, exposition, store, dashboards, rules' tests and docs/reference.md are made from it. One
file per kind of device.
"""

from __future__ import annotations

from functools import cache

from pipeline.catalog import (
    agent,
    device_job,
    events,
    fleet,
    gpu,
    ib_port,
    job_group,
    nccl,
    node,
    nvlink,
    storage,
)
from pipeline.catalog.fields import (
    PROFILES,
    Dcgm,
    EventKind,
    Fact,
    Field,
    FieldType,
    Kind,
    Metric,
    Overflow,
    Profile,
)

KINDS: dict[str, Kind] = {
    k.name: k
    for k in (
        *gpu.KINDS,
        *nvlink.KINDS,
        *ib_port.KINDS,
        *node.KINDS,
        *nccl.KINDS,
        *device_job.KINDS,
        *job_group.KINDS,
        *storage.KINDS,
    )
}
FIELDS: tuple[Field, ...] = (
    *gpu.FIELDS,
    *nvlink.FIELDS,
    *ib_port.FIELDS,
    *node.FIELDS,
    *nccl.FIELDS,
    *device_job.FIELDS,
    *job_group.FIELDS,
    *storage.FIELDS,
)
FACTS: tuple[Fact, ...] = (
    *gpu.FACTS,
    *nvlink.FACTS,
    *ib_port.FACTS,
    *node.FACTS,
    *nccl.FACTS,
    *device_job.FACTS,
    *job_group.FACTS,
    *storage.FACTS,
)
EVENTS: dict[str, EventKind] = {e.name: e for e in events.EVENTS}
METRICS: tuple[Metric, ...] = (*agent.METRICS, *fleet.METRICS)


@cache
def fields_of(kind: str) -> tuple[Field, ...]:
    """All fields of a kind in catalogue order. KeyError for a kind that does not exist."""
    KINDS[kind]
    return tuple(f for f in FIELDS if f.kind == kind)


@cache
def facts_of(kind: str) -> tuple[Fact, ...]:
    """All slow facts of a kind in catalogue order."""
    KINDS[kind]
    return tuple(f for f in FACTS if f.kind == kind)


@cache
def field(kind: str, name: str) -> Field:
    """One field. KeyError where it does not exist."""
    for row in fields_of(kind):
        if row.name == name:
            return row
    raise KeyError(f"the catalogue has no field {name!r} of kind {kind!r}")


__all__ = [
    "EVENTS",
    "FACTS",
    "FIELDS",
    "KINDS",
    "METRICS",
    "PROFILES",
    "Dcgm",
    "EventKind",
    "Fact",
    "Field",
    "FieldType",
    "Kind",
    "Metric",
    "Overflow",
    "Profile",
    "facts_of",
    "field",
    "fields_of",
]

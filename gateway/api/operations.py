"""The registry: every operation of the API."""

from __future__ import annotations

from gateway.api import (
    candidates,
    ended_jobs,
    explanation,
    health,
    incidents,
    jobs,
    scheduler,
    stream,
    topology,
)
from gateway.api.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    topology.OPERATION,
    health.OPERATION,
    incidents.LIST,
    incidents.ONE,
    jobs.OPERATION,
    ended_jobs.OPERATION,
    *explanation.OPERATIONS,
    candidates.OPERATION,
    stream.OPERATION,
    scheduler.FILTER,
    scheduler.PRIORITIZE,
)

"""Panels that something points at, and their addresses. Plain values: the rules link to them without building any dashboard."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Where a site's Grafana stands: `make rules GRAFANA_URL=https://...` writes its own.
GRAFANA_URL = os.environ.get("GRAFANA_URL", "https://grafana.example.org")


@dataclass(frozen=True, slots=True)
class Place:
    """One panel: its dashboard's ``uid``, and its ``id`` there, which never changes, so that an old alert still leads to it."""

    uid: str
    id: int

    def url(self, **variables: str) -> str:
        """Address of the panel on its own, with the dashboard's variables set to texts as they stand."""
        chosen = "".join(f"&var-{name}={text}" for name, text in variables.items())
        return f"{GRAFANA_URL}/d/{self.uid}?viewPanel={self.id}{chosen}"


FLEET, NODE, GPU, FABRIC = "tocsin-fleet", "tocsin-node", "tocsin-gpu", "tocsin-fabric"
JOB, MEMORY, THERMAL, WASTE = "tocsin-job", "tocsin-memory", "tocsin-thermal", "tocsin-waste"
AGENTS, STORE, DCGM = "tocsin-agents", "tocsin-store", "tocsin-dcgm"

INCIDENTS = Place(FLEET, 1)
MAINTENANCE = Place(FLEET, 2)
NODE_GPUS = Place(NODE, 1)
NODE_XIDS = Place(NODE, 2)
NODE_CLOCK = Place(NODE, 3)
PORTS = Place(FABRIC, 1)
JOBS = Place(JOB, 1)
STRAGGLERS = Place(JOB, 2)
MEMORY_ERRORS = Place(MEMORY, 1)
BRAKES = Place(THERMAL, 1)
LIMITS = Place(THERMAL, 2)
LINKS = Place(NODE, 4)
BLIND = Place(AGENTS, 1)
SOURCES = Place(AGENTS, 2)
LOST_DATA = Place(AGENTS, 3)
CONFIGURATIONS = Place(AGENTS, 4)
FAILURES = Place(AGENTS, 5)
UPLOADS = Place(STORE, 1)

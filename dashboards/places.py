"""Panels that something points at, and their addresses.

Plain values: the rules link to them without building any dashboard.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

# Address of a site's Grafana: `make rules GRAFANA_URL=https://...` writes its own.
GRAFANA_URL = os.environ.get("GRAFANA_URL", "https://grafana.example.org")


@dataclass(frozen=True, slots=True)
class Place:
    """One panel: its dashboard's ``uid``, and its ``id`` there, which never changes, so that an old
    alert still leads to it.
    """

    uid: str
    id: int

    @property
    def url(self) -> str:
        """Address of the panel on its own; variables may be added with ``&var-NAME=``."""
        return f"{GRAFANA_URL}/d/{self.uid}?viewPanel={self.id}"


FLEET, NODE, GPU, FABRIC = "tocsin-fleet", "tocsin-node", "tocsin-gpu", "tocsin-fabric"
JOB, MEMORY, THERMAL, WASTE = "tocsin-job", "tocsin-memory", "tocsin-thermal", "tocsin-waste"
AGENTS, STORE, DCGM = "tocsin-agents", "tocsin-store", "tocsin-dcgm"
GATEWAY, GPU_TIME = "tocsin-gateway", "tocsin-gpu-time"

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
FINDINGS_HIDDEN = Place(AGENTS, 6)
TENANTS = Place(AGENTS, 8)
UPLOADS = Place(STORE, 1)
QUARANTINED = Place(STORE, 2)
RETENTION = Place(STORE, 3)
FLEET_INCIDENTS = Place(GATEWAY, 1)
GATEWAY_LEADER = Place(GATEWAY, 2)
GATEWAY_LAG = Place(GATEWAY, 3)
GATEWAY_LOST = Place(GATEWAY, 4)
GATEWAY_HOSTS = Place(GATEWAY, 5)
AGENTS_ON_BUS = Place(GATEWAY, 6)
GATEWAY_STORE = Place(GATEWAY, 7)
GATEWAY_WORKERS = Place(GATEWAY, 8)
RAW_GPUS = Place(DCGM, 1)
RAW_TEMPERATURE = Place(DCGM, 2)
RAW_CLOCK = Place(DCGM, 3)
RAW_POWER = Place(DCGM, 4)
RAW_MEMORY = Place(DCGM, 5)
RAW_REPLAYS = Place(DCGM, 6)
RAW_PORTS = Place(DCGM, 7)
RAW_BIT_ERRORS = Place(DCGM, 8)
RAW_FLAPS = Place(DCGM, 9)

"""Findings that share a cause, as one incident with one root cause: the unit of alerts."""

from __future__ import annotations

from detectors.incidents.fusion import Incidents
from detectors.incidents.health import Health, health_of

__all__ = ["Health", "Incidents", "health_of"]

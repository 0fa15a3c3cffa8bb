"""Judged: an observation with all that was said of it. What sinks get and the store keeps."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.finding import Finding, Incident
from pipeline.observation import Observation


class JudgedObservation(NamedTuple):
    """An observation, its findings, and the incidents that opened, changed or ended with them."""

    observation: Observation
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()

"""Detectors that fail on a source of a node: a finding when it begins, cleared when it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.observation import Observation


class Failing:
    """The failures of one node's detectors.

    >>> failing, seen = Failing(), Observation("nvml", "n1", "b", 1, 1000, 1, 0)
    >>> [f.phase for f in failing.failed("drift", seen, ValueError("x"))]
    ['onset']
    >>> list(failing.failed("drift", seen, ValueError("x")))
    []
    >>> [f.phase for f in failing.ended("drift", seen)]
    ['cleared']
    """

    def __init__(self, known: Iterable[tuple[str, str, Finding]] = ()) -> None:
        self._open = {(detector, source): finding for detector, source, finding in known}

    def all(self) -> list[tuple[str, str, Finding]]:
        """Detector, source and finding of each failure that goes on."""
        return [(*key, finding) for key, finding in self._open.items()]

    def failed(
        self, detector: str, observation: Observation, error: Exception
    ) -> tuple[Finding, ...]:
        """It raised: reported where it did not fail before."""
        key = (detector, observation.source)
        if key in self._open:
            return ()
        self._open[key] = Finding(
            detector="engine",
            device=Device(observation.host, "node", observation.host),
            fault="detector_failed",
            phase="onset",
            severity="ticket",
            onset_ns=observation.time_ns,
            time_ns=observation.time_ns,
            summary=(
                f"Detector {detector} fails on readings of {observation.source}: what it would "
                "have found is missed."
            ),
            action="CONTACT_SUPPORT",
            evidence=(f"{type(error).__name__}: {error}",),
        )
        return (self._open[key],)

    def ended(self, detector: str, observation: Observation) -> tuple[Finding, ...]:
        """It judged an observation of that source."""
        if not self._open:
            return ()
        active = self._open.pop((detector, observation.source), None)
        if active is None:
            return ()
        return (replace(active, phase="cleared", time_ns=observation.time_ns),)

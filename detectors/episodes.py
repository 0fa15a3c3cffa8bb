"""Findings that stand: from onset over worse to cleared, one at a time per device, with a rest before the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from detectors.memory import Commit, from_text_array, text_array
from detectors.snapshot import State
from pipeline.finding import SEVERITIES, Finding
from pipeline.frame import Device

COOL_DOWN_S = 3600.0  # a fault that comes and goes is told once an hour at most, unless it got worse


class Episodes:
    """What one detector has said and not yet taken back.

    >>> from pipeline.frame import Device
    >>> hot = Finding("d", Device("n1", "gpu", "G"), "thermal", "onset", "ticket", 0, 0, "hot")
    >>> episodes = Episodes()
    >>> [f.phase for f in (*episodes.tell(hot), *episodes.tell(hot), *episodes.tell(replace(hot, severity="page")))]
    ['onset', 'ongoing']
    >>> [f.phase for f in (*episodes.clear(hot.device, 1), *episodes.tell(replace(hot, time_ns=2)))]
    ['cleared']
    """

    def __init__(self, cool_down_s: float = COOL_DOWN_S) -> None:
        self._rest_ns = round(cool_down_s * 1e9)
        self._standing: dict[Device, Finding] = {}
        self._resting: dict[Device, tuple[int, str]] = {}  # until when, and how severe it was

    def __contains__(self, device: object) -> bool:
        return device in self._standing

    def __len__(self) -> int:
        return len(self._standing)

    def get(self, device: Device) -> Finding | None:
        """What stands about a device."""
        return self._standing.get(device)

    def standing(self) -> tuple[Finding, ...]:
        """Everything that stands, in the order it was told."""
        return tuple(self._standing.values())

    def tell(self, finding: Finding) -> Iterator[Finding]:
        """The onset; where one stands already, the same finding made worse; nothing where it is no news or rests.

        A worse one than the one before does not rest.
        """
        known = self._standing.get(finding.device)
        if known is not None:
            if SEVERITIES.index(finding.severity) > SEVERITIES.index(known.severity):
                worse = replace(finding, phase="ongoing", onset_ns=known.onset_ns, fault=finding.fault)
                self._standing[finding.device] = worse
                yield worse
            return
        until, severity = self._resting.get(finding.device, (0, "record"))
        if finding.time_ns < until and SEVERITIES.index(finding.severity) <= SEVERITIES.index(severity):
            return
        self._resting.pop(finding.device, None)
        self._standing[finding.device] = finding
        yield finding

    def clear(self, device: Device, time_ns: int, *why: str) -> Iterator[Finding]:
        """Take back what stands about a device; ``why`` is added to the evidence."""
        known = self._standing.pop(device, None)
        if known is None:
            return
        self._resting = {d: rest for d, rest in self._resting.items() if rest[0] > time_ns}
        if self._rest_ns:
            self._resting[device] = (time_ns + self._rest_ns, known.severity)
        yield replace(known, phase="cleared", time_ns=time_ns, device=device, evidence=(*known.evidence, *why))

    def state(self) -> State:
        """What stands and what rests."""
        resting = [[*_identity(device), until, severity] for device, (until, severity) in self._resting.items()]
        return {"standing": text_array([_document(f) for f in self._standing.values()]), "resting": text_array(resting)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        standing = [_finding(document) for document in from_text_array(state["standing"])]
        resting = {
            Device(host, kind, name): (int(until), str(severity))
            for host, kind, name, until, severity in from_text_array(state["resting"])
        }

        def commit() -> None:
            self._standing = {finding.device: finding for finding in standing}
            self._resting = resting

        return commit


def _identity(device: Device) -> tuple[str, str, str]:
    return device.host, device.kind, device.id


def _document(finding: Finding) -> dict[str, Any]:
    document = {field.name: getattr(finding, field.name) for field in fields(finding)}
    return {**document, "device": [*_identity(finding.device), dict(finding.device.attributes)]}


def _finding(document: dict[str, Any]) -> Finding:
    return Finding(**{**document, "device": Device(*document["device"]), "evidence": tuple(document["evidence"])})

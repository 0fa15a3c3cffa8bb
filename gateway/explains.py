"""Which incidents of agents the gateway's own incidents explain: those agents need not alert.

An agent sends its open incidents with every batch. One of them is explained where an open incident
of the gateway covers its device and is at least as severe. Where both name the same device with the
same severity, nothing is explained: the agent alerts, and goes on when the gateway ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from detectors.faults.causes import edges_between
from detectors.incidents.graph import CONTAINERS
from detectors.infiniband.ports import behind
from detectors.kit.stateful import from_text_array, text_array
from gateway.arrivals import Host
from pipeline.finding import SEVERITIES, Finding, Incident
from pipeline.frame import Device
from pipeline.gpu_parts import OF_GPU

# Series of one gateway. A switch that takes down 1,000 nodes explains an incident of each of their
# eight ports; beyond the limit agents alert for themselves.
MAX_EXPLAINED = 20_000

# Their ids are UUIDs or a cluster's own names. Each node has a /data and an nvme0n1.
UNIQUE = OF_GPU.union(CONTAINERS)

Name = tuple[str, str, str]  # host (empty where the id is enough), kind and id of a device


def _name(device: Device) -> Name:
    return "" if device.kind in UNIQUE else device.host, device.kind, device.id


def _rank(incident: Incident) -> tuple[int, int, str]:
    """The most severe first, then the oldest."""
    return -SEVERITIES.index(incident.severity), incident.opened_ns, incident.id


class Explanations:
    """Remembers the devices of findings for as long as an open incident holds these."""

    name = "explanations"
    version = 2

    def __init__(self) -> None:
        self._devices: dict[str, Name] = {}
        self.overflow = 0  # explained incidents beyond the limit, of the last look

    def state(self) -> Mapping[str, NDArray[Any]]:
        """The devices."""
        return {"devices": text_array(self._devices)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from there. KeyError, TypeError or ValueError, unchanged, where it does not fit."""
        devices = from_text_array(state["devices"])
        self._devices = {
            finding: (host, kind, name) for finding, (host, kind, name) in devices.items()
        }

    def note(self, findings: Iterable[Finding]) -> None:
        """Findings of the gateway's judge, in any phase."""
        for finding in findings:
            self._devices[finding.id] = _name(finding.device)

    def of(
        self,
        cluster: str,
        incidents: Sequence[Incident],
        hosts: Iterable[Host],
        standing: Iterable[Finding] = (),
        *,
        alerting: Iterable[Incident] | None = None,
    ) -> dict[tuple[str, ...], float]:
        """1.0 for each incident of an agent that is explained, by the labels of
        ``tocsin_fleet_explains``: one series each, however many incidents cover its device.

        ``standing`` are all open findings: an incident may open long after one of its own. Of the
        incidents only those that are ``alerting`` explain any (None: all).
        """
        self.note(standing)
        ranked = sorted((i for i in incidents if i.severity != "record"), key=_rank)
        roots: dict[Name, Incident] = {}
        covers: dict[Name | str, Incident] = {}
        alert = {one.id for one in (ranked if alerting is None else alerting)}
        kept = {}
        for incident in ranked:
            known = {
                finding: self._devices[finding]
                for finding in incident.findings
                if finding in self._devices
            }
            kept.update(known)
            if incident.id not in alert:
                continue
            roots.setdefault(_name(incident.root), incident)
            for finding in incident.findings:
                covers.setdefault(finding, incident)
                if finding in known:
                    covers.setdefault(known[finding], incident)
        self._devices = kept
        found: dict[tuple[str, ...], float] = {}
        self.overflow = 0
        for host in hosts:
            for theirs in host.open:
                by = _explains(theirs, roots, covers)
                if by is None:
                    continue
                if len(found) == MAX_EXPLAINED:
                    self.overflow += 1
                    continue
                root = theirs.root
                labels = (root.kind, root.id, theirs.fault, theirs.severity, by.id)
                found[cluster, host.name, *labels] = 1.0
        return found


def _explains(
    theirs: Incident, roots: Mapping[Name, Incident], covers: Mapping[Name | str, Incident]
) -> Incident | None:
    """The gateway's incident that explains an agent's, if any."""
    if theirs.severity == "record":
        return None
    level = SEVERITIES.index(theirs.severity)
    by = roots.get(_name(theirs.root))
    if by is not None and SEVERITIES.index(by.severity) >= level:
        return by if SEVERITIES.index(by.severity) > level else None
    by = covers.get(_name(theirs.root)) or _upstream(theirs, roots)
    if by is None:
        ours = [covers.get(finding) for finding in theirs.findings]
        by = ours[0] if ours and all(each is ours[0] for each in ours) else None
    return by if by is not None and SEVERITIES.index(by.severity) >= level else None


def _upstream(theirs: Incident, roots: Mapping[Name, Incident]) -> Incident | None:
    """The incident about the switch or rail behind a port, which explains what it does to its ports
    and names none of thousands.
    """
    by = roots.get(("", *behind(theirs.root))) if theirs.root.kind == "ib_port" else None
    if by is None:
        return None
    return by if edges_between(by.fault, theirs.fault) or by.fault == theirs.fault else None

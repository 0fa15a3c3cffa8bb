"""Which device a verdict is about: the GPU of a rank, a port, a node, or the
job where none is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from detectors.kit.snapshot import State, device_state, devices_from
from detectors.kit.stateful import Commit
from detectors.nccl.verdict import Culprit
from pipeline.frame import Device
from pipeline.nccl.hit import Hit
from pipeline.nccl.report import Report
from pipeline.observation import Observation

KINDS = ("gpu", "ib_port")
# what the kubelet calls the folder of a pod's logs: namespace_name_uid
_POD_LOG = re.compile(r"_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/")


class Places:
    """Learns GPUs and ports from frames."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, str, str], Device] = {}
        self._frames: dict[tuple[str, str], tuple[Device, ...]] = {}

    def take(self, observation: Observation) -> None:
        """Follow an observation."""
        for frame in observation.frames:
            key = (observation.source, frame.kind)
            if frame.kind in KINDS and self._frames.get(key) is not frame.devices:
                self._frames[key] = frame.devices
                self._learn(frame.devices)

    def _learn(self, devices: Iterable[Device]) -> None:
        for device in devices:
            name = device.id if device.kind == "gpu" else device.attributes.get("device", device.id)
            host = "" if device.kind == "gpu" else device.host
            self._devices[device.kind, host, name] = device

    def device(self, culprit: Culprit, job: str) -> Device:
        """The device of a culprit."""
        if culprit.port:
            known = self._devices.get(("ib_port", culprit.host, culprit.port.partition(":")[0]))
            return known or Device(culprit.host, "ib_port", culprit.port)
        gpu = self._devices.get(("gpu", "", culprit.uuid)) if culprit.uuid else None
        if gpu is not None:
            return gpu
        if culprit.uuid:
            return Device(culprit.host, "gpu", culprit.uuid)
        if culprit.rank >= 0:
            return Device(culprit.host, "rank", f"{job}/{culprit.rank}")
        if culprit.pid >= 0:
            return Device(culprit.host, "rank", f"{job}/pid {culprit.pid}")
        return Device(culprit.host, "node", culprit.host)

    def located(self, culprit: Culprit) -> Culprit:
        """A culprit with the NVML index of its GPU, where its UUID is that of a GPU that is read:
        in a container NVML counts only the GPUs of the container.
        """
        gpu = self._devices.get(("gpu", "", culprit.uuid)) if culprit.uuid else None
        index = gpu.attributes.get("index", "") if gpu is not None else ""
        return replace(culprit, nvml=int(index)) if index.isdecimal() else culprit

    def hosts(self, reports: Iterable[Report]) -> dict[str, str]:
        """Names of nodes by what the reports call them: an address, known by a rank
        there whose GPU is known.
        """
        members = (
            m
            for report in reports
            for c in report.communicators
            for m in c.members
            if m.uuid and m.host
        )
        known = ((m.host, self._devices.get(("gpu", "", m.uuid))) for m in members)
        return {address: gpu.host for address, gpu in known if gpu is not None}

    def state(self) -> State:
        """The devices."""
        return device_state(self._devices.values())

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where it does not fit."""
        devices = devices_from(state)

        def commit() -> None:
            self._devices, self._frames = {}, {}
            self._learn(devices)

        return commit


def of_node(hit: Hit, host: str) -> Hit:
    """A line of a pod's log with the node that wrote it: its host is the pod's name."""
    return replace(hit, host=host) if hit.host and _POD_LOG.search(hit.origin) else hit


def by_short_name(hosts: Collection[str]) -> dict[str, str]:
    """Names of nodes by what logs call them: NCCL cuts a name at its first dot (getHostName of
    utils.cc), and an agent may have all of it.

    >>> by_short_name(["n1.cluster", "n2.a", "n2.b", "n3.a", "n3"])
    {'n1': 'n1.cluster'}
    """
    short = Counter(host.partition(".")[0] for host in hosts)
    names = ((host.partition(".")[0], host) for host in hosts)
    return {name: host for name, host in names if short[name] == 1 and name != host}

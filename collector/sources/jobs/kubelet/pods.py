"""Answers of the pod-resources API as values.

Field numbers: kubelet/pkg/apis/podresources/v1/api.proto; v1alpha1 has the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from collector.sources.jobs.kubelet.wire import inner, text


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one resource (``nvidia.com/gpu``), by the ids that their
    device plugin gave them.
    """

    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device of a claim of dynamic resource allocation, as its driver names it."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A resource claim that a container uses."""

    name: str
    namespace: str
    devices: tuple[ClaimedDevice, ...]


@dataclass(frozen=True, slots=True)
class Container:
    """A container with what it was given."""

    name: str
    devices: tuple[Devices, ...]
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node."""

    name: str
    namespace: str
    containers: tuple[Container, ...]


def listed(answer: bytes) -> tuple[Pod, ...]:
    """ListPodResourcesResponse. WireError where it is none."""
    return tuple(_pod(pod) for pod in inner(answer, 1))


def allocatable(answer: bytes) -> tuple[Devices, ...]:
    """Devices of an AllocatableResourcesResponse. WireError where it is none."""
    return tuple(_devices(devices) for devices in inner(answer, 1))


def _pod(message: bytes) -> Pod:
    return Pod(text(message, 1), text(message, 2), tuple(_container(c) for c in inner(message, 3)))


def _container(message: bytes) -> Container:
    return Container(
        text(message, 1),
        tuple(_devices(d) for d in inner(message, 2)),
        tuple(_claim(c) for c in inner(message, 5)),
    )


def _devices(message: bytes) -> Devices:
    return Devices(text(message, 1), tuple(i.decode(errors="replace") for i in inner(message, 2)))


def _claim(message: bytes) -> Claim:
    """DynamicResource: 1 is a tombstone."""
    devices = tuple(ClaimedDevice(text(r, 2), text(r, 3), text(r, 4)) for r in inner(message, 4))
    return Claim(text(message, 2), text(message, 3), devices)

"""Asks the kubelet which pods have which devices: v1 of its pod-resources API,
v1alpha1 where it has no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.gpus import GpuKey, Gpus
from collector.sources.jobs.kubelet.grpc import DEADLINE_EXCEEDED, UNIMPLEMENTED, GrpcError, call
from collector.sources.jobs.kubelet.newest import Newest
from collector.sources.jobs.kubelet.pods import Claim, Pod, allocatable, listed
from collector.sources.jobs.kubelet.wire import WireError
from pipeline.observation import Unread

TIMEOUT_S = 2.0  # for one call: a healthy kubelet answers in milliseconds
VERSIONS = ("v1", "v1alpha1")
# The resources of NVIDIA's device plugin; dcgm-exporter takes the same, and others by
# --nvidia-resource-names.
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-"
SHARED = f"{GPU}.shared"  # the same where the plugin renames what it shares (renameByDefault)
DRA_DRIVER = "gpu.nvidia.com"
MAX_UNREAD, MAX_ID = 64, 128  # device ids without a GPU in one answer, characters of each


class KubeletError(OSError):
    """The kubelet gave no allocations; the message has the reason.

    ``slow``: it took until the deadline.
    """

    def __init__(self, message: str, *, slow: bool = False) -> None:
        super().__init__(message)
        self.slow = slow


class Kubelet:
    """The kubelet of this node behind its socket.

    ``resources`` are further names of resources whose devices are GPUs. ``unread`` are the device
    ids of the last answer that no GPU has.
    """

    def __init__(
        self, path: Path, resources: Iterable[str] = (), *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._path, self._timeout_s = path, timeout_s
        self._resources = frozenset((GPU, SHARED, *resources))
        self._version = VERSIONS[0]
        self._newest = Newest()
        self.unread: list[Unread] = []

    def pods(self) -> tuple[Pod, ...]:
        """All pods of the node with what they were given. KubeletError."""
        for version in dict.fromkeys((self._version, *VERSIONS)):
            try:
                answer = call(
                    self._path, f"/{version}.PodResourcesLister/List", timeout_s=self._timeout_s
                )
                self._version = version
                return listed(answer)
            except GrpcError as error:
                if error.code != UNIMPLEMENTED:
                    raise KubeletError(str(error), slow=error.code == DEADLINE_EXCEEDED) from error
            except WireError as error:
                raise KubeletError(f"{self._path}: an answer that is none: {error}") from error
        raise KubeletError(
            f"{self._path}: serves neither {' nor '.join(VERSIONS)} of the pod-resources API"
        )

    def allocatable(self) -> dict[str, int]:
        """How many GPUs or MIG instances it could give out, by resource; empty
        where it is too old to answer.

        KubeletError.
        """
        try:
            answer = call(
                self._path,
                "/v1.PodResourcesLister/GetAllocatableResources",
                timeout_s=self._timeout_s,
            )
            rows = [devices for devices in allocatable(answer) if self._is_gpu(devices.resource)]
        except GrpcError as error:
            if error.code == UNIMPLEMENTED:
                return {}
            raise KubeletError(str(error), slow=error.code == DEADLINE_EXCEEDED) from error
        except WireError as error:
            raise KubeletError(f"{self._path}: an answer that is none: {error}") from error
        counts = dict.fromkeys((row.resource for row in rows), 0)
        for row in rows:
            counts[row.resource] += len(row.ids)
        return counts

    def holdings(self, gpus: Gpus) -> list[Allocation]:
        """Which pod has which of these GPUs.

        A device that the node does not have is left out, and is ``unread`` once any GPU is known.
        KubeletError.
        """
        self.unread = []
        unknown: dict[str, None] = {}
        pods = self.pods()
        held = self._newest.of(given for pod in pods for given in self._given(pod, gpus, unknown))
        if gpus.index:
            self.unread = [Unread("unknown GPU", i, "kubelet") for i in list(unknown)[:MAX_UNREAD]]
        return held

    def _given(
        self, pod: Pod, gpus: Gpus, unknown: dict[str, None]
    ) -> Iterator[tuple[Allocation, str]]:
        """Allocations of a pod, each with the id of the device where no other pod can have that at
        the same time; ids that no GPU has are added to ``unknown``.
        """
        for container in pod.containers:
            named = {"pod": pod.name, "namespace": pod.namespace, "container": container.name}
            for devices in container.devices:
                if self._is_gpu(devices.resource):
                    alone = devices.resource == GPU or devices.resource.startswith(MIG)
                    for device_id in devices.ids:
                        place = gpus.named(device_id)
                        if place is None:
                            unknown[device_id[:MAX_ID]] = None
                            continue
                        share = {"replicas": place.replica} if place.replica else {}
                        only = device_id if alone and not share else ""
                        yield _holding(place, named | share), only
            for claim in container.claims:
                for place, facts in _claimed(claim, gpus):
                    yield _holding(place, named | facts), ""

    def _is_gpu(self, resource: str) -> bool:
        return resource in self._resources or resource.startswith(MIG)


def _holding(place: GpuKey, facts: dict[str, str]) -> Allocation:
    return Allocation(place.uuid, place.instance, "kubernetes", "kubelet", facts)


def _claimed(claim: Claim, gpus: Gpus) -> Iterator[tuple[GpuKey, dict[str, str]]]:
    for one in claim.devices:
        if one.driver == DRA_DRIVER and (place := gpus.claimed(one.device)):
            yield (
                place,
                {
                    "claim": claim.name,
                    "claim_namespace": claim.namespace,
                    "claim_driver": one.driver,
                    "claim_pool": one.pool,
                    "claim_device": one.device,
                },
            )

"""Providers of the allocations of GPUs to jobs and pods, each with the same interface."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from collector.node.gpu_processes import ProcessesByGpu
from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.slurm.allocations import Slurm
from collector.sources.jobs.slurm.mapping import JobMapping
from collector.sources.tenants.desk import Desk
from collector.sources.tenants.job_users import JobUsers
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.observation import Unread
from pipeline.selfmetrics import SelfMetrics

if TYPE_CHECKING:
    from collector.sources.jobs.kubelet.client import Kubelet

Mode = Literal["auto", "on", "off"]
ALLOCATABLE_NS = 60 * SECOND_NS  # between two queries of the devices the kubelet could allocate
MAX_RESOURCES = 32
# Delay before a kubelet that let a call run into its deadline is queried again.
PATIENCE_NS = 15 * SECOND_NS


class AllocationProvider(Protocol):
    """A provider of allocations."""

    @property
    def name(self) -> str:
        """Label of the provider."""
        ...

    @property
    def unread(self) -> Sequence[Unread]:
        """What the last answer lacked."""
        ...

    def there(self) -> bool:
        """Whether this node has it, or must have it: one that is not there is
        not asked, and not missed.
        """
        ...

    def holdings(self, gpus: Gpus, processes: ProcessesByGpu) -> Iterable[Allocation]:
        """The current allocations. OSError where they cannot be read."""
        ...


class KubeletProvider:
    """The kubelet. In mode ``auto`` it is missed only once its socket was seen."""

    name = "kubelet"
    unread: Sequence[Unread] = ()

    def __init__(
        self, socket: Path, resources: Iterable[str], mode: Mode, clock: Clock, metrics: SelfMetrics
    ) -> None:
        self._socket, self._resources = socket, tuple(resources)
        self._clock, self._metrics = clock, metrics
        self._wanted = mode == "on"
        self._kubelet: Kubelet | None = None
        self._due_ns = 0
        self._silent: str | None = None
        self._silent_until_ns = 0

    def there(self) -> bool:
        """See AllocationProvider."""
        with contextlib.suppress(PermissionError):  # the folder is root's: the helper may look
            self._wanted = self._wanted or self._socket.is_socket()
        return self._wanted

    def holdings(self, gpus: Gpus, processes: ProcessesByGpu) -> list[Allocation]:  # noqa: ARG002 - the kubelet knows nothing of processes
        """See AllocationProvider.

        One that did not answer in time is left alone for a while: Slurm's jobs are read
        in the same thread.
        """
        from collector.sources.jobs.kubelet.client import Kubelet, KubeletError  # noqa: PLC0415 - nodes without a kubelet need no HTTP/2

        now_ns = self._clock.monotonic_ns()
        if self._silent is not None and now_ns < self._silent_until_ns:
            raise OSError(self._silent)
        kubelet = self._kubelet = self._kubelet or Kubelet(self._socket, self._resources)
        self.unread = ()
        try:
            found = list(kubelet.holdings(gpus))
        except KubeletError as error:
            self._due_ns = 0
            self._count({})
            self._silent, self._silent_until_ns = (
                str(error),
                now_ns + (PATIENCE_NS if error.slow else 0),
            )
            raise
        self.unread = tuple(kubelet.unread)
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + ALLOCATABLE_NS
            try:
                self._count(kubelet.allocatable())
            except (
                KubeletError
            ):  # off by a feature gate before 1.23: allocations are known without it
                self._count({})
        return found

    def _count(self, allocatable: Mapping[str, int]) -> None:
        counts = sorted(allocatable.items())[:MAX_RESOURCES]
        self._metrics.replace(
            agent.KUBERNETES_ALLOCATABLE, {(resource,): float(n) for resource, n in counts}
        )


class MappingProvider:
    """The folder that prolog and epilog write."""

    name = "mapping"

    def __init__(self, folder: Path) -> None:
        self._folder, self._mapping = folder, JobMapping(folder)

    @property
    def unread(self) -> Sequence[Unread]:
        """See AllocationProvider."""
        return self._mapping.unread

    def there(self) -> bool:
        """A folder that is not there maps nothing, as in dcgm-exporter: the
        first prolog may make it.
        """
        return self._folder.exists()

    def holdings(self, gpus: Gpus, processes: ProcessesByGpu) -> Iterator[Allocation]:  # noqa: ARG002 - files know nothing of processes
        """See AllocationProvider."""
        yield from self._mapping.holdings(gpus)


class SlurmProvider:
    """Slurm's tasks below /proc. On a node without any it costs a listing of /proc."""

    name = "processes"
    unread: Sequence[Unread] = ()

    def __init__(
        self,
        proc: Path,
        user_name: Callable[[int], str],
        clock: Clock,
        metrics: SelfMetrics,
        desk: Desk | None = None,
        *,
        users: JobUsers | None = None,
    ) -> None:
        self._slurm = Slurm(proc, user_name, desk, users)
        self._clock, self._metrics = clock, metrics

    def close(self) -> None:
        """End the child that reads tasks."""
        self._slurm.close()

    def there(self) -> bool:
        """See AllocationProvider."""
        return True

    def holdings(self, gpus: Gpus, processes: ProcessesByGpu) -> Iterator[Allocation]:
        """See AllocationProvider."""
        yield from self._slurm.holdings(gpus, processes, self._clock.monotonic_ns() / 1e9)
        self._metrics.set(agent.JOBS_UNATTRIBUTED, float(self._slurm.unattributed), "no_job")
        self._metrics.set(agent.JOBS_UNATTRIBUTED, float(self._slurm.hidden), "not_visible")

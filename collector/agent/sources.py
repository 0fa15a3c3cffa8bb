"""From configuration and world to the sources that are read: the one list of them, for the agent
and for ``tocsin read``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.agent.environment import HostEnvironment
from collector.config import settings
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from collector.nccl_settings.look import Looks
from collector.node.gpu_processes import GpuProcesses
from collector.node.inventory import Inventory
from collector.node.job_processes import JobProcesses
from collector.node.kept_jobs import KeptJobs
from collector.node.pods_by_gpu import PodsByGpu
from collector.node.state import State
from collector.node.topology import Topology, TopologyError
from collector.node.trainings import Trainings
from collector.node.with_topology import WithTopology
from collector.sources.host import HostSource
from collector.sources.infiniband import InfinibandSource
from collector.sources.joblog.source import JobLogSource
from collector.sources.jobs.providers import (
    AllocationProvider,
    KubeletProvider,
    MappingProvider,
    SlurmProvider,
)
from collector.sources.jobs.slurm.allocations import local_user, nameless
from collector.sources.jobs.source import JobsSource
from collector.sources.kmsg import KernelLogSource
from collector.sources.nccl.source import NcclSource
from collector.sources.nccl.suspicion import Suspicions
from collector.sources.nvml.source import NvmlSource
from collector.sources.nvml.worker import Deadlines
from collector.sources.tenants import limits
from collector.sources.tenants.child_desk import ChildDesk, ReaderOf
from collector.sources.tenants.cuts import Cuts
from collector.sources.tenants.desk import Desk
from collector.sources.tenants.job_users import JobUsers
from collector.sources.waits.source import WaitsSource
from pipeline.clock import SECOND_NS
from pipeline.engine import Schedule
from pipeline.interfaces import Source
from pipeline.selfmetrics import SelfMetrics

# Without persistence mode the driver is loaded with the library: collector/sources/nvml/worker.py,
# Deadlines.slow_s.
AWAITS_GPUS_NS = 30 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Parts:
    """What sources share.

    ``saved`` logs are finished, and read once as they stand. ``suspicions`` are
    what the detectors say back.
    """

    config: Config
    world: HostEnvironment
    inventory: Inventory
    state: State
    metrics: SelfMetrics
    topology: Topology | None = None
    saved: bool = False
    suspicions: Suspicions = field(default_factory=Suspicions)
    holders: GpuProcesses = field(default_factory=GpuProcesses)
    pods: PodsByGpu = field(default_factory=PodsByGpu)
    trainings: Trainings = field(default_factory=Trainings)
    users: JobUsers = field(default_factory=JobUsers)
    running: JobProcesses = field(default_factory=JobProcesses)
    kept_jobs: KeptJobs = field(default_factory=KeptJobs)
    cuts: Cuts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cuts", Cuts(self.metrics))

    def desk(self, source: str, module: str, memory_bytes: int, *arguments: object) -> Desk:
        """A child that reads what tenants wrote, with a module's reader."""
        reader = ReaderOf(module, memory_bytes, tuple(map(str, arguments)))
        return ChildDesk(source, reader, self.metrics, self.cuts)


def topology_of(section: settings.Topology, host: str) -> Topology | None:
    """Where to look up the node's topology, None if nothing is set.

    ConfigError says what is wrong with it.
    """
    try:
        if section.file:
            return Topology.of_file(Path(section.file), host)
        if section.labels_file:
            return Topology.of_labels(Path(section.labels_file), section.node_labels)
    except (TopologyError, OSError) as error:
        raise ConfigError(f"topology: {error}") from error
    return Topology.of_command(section.command) if section.command else None


def schedules(parts: Parts, names: Collection[str] | None = None) -> Iterator[Schedule]:
    """Every source that is switched on (or those named), with its period and deadline; first the
    topology that the others hang on.
    """
    if parts.topology is not None:
        section = parts.config.topology
        yield Schedule(parts.topology, float(section.period), float(section.deadline))
    for name, make in SOURCES.items():
        section = getattr(parts.config.sources, name)
        if section.enabled if names is None else name in names:
            source = (
                make(parts) if parts.topology is None else WithTopology(make(parts), parts.topology)
            )
            yield Schedule(source, float(section.period), float(section.deadline))


def _nvml(parts: Parts) -> Source:
    section, world = parts.config.sources.nvml, parts.world
    return NvmlSource(
        world.library,
        world.host,
        world.clock,
        parts.inventory,
        parts.metrics,
        deadlines=Deadlines(call_s=section.call_deadline),
        links_every=section.links_every,
        facts_every_s=section.facts_period,
        expected=section.expected,
        processes=section.processes,
        proc=world.procfs,
        sysfs=world.sysfs,
        holders=parts.holders,
        state=parts.state,
    )


def _infiniband(parts: Parts) -> Source:
    section, world = parts.config.sources.infiniband, parts.world
    # perfquery asks the fabric of this machine: that is not the one of a saved or simulated tree.
    real = world.sysfs == Path("/sys")
    return InfinibandSource(
        world.sysfs,
        world.host,
        world.clock,
        parts.inventory,
        parts.metrics,
        expected=section.expected,
        ignore=section.ignore,
        perfquery=section.perfquery if real else "",
    )


def _host(parts: Parts) -> Source:
    world = parts.world
    return HostSource(world.procfs, world.sysfs, world.host, world.clock)


def _kmsg(parts: Parts) -> Source:
    world = parts.world
    return KernelLogSource(
        world.host,
        world.clock,
        world.boot_id,
        parts.inventory,
        parts.state,
        parts.metrics,
        path=world.kernel_log,
        saved=parts.saved,
        awaits_gpus_ns=AWAITS_GPUS_NS if parts.config.sources.nvml.enabled else 0,
        trainings=parts.trainings,
    )


def _joblog(parts: Parts) -> Source:
    paths, world = parts.config.sources.joblog.paths, parts.world
    desk = parts.desk("joblog", "collector.sources.joblog.reader", limits.LOGS_BYTES, *paths)
    return JobLogSource(
        paths,
        world.host,
        world.clock,
        parts.metrics,
        desk=desk,
        cuts=parts.cuts,
        trainings=parts.trainings,
        users=parts.users,
    )


def _nccl(parts: Parts) -> Source:
    section, world = parts.config.sources.nccl, parts.world
    return NcclSource(
        world.procfs,
        world.host,
        world.clock,
        parts.metrics,
        suspicions=parts.suspicions,
        mode=section.ras,
        monitor=section.monitor,
        holders=parts.holders,
        desk=parts.desk("nccl", "collector.sources.nccl.reader", limits.NCCL_BYTES, world.procfs),
        cuts=parts.cuts,
        hidden=parts.config.sources.jobs.hide,
        pods=parts.pods,
        trainings=parts.trainings,
        users=parts.users,
        settings=None if parts.saved or world.simulated else _settings(parts),
    )


def _settings(parts: Parts) -> Looks:
    """Reads by its own child: it may wait long, and nobody waits for it."""
    world, module = parts.world, "collector.nccl_settings.look"
    paths = (world.procfs, world.sysfs)
    return Looks(parts.desk("nccl_settings", module, limits.SETTINGS_BYTES, *paths, world.host))


def _jobs(parts: Parts) -> Source:
    section, world = parts.config.sources.jobs, parts.world
    providers: list[AllocationProvider] = []
    # A simulated node has no kubelet: that of this machine knows nothing of its GPUs, unless
    # somebody says otherwise.
    if section.kubernetes == "on" or (section.kubernetes == "auto" and not world.simulated):
        socket = Path(section.kubelet_socket)
        providers.append(
            KubeletProvider(
                socket, section.resource_names, section.kubernetes, world.clock, parts.metrics
            )
        )
    if section.mapping_dir:
        providers.append(MappingProvider(Path(section.mapping_dir)))
    if section.slurm:
        # User ids of another machine, or of a simulated one, have no names here.
        names = local_user if world.procfs == Path("/proc") else nameless
        module = "collector.sources.jobs.slurm.tasks"
        desk = parts.desk("jobs", module, limits.TASKS_BYTES, world.procfs)
        providers.append(
            SlurmProvider(world.procfs, names, world.clock, parts.metrics, desk, users=parts.users)
        )
    return JobsSource(
        providers,
        world.host,
        world.clock,
        parts.metrics,
        holders=parts.holders,
        inventory=parts.inventory,
        hidden=section.hide,
        pods=parts.pods,
        trainings=parts.trainings if parts.config.sources.trainings.enabled else None,
        running=parts.running,
        kept=parts.kept_jobs,
        cuts=parts.cuts,
    )


def _waits(parts: Parts) -> Source:
    world = parts.world
    return WaitsSource(
        world.procfs, world.sysfs, world.host, world.clock, parts.running, cuts=parts.cuts
    )


def _trainings(parts: Parts) -> Source:
    from collector.integrations.kubernetes.api import Api  # noqa: PLC0415 - who asks nothing pays for no TLS
    from collector.sources.trainings.listed import reduced  # noqa: PLC0415
    from collector.sources.trainings.source import TrainingsSource  # noqa: PLC0415

    settings, world = parts.config.gates.kubernetes, parts.world

    def ask(path: str) -> Mapping[str, Any]:
        return Api(settings).get(path)

    def listed(path: str) -> Mapping[str, Any]:
        return Api(settings).get(path, reduced)

    node = settings.node or world.host
    return TrainingsSource(
        ask,
        node,
        world.host,
        world.clock,
        parts.trainings,
        hidden=parts.config.sources.jobs.hide,
        bridges=parts.config.sources.trainings.slurm_bridge_namespaces,
        listed=listed,
        pods=parts.pods,
        cuts=parts.cuts,
    )


# In the order they are read: GPUs first, since the kernel log names them by address.
SOURCES: dict[str, Callable[[Parts], Source]] = {
    "nvml": _nvml,
    "infiniband": _infiniband,
    "kmsg": _kmsg,
    "host": _host,
    "joblog": _joblog,
    "nccl": _nccl,
    "trainings": _trainings,
    "jobs": _jobs,
    "waits": _waits,
}

"""What survives a reload of the configuration: the agent's numbers, its memory of devices and
XIDs, the store, the exposition.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from collector.agent.device_health import DeviceHealthMetrics
from collector.agent.environment import HostEnvironment
from collector.agent.findings_log import FindingsLog
from collector.agent.labels import Labels
from collector.agent.local_store import local_store
from collector.agent.snapshots import Snapshots
from collector.config.settings import Config, Sources
from collector.node.deferred_state import DeferredState
from collector.node.inventory import Inventory
from collector.node.kept_jobs import KeptJobs
from collector.node.out_of_service import OutOfService
from collector.sources.nccl.suspicion import Suspicions
from collector.version import VERSION
from collector.web import AgentPages
from collector.web.job_settings import JobSettings
from collector.web.recent import Recent
from collector.web.status import Node
from detectors.incidents import Incidents
from pipeline import plugin
from pipeline.catalog import agent
from pipeline.exposition import Exposition
from pipeline.exposition.process import ProcessSamples
from pipeline.interfaces import Closable, Sink
from pipeline.judge import Judge
from pipeline.outlet import Outlet
from pipeline.past_incidents import PastIncidents
from pipeline.selfmetrics import SelfMetrics
from pipeline.xid.counts import XidCounts

log = logging.getLogger("tocsin.agent")

# An observation waits so long for the store before it is shown: a write into the page cache takes
# a millisecond, also where fifteen processes want the core; a disk that hangs costs this once.
STORED_WITHIN_S = 0.25
# Gauges of a source; its counters go on where it is read again.
OF_SOURCES = (
    agent.SOURCE_SUCCESS,
    agent.SOURCE_LAST_SUCCESS,
    agent.SOURCE_LATE,
    agent.SOURCE_DURATION,
    agent.SOURCE_UNREAD,
    agent.SOURCE_BACKOFF,
)


class Runtime:
    """The parts that a reload leaves in place.

    ``unhealthy``, ``unready`` and ``reloading`` are the running engine's to answer.
    """

    def __init__(
        self,
        config: Config,
        world: HostEnvironment,
        *,
        unhealthy: Callable[[], str],
        unready: Callable[[], str],
        reloading: Callable[[], bool],
    ) -> None:
        root = Path(config.storage.path)
        self.world = world
        self._judge: Judge | None = None
        self.metrics = SelfMetrics()
        self.state = DeferredState(root / "state")
        self.inventory = Inventory(world.host, self.state)
        self.kept_jobs = KeptJobs(
            partial(self.state.save, "jobs"), self.state.load("jobs"), world.boot_id
        )
        self.xids = XidCounts(
            partial(self.state.save, "xids"), self.state.load("xids"), world.boot_id
        )
        self.exposition = Exposition(
            self.metrics,
            clock=world.clock,
            profile=config.exposition.profile,
            xids=self.xids,
            process=ProcessSamples(),
        )
        self.out = OutOfService(world.host, self.state, self.metrics)
        self.labels = Labels(self.state, self.metrics, config.detectors)
        self.device_health = DeviceHealthMetrics(self.metrics, self.exposition.findings)
        self.snapshots = Snapshots(root, world.boot_id, world.clock, self.metrics)
        recent, settings = Recent(), JobSettings()
        node = Node(world.host, VERSION, world.simulated)
        self.pages = AgentPages(
            self.exposition,
            self.metrics,
            world.clock,
            node,
            unhealthy=unhealthy,
            unready=unready,
            reloading=reloading,
            health=lambda: self.device_health.health,
            out=self.out.all,
            recent=recent,
            current=lambda: self._judge.current() if self._judge else {},
            past=self.past,
            settings=settings,
        )
        self.suspicions = Suspicions()
        store_writer = local_store(config, world.host, world.clock, self.metrics)
        # These write to disk: each behind a queue of its own, so that a slow disk delays neither
        # readings nor one another.
        self._store_writer = store_writer
        store = Outlet(store_writer, self.metrics, world.clock, patience_s=STORED_WITHIN_S)
        self._outlets = [Outlet(self.state, self.metrics, world.clock), store]
        # The store comes first: what is shown survives a kill. XIDs are counted before the findings
        # about them are shown: a page has its numbers at once.
        self._bus = None
        if config.bus.servers:  # who sends nothing does not pay for the client
            publisher = plugin.load("collector.bus:Publisher")
            self._bus = publisher(config.bus, world.host, self.metrics, world.clock)
        self.sinks: tuple[Sink, ...] = (
            store,
            self.xids,
            self.exposition,
            self.device_health,
            self.out,
            FindingsLog(),
            self.snapshots,
            self.suspicions,
            recent,
            settings,
            self._outlets[0],
            *([self._bus] if self._bus else ()),
        )
        self._gpus: tuple[object, ...] = ()
        self.metrics.set(agent.BUILD_INFO, 1, VERSION, platform.python_version())
        self.metrics.set(agent.SIMULATED, float(bool(world.simulated)))

    def past(self) -> PastIncidents:
        """What is over."""
        return self._judge.past if self._judge else PastIncidents()

    def remember(self, judge: Judge, sources: Sources) -> bool:
        """Give a judge the memory of the last life, show what was open then, and keep its memory
        from now on; whether it knows of incidents.
        """
        cold = self.snapshots.restore(judge, sources)
        self.exposition.resume(judge.standing(), judge.open())
        self.device_health.resume(judge.open())
        if self._bus:
            self._bus.resume(judge.open())
        self.follow(judge)
        return Incidents.name not in cold

    def follow(self, judge: Judge) -> None:
        """Keep the memory of this judge, and show what it knows, from now on."""
        self._judge = judge
        self.snapshots.follow(judge)

    def forget(self, sources: Collection[str]) -> None:
        """Show nothing more of sources that are no longer read: neither an alert nor a verdict may
        wait for them.
        """
        if not sources:
            return
        for metric in OF_SOURCES:
            for name in sources:
                self.metrics.replace(metric, {}, name)
        self.exposition.forget(sources)
        self.device_health.forget(sources)

    def start(self) -> None:
        """Begin to write."""
        for outlet in self._outlets:
            outlet.start()
        if self._bus:
            self._bus.start()

    def watch(self) -> None:
        """Give new GPUs their XID counters, born at zero."""
        gpus = self.inventory.devices("gpu")
        if gpus != self._gpus:
            self._gpus = gpus
            self.xids.register(gpus)

    def close(self, deadline_s: float) -> list[str]:
        """Drain what is queued within the deadline and seal it; what was not kept, and why."""
        left = 0
        for sink in self.sinks:
            if isinstance(sink, Outlet):
                left += sink.close(deadline_s)
            elif isinstance(sink, Closable):
                sink.close()
        lost = round(self.metrics.value(agent.STORE_LOST) or 0)
        refused = self._store_writer.refused
        problems = {
            f"{lost} observations were not stored, the last because of: {refused}": refused,
            f"{left} observations were still queued for the disk": left,
            f"state that could not be saved: {', '.join(self.state.pending)}": self.state.pending,
            f"the detectors' state could not be saved: {self.snapshots.trouble}": (
                self.snapshots.trouble
            ),
        }
        return [text for text, true in problems.items() if true]

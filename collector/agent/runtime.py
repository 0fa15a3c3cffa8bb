"""What stands while configurations come and go: the agent's numbers, its memory of devices and XIDs, the store, the exposition."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from pathlib import Path

from collector.config import Config
from collector.findings_log import FindingsLog
from collector.inventory import Inventory
from collector.out_of_service import OutOfService
from collector.snapshots import Snapshots
from collector.sources.nccl.suspicion import Suspicions
from collector.state import State
from collector.told import Told
from collector.version import VERSION
from collector.web import AgentPages
from collector.web.recent import Recent
from collector.web.status import Node
from collector.world import World
from detectors.incidents import Incidents
from pipeline.catalog import agent
from pipeline.exposition import Exposition
from pipeline.exposition.process import ProcessSamples
from pipeline.interfaces import Closable, Sink
from pipeline.judge import Judge
from pipeline.outlet import Outlet
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.caretaker import Caretaker, upkeep_in_child
from pipeline.store.keeper import Keeper, seal_in_child
from pipeline.xid_counts import XidCounts

log = logging.getLogger("tocsin.agent")


class Standing:
    """The parts that a reload leaves in place. ``unhealthy``, ``unready`` and ``reloading`` are the running engine's to answer."""

    def __init__(
        self,
        config: Config,
        world: World,
        *,
        unhealthy: Callable[[], str],
        unready: Callable[[], str],
        reloading: Callable[[], bool],
    ) -> None:
        root = Path(config.storage.path)
        self.world = world
        self.own = SelfMetrics()
        self.state = State(root / "state")
        self.inventory = Inventory(world.host, self.state)
        self.xids = XidCounts(lambda document: self.state.save("xids", document), self.state.load("xids"), world.boot_id)
        self.exposition = Exposition(
            self.own, clock=world.clock, profile=config.exposition.profile, xids=self.xids, process=ProcessSamples()
        )
        self.out = OutOfService(self.state, self.own)
        self.told = Told(self.own, self.exposition.findings)
        self.snapshots = Snapshots(root, world.boot_id, world.clock, self.own)
        recent = Recent()
        node = Node(world.host, VERSION, world.simulated)
        self.pages = AgentPages(
            self.exposition,
            self.own,
            world.clock,
            node,
            unhealthy=unhealthy,
            unready=unready,
            reloading=reloading,
            health=lambda: self.told.health,
            out=self.out.all,
            recent=recent,
        )
        plan = config.storage.upload.plan
        seal = seal_in_child(root, config.storage.cluster, plan)
        self.suspicions = Suspicions()
        caretaker = Caretaker(world.clock, self.own, upkeep_in_child(root, config.storage.policy))
        keeper = Keeper(root, world.host, world.clock, self.own, seal=seal, uploads=plan is not None, caretaker=caretaker)
        # These write to disk: each behind a queue of its own, so that a slow disk delays neither readings nor one another.
        self._outlets = [
            Outlet(self.xids, self.own, world.clock),
            Outlet(keeper, self.own, world.clock),
        ]
        self.sinks: tuple[Sink, ...] = (
            self.exposition,
            self.told,
            self.out,
            FindingsLog(),
            self.snapshots,
            self.suspicions,
            recent,
            *self._outlets,
        )
        self._gpus: tuple[object, ...] = ()
        self.own.set(agent.BUILD_INFO, 1, VERSION, platform.python_version())
        self.own.set(agent.SIMULATED, float(bool(world.simulated)))

    def remember(self, judge: Judge) -> bool:
        """Give a judge the memory of the last life, show what stood then, and keep its memory from now on; whether it knows of incidents."""
        cold = self.snapshots.restore(judge)
        self.exposition.resume(judge.standing(), judge.open())
        self.told.resume(judge.open())
        self.snapshots.follow(judge)
        return Incidents.name not in cold

    def start(self) -> None:
        """Begin to write."""
        for outlet in self._outlets:
            outlet.start()

    def watch(self) -> None:
        """Give new GPUs their XID counters, born at zero."""
        gpus = self.inventory.devices("gpu")
        if gpus != self._gpus:
            self._gpus = gpus
            self.xids.register(gpus)

    def close(self, deadline_s: float) -> None:
        """Drain what is queued within the deadline and seal it."""
        for sink in self.sinks:
            if isinstance(sink, Outlet):
                sink.close(deadline_s)
            elif isinstance(sink, Closable):
                sink.close()

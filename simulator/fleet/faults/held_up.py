"""Where the jobs of a world of waits read their data: an NFS mount of each node, whose server other
people use too, and the control group of the job that runs.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.catalog.job_group import KIND as JOB_GROUP
from pipeline.catalog.storage import MOUNT
from pipeline.frame import Device
from simulator.fleet.columns import Columns
from simulator.fleet.plan import Plan
from simulator.fleet.world import FleetState, Process

MINUTE = 60.0
# Of a mount: median latency, ms, and requests a second; each node has its own, log-uniform. From
# an all-flash filer on a LAN to a busy one, and from a loader of large files to one of small.
LATENCY_MS, REQUESTS = (0.3, 30.0), (2.0, 2000.0)
SPREAD = 0.3  # log-normal, from minute to minute
# Somebody else's backup or copy: in so many minutes one begins, lasts, and makes requests slower.
BACKUPS, BACKUP_MINUTES, BACKUP_SLOWER = 0.003, (3.0, 30.0), (2.0, 30.0)
SLOWER = (1.5, 60.0)  # in a case, log-uniform: a server that is slow, or loaders that ask for more
NAMED = 0.7  # share of cases in which the mount is what is slow; else it is a local disk
OPERATIONS = {"read": 0.8, "other": 0.2}
FIELDS = [f"{kind}_{what}" for kind in OPERATIONS for what in ("operations", "microseconds")]


class Mounts:
    """Of all nodes: ``slower`` is by how much a case makes requests of each slower, 1 for none."""

    def __init__(self, plan: Plan) -> None:
        topology = plan.topology
        self._rng = np.random.default_rng([topology.seed, 7])
        self.slower = np.ones(topology.nodes)
        plan.inject(0.0, self._begin)
        # seeds, not generators: a run that is observed again is the same one
        for node, seed in enumerate(
            np.random.SeedSequence([topology.seed, 7]).spawn(topology.nodes)
        ):
            plan.inject(0.0, partial(self._serves, node=node, seed=seed))

    def case(self) -> float:
        """By how much one case makes requests slower: 1 where it is not the mount."""
        named = self._rng.random() < NAMED
        return _between(self._rng, SLOWER) if named else 1.0

    def _begin(self, world: FleetState) -> Process:
        self.slower[:] = 1.0
        hosts = world.topology.hosts
        facts = {"mountpoint": "/data", "device": "filer:/datasets", "fstype": "nfs4"}
        mounts = Columns(MOUNT, [Device(host, MOUNT, "0", facts) for host in hosts])
        groups = Columns(JOB_GROUP, [Device(host, JOB_GROUP, "0", {"job": ""}) for host in hosts])
        for name in FIELDS:
            mounts.set_counter(name, 0)
        for what, full in (("cpu", "some"), ("io", "some"), ("memory", "full")):
            groups.set_counter(f"pressure_{what}_{full}_microseconds", 0)
        world.waits.update({MOUNT: mounts, JOB_GROUP: groups})
        yield float("inf")

    def _serves(self, world: FleetState, *, node: int, seed: np.random.SeedSequence) -> Process:
        """Requests of each minute. A server that is slow answers fewer: the same are under way at
        most twice.
        """
        rng = np.random.default_rng(seed)
        usual_ms, requests = _between(rng, LATENCY_MS), _between(rng, REQUESTS)
        backup, until = 1.0, 0.0
        while True:
            if world.now_s >= until and rng.random() < BACKUPS:
                backup = _between(rng, BACKUP_SLOWER)
                until = world.now_s + rng.uniform(*BACKUP_MINUTES) * MINUTE
            slower = self.slower[node] * (backup if world.now_s < until else 1.0)
            latency_ms = usual_ms * slower * float(np.exp(rng.normal(0.0, SPREAD)))
            done = requests * MINUTE / max(1.0, slower / 2)
            for kind, share in OPERATIONS.items():
                n = round(share * done)
                world.waits[MOUNT].increase(f"{kind}_operations", n, node)
                spent = round(n * latency_ms * 1000)
                world.waits[MOUNT].increase(f"{kind}_microseconds", spent, node)
            yield MINUTE


def _between(rng: np.random.Generator, span: tuple[float, float]) -> float:
    low, high = np.log(span)
    return float(np.exp(rng.uniform(low, high)))

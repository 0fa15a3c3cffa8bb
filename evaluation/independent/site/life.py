"""What is read of a site, tick by tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.interface import Event, Rows, Tick
from evaluation.independent.site.cluster import PER_NODE, Cluster
from evaluation.independent.site.draw import Values
from evaluation.independent.site.faults import Effect, parts, sized
from evaluation.independent.site.gpus import Gpus
from evaluation.independent.site.links import Links
from evaluation.independent.site.manners import Manners
from evaluation.independent.site.room import Room
from evaluation.independent.site.work import Load, Now, Work

HOST_KIBIBYTES = 2.1e9
BOOTED_S = 1.77e9  # unix time before which the hosts were booted, and before the world begins


@dataclass(frozen=True)
class Site:
    """Everything that was drawn of a world."""

    cluster: Cluster
    room: Room
    works: Sequence[Work]
    effects: Sequence[Effect]
    events: Sequence[Event]
    manners: Manners
    lasts_s: float


class Life:
    """One pass over a world; every pass is the same."""

    def __init__(self, site: Site) -> None:
        self._site, self._cluster = site, site.cluster
        self._source = np.random.default_rng(site.manners.seed)
        self._gpus = Gpus(site.cluster, site.room, site.manners, self._source)
        self._links = Links(self._source, site.cluster)
        nodes = len(site.cluster.nodes)
        self._missing = np.zeros(nodes)
        self._booted = BOOTED_S - self._source.uniform(1, 90, nodes) * 86_400

    def ticks(self) -> Iterator[Tick]:
        """All of them."""
        waiting = sorted(self._site.events, key=lambda event: event.at_s)
        period = self._site.manners.period_s
        for number in range(1, int(self._site.lasts_s / period) + 1):
            at = number * period
            due = [event for event in waiting if event.at_s <= at]
            waiting = waiting[len(due) :]
            yield Tick(at, tuple(self._rows(at)), tuple(due))

    def _rows(self, at_s: float) -> Iterator[Rows]:
        active = [e for e in self._site.effects if e.start_s <= at_s < e.end_s]
        load, gone = self._load(at_s, active), self._gone()
        gpus = self._gpus.read(at_s, load, active)
        ports = self._links.read(self._site.manners.period_s, load.traffic, active)
        for values in (*gpus.values(), *ports.values()):
            values[gone[self._cluster.node_of]] = np.nan
        lost = self._cluster.node_of[parts(active, "lost")]
        visible = PER_NODE - np.bincount(lost, minlength=len(gone)).astype(float)
        nodes = self._cluster.nodes
        yield Rows("nvml", "gpu", self._cluster.gpus, gpus)
        yield Rows("nvml", "node", nodes, _less(gone, gpus_expected=8.0, gpus_visible=visible))
        yield Rows("infiniband", "ib_port", self._cluster.ports, ports)
        there = _less(gone, ib_ports_expected=8.0, ib_ports_visible=8.0)
        yield Rows("infiniband", "node", nodes, there)
        yield Rows("host", "node", nodes, self._host(gone))

    def _load(self, at_s: float, active: list[Effect]) -> Load:
        brake = sized(active, "power_brake", len(self._cluster.nodes))
        pace = 1 - np.repeat(brake, PER_NODE) / 2
        pace *= 1 - sized(active, "slow", len(pace))
        load, now = Load.idle(len(pace)), Now(at_s, pace, self._source)
        for work in self._site.works:
            if work.start_s <= at_s < work.end_s:
                work.fill(load, now)
        return load

    def _gone(self) -> NDArray[np.bool_]:
        """Nodes that are not read in this tick: reads are missed in runs."""
        manners, size = self._site.manners, len(self._missing)
        starts = self._source.random(size) < manners.missed / manners.run
        lasts = self._source.geometric(1 / manners.run, size)
        self._missing = np.where(starts, lasts, np.maximum(self._missing - 1, 0))
        return self._missing > 0

    def _host(self, gone: NDArray[np.bool_]) -> dict[str, Values]:
        free = self._source.uniform(0.6, 0.7, len(gone))
        return _less(
            gone,
            boot_time_seconds=np.floor(self._booted),
            clock_offset_nanoseconds=np.round(self._source.normal(0, 2e5, len(gone))),
            clock_synchronised=1.0,
            memory_total_kibibytes=HOST_KIBIBYTES,
            memory_available_kibibytes=np.round(HOST_KIBIBYTES * free),
            fabric_manager_running=1.0,
        )


def _less(gone: NDArray[np.bool_], **columns: Values | float) -> dict[str, Values]:
    """Columns of nodes, null where a node was not read."""
    return {name: np.where(gone, np.nan, value) for name, value in columns.items()}

"""Minutes of whole nodes at work: one clock, load and temperature for all GPUs of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockMeans
from detectors.kit.columns import Columns, Ring
from detectors.kit.groups import Groups, host_of
from detectors.kit.peers import MIN_PEERS, Peers
from detectors.kit.readings import duty, reading
from detectors.kit.stats import grouped_median
from pipeline.frame import Frame
from pipeline.small_arrays import or_else

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

REASONS = ("hw_thermal", "hw_power_brake", "sw_thermal")
ASKED = 0x2  # nvmlClocksEventReasonUserDefinedClocks (nvml.h): a clock was asked for
MEANS = ("clock", "work", "heat", "capped", "held", "asked")


class Minute(NamedTuple):
    """Means of a minute by node, (node,), NaN where no job worked on all of its GPUs: ln of the SM
    clock in MHz, ln of tensor and memory activity in percent, temperature in C; share of the time
    at the power limit, held back by heat or power brake, and at a clock that was asked for; the
    highest less the lowest ln clock of its GPUs; and how many readings it is the mean of.

    ``names`` of the nodes; ``keys``: nodes with equal ones have one job, model and settings, None
    where there is no job.
    """

    names: tuple[str, ...]
    keys: tuple[object, ...]
    clock: Floats
    work: Floats
    heat: Floats
    capped: Floats
    held: Floats
    asked: Floats
    width: Floats
    readings: Floats


class Nodes:
    """Makes minutes of nodes. ``columns`` are those of the GPUs and must have ``fills``."""

    def __init__(self, columns: Columns, peers: Peers, means: BlockMeans) -> None:
        self._columns, self._peers, self._means = columns, peers, means
        self.hosts = Groups(host_of)

    @staticmethod
    def fills() -> dict[str, Ring | float | int]:
        """The columns it needs."""
        return {**BlockMeans.fills(*MEANS), **Peers.fills(), "changed": 0}

    def sample(self, frame: Frame) -> None:
        """Take in a frame of GPUs."""
        columns = self._columns
        columns.show(frame)
        self._peers.look(frame)
        self._means.drop(self._peers.changed)
        columns["changed"] = columns["changed"] | self._peers.changed
        clock = columns.wide(reading(frame, "sm_clock_megahertz"))
        with np.errstate(divide="ignore", invalid="ignore"):
            clock = np.log(clock)
        busy = columns.wide(reading(frame, "gpu_utilization_percent"))
        at_work = self._peers.now(clock, busy)
        self._means.drop(at_work.dropped)
        works = np.isfinite(at_work.d)
        mask = columns.wide(reading(frame, "clock_event_reasons"))
        tensor, dram = (
            columns.wide(reading(frame, f"{name}_activity_percent")) for name in ("tensor", "dram")
        )
        samples = {
            "clock": clock,
            "work": tensor + dram,
            "heat": columns.wide(reading(frame, "temperature_celsius")),
            "capped": columns.wide(duty(frame, "power_cap")),
            "held": np.fmax.reduce([columns.wide(duty(frame, name)) for name in REASONS]),
            "asked": np.where(
                np.isfinite(mask), (or_else(mask).astype(np.int64) & ASKED) != 0, np.nan
            ),
        }
        self._means.add(**{name: np.where(works, x, np.nan) for name, x in samples.items()})

    def minute(self) -> tuple[Minute, Flags]:
        """The minute that ended, and which nodes have another job or setting since the one before,
        (node,).
        """
        columns = self._columns
        host = self.hosts.of(columns.devices)
        names = self.hosts.names
        readings = np.zeros(len(names))
        np.maximum.at(readings, host, columns["count_clock"])
        means = self._means.close()
        group = np.where(np.isfinite(means["clock"]), self._peers.group, -1)
        own = _only_group(group, host, len(names))
        inside = (group >= 0) & (group == own[host])
        node = np.where(inside, host, -1)
        values = {}
        for name in MEANS:
            values[name], count = grouped_median(means[name], node, len(names))
            if name == "clock":
                values[name] = np.where(count >= MIN_PEERS, values[name], np.nan)
        values["width"], values["readings"] = _width(means["clock"], node, len(names)), readings
        with np.errstate(divide="ignore", invalid="ignore"):
            values["work"] = np.log(np.maximum(values["work"], 1.0))
        changed = np.zeros(len(names), np.bool_)
        changed[host[columns["changed"] > 0]] = True
        columns["changed"] = np.zeros_like(columns["changed"])
        return Minute(names, self._keys(node, len(names)), **values), changed

    def _keys(self, node: NDArray[np.int64], nodes: int) -> tuple[object, ...]:
        """Nodes are never compared where each is judged alone."""
        keys: list[object] = [None] * nodes
        columns = self._columns
        if columns.joined or nodes == 1:
            return tuple(keys)
        devices = columns.devices
        first = np.full(nodes + 1, -1)
        first[node[::-1]] = np.arange(len(node))[::-1]  # the last is that of no node
        settings = or_else(columns["settings"][:, first[:-1]], -1.0).T.tolist()
        for place, row in enumerate(first[:-1].tolist()):
            gpu = devices[row]
            if row >= 0 and (job := self._peers.jobs.of(gpu.host, gpu.id)):
                keys[place] = (job, gpu.attributes.get("name", ""), *settings[place])
        return tuple(keys)


def _width(x: Floats, node: NDArray[np.int64], nodes: int) -> Floats:
    """Highest less lowest value of each node, (node,), NaN where there is none.

    >>> _width(np.array([1.0, 4.0, np.nan]), np.array([0, 0, 1]), 2).tolist()
    [3.0, nan]
    """
    low, high = np.full(nodes, np.inf), np.full(nodes, -np.inf)
    rows = (node >= 0) & np.isfinite(x)
    np.minimum.at(low, node[rows], x[rows])
    np.maximum.at(high, node[rows], x[rows])
    return np.where(high >= low, high - low, np.nan)


def _only_group(group: NDArray[np.int64], host: NDArray[np.int64], hosts: int) -> NDArray[np.int64]:
    """The one group of each host's rows, (host,), -1 where there is none, or several.

    >>> _only_group(np.array([0, 0, -1, 1, 2]), np.array([0, 0, 0, 1, 1]), 2).tolist()
    [0, -1]
    """
    low, high = np.full(hosts, np.iinfo(np.int64).max), np.full(hosts, -1)
    rows = group >= 0
    np.minimum.at(low, host[rows], group[rows])
    np.maximum.at(high, host[rows], group[rows])
    return np.where(low == high, high, -1)

"""Jobs that hold GPUs, by exporters of the scheduler: for sites whose series of GPUs name no job.

kube-state-metrics 2.19, docs/metrics/workload/pod: how many GPUs a pod asks for, and on which node
it runs; which of them is not said. guilbaults/slurm-job-exporter, slurm-job-exporter.py: each GPU
of a job by its index on the node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from history.meaning.labels import LabelMap, Labels, without_port
from history.site.series import Series, interval_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.int64]

REQUESTS, PHASE = "kube_pod_container_resource_requests", "kube_pod_status_phase"
SLURM = "slurm_job_utilization_gpu"
NAMES = (REQUESTS, PHASE, SLURM)
GPUS = "nvidia_com_gpu"  # kube-state-metrics writes nvidia.com/gpu so
UNKNOWN = "holds some GPUs of its node, and no series says which"
UNJOINED = "on a node of which no GPU is known by that name: map it in the file of labels (nodes)"
# A scrape of the scheduler's exporter counts for so many of its intervals; where it has one sample
# for those of a minute, Prometheus' default.
HOLDS, DEFAULT_MS = 2, 60_000


@dataclass(frozen=True, slots=True)
class Holder:
    """While it has samples (``times_ms``, rising), ``job`` holds GPU ``index`` of the node, or
    ``count`` GPUs where the index is empty.
    """

    job: str
    index: str
    count: int
    times_ms: Times


@dataclass(slots=True)
class Holders:
    """Takes the series of an hour."""

    _by_node: dict[str, list[Holder]] = field(default_factory=lambda: defaultdict(list))
    _pods: dict[tuple[str, str], list[tuple[str, Series]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _running: dict[tuple[str, str], Times] = field(default_factory=dict)

    def take(self, series: Series, mapping: LabelMap) -> None:
        """A series of one of ``NAMES``."""
        labels = series.labels
        # a target's own labels rename those of what it lists (honor_labels: false)
        pod = _own(labels, "namespace"), _own(labels, "pod")
        if series.name == PHASE:
            if labels.get("phase") == "Running":
                # more series of one pod: the exporter was restarted elsewhere, or servers are twins
                known = self._running.get(pod, series.times_ms[:0])
                self._running[pod] = np.union1d(known, series.times_ms[series.values == 1])
        elif series.name == REQUESTS:
            if labels.get("resource") == GPUS and (node := _own(labels, "node")):
                self._pods[pod].append((mapping.nodes.get(node, node), series))
        elif labels.get("slurmjobid"):
            node = without_port(_own(labels, "instance"))
            held = Holder(labels["slurmjobid"], labels.get("gpu", ""), 1, series.times_ms)
            if held.index:
                self._by_node[mapping.nodes.get(node, node)].append(held)

    def elsewhere(self, nodes: Collection[str]) -> Iterator[tuple[str, int]]:
        """Nodes that are none of these and have jobs, and their samples: an exporter that is
        scraped by its address names no node.
        """
        found = Counter[str]()
        for node, holders in self._by_node.items():
            found[node] += sum(len(one.times_ms) for one in holders)
        for node, series in chain.from_iterable(self._pods.values()):
            found[node] += len(series.times_ms)
        yield from sorted((node, n) for node, n in found.items() if node not in nodes)

    def of(self, node: str) -> list[Holder]:
        """Who held GPUs of a node; of pods, while they ran."""
        found = list(self._by_node.get(node, ()))
        for (space, name), requests in self._pods.items():
            own = [one for host, one in requests if host == node]
            if own:
                of_each = {
                    _own(one.labels, "container"): round(float(one.values[-1])) for one in own
                }
                count = sum(of_each.values())
                times = np.unique(np.concatenate([one.times_ms for one in own]))
                running = self._running.get((space, name))
                if running is not None or self._running:
                    times = np.intersect1d(times, running if running is not None else [])
                found.append(Holder(f"{space}/{name}", "", count, times.astype(np.int64)))
        return found


def _own(labels: Labels, name: str) -> str:
    return labels.get(f"exported_{name}") or labels.get(name, "")


def held(
    holders: Iterable[Holder], gpus: Mapping[str, str], times_ms: Mapping[str, Times]
) -> Iterator[tuple[str, Times, str]]:
    """GPU, times and job of each time in ``times_ms`` (by GPU) at which a job holds it; ``gpus``
    has the index of each GPU. A pod with all of a node's GPUs holds each; of one with fewer none
    is known, and is given without a GPU.
    """
    for one in holders:
        of_it = [gpu for gpu, index in gpus.items() if index == one.index]
        if not one.index:
            of_it = list(gpus) if one.count >= len(gpus) > 0 else []
        if not of_it:
            yield "", one.times_ms, one.job
        for gpu in of_it:
            times = times_ms.get(gpu, one.times_ms[:0])
            yield gpu, times[_holds(times, one.times_ms)], one.job


def _holds(times: Times, samples: Times) -> NDArray[np.bool_]:
    if not len(samples):
        return np.zeros(len(times), np.bool_)
    every_ms = interval_ms(samples) or DEFAULT_MS
    before = np.searchsorted(samples, times, side="right") - 1
    since_ms = times - samples[np.maximum(before, 0)]
    found: NDArray[np.bool_] = (before >= 0) & (since_ms < HOLDS * every_ms)
    return found

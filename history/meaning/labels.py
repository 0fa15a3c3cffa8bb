"""Which label names the node, the GPU, the port and the job: proposed from what is found, or read
from a file of the site.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from history.site.series import SiteError

Labels = Mapping[str, str]

# In the order in which they are believed. A Hostname that is the exporter's own is none. A
# Prometheus that federates without honor_labels is itself the instance of all that it has.
INSTANCES = ("exported_instance", "instance")
NODES = ("Hostname", "hostname", "node", "kubernetes_node", "nodename", "node_name", *INSTANCES)
GPUS = ("UUID", "uuid")
# The workload of a GPU: as the exporter wrote it, or as Prometheus renamed it.
JOBS = ("hpc_job", "exported_pod", "pod", "pod_name")
NAMESPACES = ("exported_namespace", "namespace", "pod_namespace")
# Of two Prometheus servers that scrape the same targets.
REPLICAS = ("prometheus_replica", "replica", "__replica__", "monitor_replica", "receive_replica")
EXPORTER = ("dcgm", "exporter")  # in the name of the exporter's own pod
CONTAINER = re.compile(r"[0-9a-f]{12}")  # Docker's name of a container: the begin of its id
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LabelMap:
    """Labels by what they name, best first; ``nodes`` renames nodes, ``replicas`` tell twins of one
    Prometheus apart; ``metrics`` are names as a site has them with those that exporters gave.
    """

    node: tuple[str, ...] = NODES
    gpu: tuple[str, ...] = GPUS
    job: tuple[str, ...] = JOBS
    replicas: tuple[str, ...] = REPLICAS
    nodes: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)

    def host(self, labels: Labels) -> str:
        """The node of a series, empty where no label names it."""
        for name in self.node:
            if value := labels.get(name):
                host = without_port(value)
                return self.nodes.get(value, self.nodes.get(host, host))
        return ""

    def gpu_of(self, labels: Labels) -> str:
        """The UUID of the GPU of a series, as NVML writes it; empty where there is none."""
        found = next((labels[name] for name in self.gpu if labels.get(name)), "")
        return found if not found or found.startswith(("GPU-", "MIG-")) else f"GPU-{found}"

    def job_of(self, labels: Labels) -> str:
        """The job that holds the GPU of a series, empty where none does: a Slurm job, or
        ``namespace/pod``.
        """
        for name in self.job:
            if value := labels.get(name):
                space = next((labels[n] for n in NAMESPACES if labels.get(n)), "")
                return value if name == "hpc_job" or not space else f"{space}/{value}"
        return ""

    def replica(self, labels: Labels) -> tuple[str, ...]:
        """What distinguishes this copy of a series from that of another server or exporter."""
        return tuple(labels.get(name, "") for name in ("job", "instance", *self.replicas))


def without_port(value: str) -> str:
    """The host of ``host:port``; anything else as it is.

    >>> without_port("gpu-17:9400"), without_port("[fd00::7]:9100"), without_port("fd00::7")
    ('gpu-17', 'fd00::7', 'fd00::7')
    """
    if value.startswith("["):
        return value[1:].partition("]")[0]
    host, colon, port = value.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else value


def proposed(gpus: Iterable[Labels], names: Iterable[Labels]) -> LabelMap:
    """A mapping that fits what a site has.

    ``gpus`` are labels of series of GPUs; ``names`` those of ``node_uname_info``, which knows the
    host's own name for an instance.
    """
    gpus, names = list(gpus), list(names)
    known_hosts = {labels.get("nodename", "") for labels in names}
    node = [
        label
        for label in NODES
        if label in INSTANCES or not _is_exporters_own(label, gpus, known_hosts)
    ]
    # honorLabels: false leaves the exporter's own pod in `pod`, and the workload in `exported_pod`
    renamed = any("exported_pod" in labels for labels in gpus)
    own = any(word in labels.get("pod", "") for labels in gpus for word in EXPORTER)
    job = [label for label in JOBS if label != "pod" or not (renamed or own)]
    known = LabelMap(node=tuple(node), job=tuple(job))
    hosts = {known.host(labels) for labels in gpus} - {""}
    return LabelMap(known.node, known.gpu, known.job, known.replicas, _renamed(hosts, names))


def _is_exporters_own(label: str, gpus: Sequence[Labels], hosts: Collection[str]) -> bool:
    """Whether a label has the exporter's own pod or container, or where it asks DCGM: with ``-r``
    dcgm-exporter 4 gives that address as its host (``localhost``, ``nvidia-dcgm``), on all nodes.
    """
    found = [labels for labels in gpus if labels.get(label)]
    if any(labels[label] == labels.get("pod") for labels in found):
        return True
    values = Counter(labels[label] for labels in found)
    own = sum(n for value, n in values.items() if value in LOOPBACK or _is_container(value, hosts))
    return 2 * own > len(found) or (len(values) == 1 and _are_several(found))


def _is_container(value: str, hosts: Collection[str]) -> bool:
    return value not in hosts and CONTAINER.fullmatch(value) is not None


def _are_several(gpus: Iterable[Labels]) -> bool:
    """Whether targets list different GPUs: those of one machine are the same to each of them."""
    of_each: dict[str, set[str]] = {}
    for labels in gpus:
        target = without_port(next((labels[name] for name in INSTANCES if labels.get(name)), ""))
        of_each.setdefault(target, set()).add(LabelMap().gpu_of(labels))
    return any(not one & other for one, other in combinations(of_each.values(), 2))


def _renamed(hosts: set[str], names: Iterable[Labels]) -> dict[str, str]:
    """Instances of node_exporter as the names that GPUs' nodes have; where short names are the same
    and no two hosts share one.
    """
    short: dict[str, list[str]] = {}
    for host in hosts:
        short.setdefault(host.partition(".")[0], []).append(host)
    found = {}
    for labels in names:
        own = labels.get("nodename", "")
        same = [own] if own in hosts else short.get(own.partition(".")[0], [])
        instance = next((labels[name] for name in INSTANCES if labels.get(name)), "")
        if len(same) == 1 and instance:
            found[without_port(instance)] = same[0]
            found[own] = same[0]
    return {name: host for name, host in found.items() if name and name != host}


def carried_on(before: LabelMap, now: LabelMap, *, declared: bool) -> LabelMap:
    """The mapping of an import that goes on: as it began, so that no node gets a second name, and
    with nodes that have come since. ValueError where one that is ``declared``, or its names of
    metrics, say something else.
    """
    labels = replace(now, nodes={}, metrics={}) != replace(before, nodes={}, metrics={})
    nodes = any(before.nodes.get(name, host) != host for name, host in now.nodes.items())
    metrics = (declared or bool(now.metrics)) and now.metrics != before.metrics
    if metrics or (declared and (labels or nodes)):
        raise ValueError("the mapping is another one than before")
    return replace(before, nodes={**now.nodes, **before.nodes})


def read(path: Path) -> LabelMap:
    """The mapping of a file. SiteError with the key that is wrong."""
    try:
        with path.open("rb") as file:
            document = yaml.safe_load(file.read(MAX_FILE_BYTES))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise SiteError(f"{path}: {' '.join(str(error).split())}") from None
    return of(document, str(path))


def of(document: Any, path: str) -> LabelMap:
    """The mapping of a document. SiteError with the ``path`` and the key that is wrong."""
    if not isinstance(document, dict):
        raise SiteError(f"{path}: expected keys and values")
    known = asdict(LabelMap())
    for key, value in document.items():
        if key not in known:
            raise SiteError(f"{path}: unknown key {key!r}; there are {', '.join(known)}")
        if key in _EXPECTED:
            right = isinstance(value, dict) and all(
                isinstance(one, str) for pair in value.items() for one in pair
            )
        else:
            right = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not right:
            raise SiteError(f"{path}: {key}: expected {_EXPECTED.get(key, 'a list of labels')}")
    given: dict[str, Any] = {
        key: value if key in _EXPECTED else tuple(value) for key, value in document.items()
    }
    return LabelMap(**given)


_EXPECTED = {
    "nodes": "names of nodes with the names to use",
    "metrics": "names of metrics with those that the exporter gives",
}


def plain(mapping: LabelMap) -> dict[str, Any]:
    """A mapping as the document that would give it."""
    return {key: list(v) if isinstance(v, tuple) else dict(v) for key, v in asdict(mapping).items()}


def text(mapping: LabelMap) -> str:
    """Likewise, as a file."""
    dumped: str = yaml.safe_dump(plain(mapping), sort_keys=False, default_flow_style=None)
    return dumped

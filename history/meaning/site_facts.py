"""What a site's own series say of its nodes: rules that fired, nodes out of service.

ALERTS: Prometheus, rules/alerting.go. kube-state-metrics 2.19, docs/metrics/node. Slurm exporters
with a state per node: SckyzO, vpenso (the state is a label: series end when it changes), soperator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from history.meaning.labels import LabelMap, Labels

OUT_OF_SERVICE = re.compile(r"down|drain|fail|no_?resp|inval|error", re.IGNORECASE)
READY = "Ready"
# In the order in which they are believed. `instance` is the exporter that lists all nodes. Where a
# target has such a label itself (honor_labels: false), what it lists is in exported_*.
NODES = tuple(
    label
    for name in ("node", "node_name", "nodename", "Hostname", "hostname")
    for label in (f"exported_{name}", name)
)
MAX_CAUSE = 200  # characters


@dataclass(frozen=True, slots=True)
class SiteFact:
    """While the value is one of those that ``counts`` accepts, ``source`` says ``cause`` of
    ``node``; ``node`` is empty where none is named.
    """

    node: str
    source: str
    cause: str
    counts: Callable[[float], bool]


def fact_of(labels: Labels, mapping: LabelMap) -> SiteFact | None:
    """What a series says while it has samples; None where it says nothing of this kind."""
    made = FACTS[labels["__name__"]](labels)
    if made is None:
        return None
    source, cause, counts = made
    node = mapping.host(labels) if source == "alert" else _node(labels, mapping)
    return SiteFact(node, source, cause[:MAX_CAUSE], counts)


def _node(labels: Labels, mapping: LabelMap) -> str:
    found = next((labels[name] for name in NODES if labels.get(name)), "")
    return mapping.nodes.get(found, found)


Said = tuple[str, str, Callable[[float], bool]] | None


def _one(value: float) -> bool:
    return value == 1


def _any(_value: float) -> bool:
    return True


def _alert(labels: Labels) -> Said:
    if labels.get("alertstate") != "firing":
        return None
    return "alert", labels.get("alertname", "without a name"), _one


def _cordon(_labels: Labels) -> Said:
    return "kubernetes", "cordoned", _one


def _condition(labels: Labels) -> Said:
    name, status = labels.get("condition", ""), labels.get("status", "")
    if name == READY and status in ("false", "unknown"):
        return "kubernetes", "not ready", _one
    if name != READY and status == "true" and name:
        return "kubernetes", name, _one
    return None


def _slurm_state(labels: Labels) -> Said:
    state = labels.get("status") or labels.get("state", "")
    return ("slurm", state, _any) if OUT_OF_SERVICE.search(state) else None


def _slurm_status(labels: Labels) -> Said:
    made = _slurm_state(labels)
    return None if made is None else (made[0], made[1], _one)


def _slurm_reason(labels: Labels) -> Said:
    return "slurm", labels.get("reason") or "drained", _any


def _soperator(labels: Labels) -> Said:
    state = labels.get("base_state", "")
    if labels.get("is_drain") == "true":
        return "slurm", "drained", _one
    return ("slurm", state, _one) if OUT_OF_SERVICE.search(state) else None


FACTS: Mapping[str, Callable[[Labels], Said]] = {
    "ALERTS": _alert,
    "kube_node_spec_unschedulable": _cordon,
    "kube_node_status_condition": _condition,
    "slurm_node_status": _slurm_status,
    "slurm_node_cpu_alloc": _slurm_state,
    "slurm_node_drain_reason_info": _slurm_reason,
    "slurm_node_info": _soperator,
}

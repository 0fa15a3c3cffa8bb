"""An alert: its rule for Prometheus and its section of the runbook, in one row."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dashboards.places import Place

# Address of rules/README.md at a site: `make rules RUNBOOK_URL=https://...`.
RUNBOOK_URL = os.environ.get("RUNBOOK_URL", "https://runbooks.example.org/tocsin")

# The status page of the agent that an alert is about: it has the incident with its id. Behind TLS
# or a proxy: `AGENT_URL='https://{{ $labels.node }}:9400/' make rules`.
AGENT_URL = os.environ.get("AGENT_URL", "http://{{ $labels.instance }}/")

# The page of the gateway that leads for the alert's cluster, empty where none does:
# `GATEWAY_URL=https://gateway.example.org/ make rules` where operators reach it by one name.
GATEWAY_URL = os.environ.get(
    "GATEWAY_URL",
    '{{ with printf "instance:tocsin_fleet_leader:fresh{bus_cluster=%q}" $labels.bus_cluster '
    '| query }}http://{{ . | first | label "instance" }}/{{ end }}',
)

# Variables that a link to a panel sets: the labels that the alert has.
HERE = "".join(
    f"{{{{ with $labels.{name} }}}}&var-{name}={{{{ . | urlquery }}}}{{{{ end }}}}"
    for name in ("cluster", "instance")
)

Severity = Literal["critical", "warning", "info"]
Component = Literal["gpu", "fabric", "node", "pipeline"]
Scope = Literal["", "gpu", "port", "node", "switch", "job"]  # "": a label of the series
Action = Literal["page", "remediate", "rma", "observe"]
PageOf = Literal["agent", "leader", "none"]  # of the raw rules none, whatever they say


def gone(series: str) -> str:
    """Series of the last day that are no more. The Prometheus operator labels all series of a
    target with its pod: one that replaces another is the same target.
    """
    return f"{any_pod(f'last_over_time({series}[1d])')} unless {any_pod(series)}"


def gone_target(up: str) -> str:
    """Targets that are no more, and whose node has no other. Pods are scraped by address by
    default: one that replaces another has the same node.
    """
    on_node = up.replace("}", ', node!=""}')
    return f"({gone(up)})\nunless on (job, cluster, node) {on_node}"


def any_pod(series: str) -> str:
    """The series of a target, whichever pod it is scraped from: an alert goes on in the next one,
    and is not sent again.
    """
    return f"max without (pod) ({series})"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording rule. ``record`` is level:metric:operation; the metric ends in its unit."""

    record: str
    expr: str

    def rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: one name, one severity, one section of the runbook.

    ``hold`` is Prometheus' ``for``, ``keep`` its ``keep_firing_for`` (a reboot must not hide what
    happened before it). ``summary`` is constant, ``description`` a template: the device, the fact
    with its number, the action. ``needs`` names what a plain dcgm-exporter or node_exporter must be
    configured to export. ``panel`` draws its numbers. ``means``, ``confirm``, ``do`` and ``clears``
    are the runbook; with ``like`` its section refers to that of another alert. ``page_of`` is whose
    status page the alert links to: that of its ``instance``, or of the gateway that leads.
    ``labels`` are further ones, templates.
    """

    name: str
    expr: str
    severity: Severity
    component: Component
    scope: Scope
    action: Action
    family: str
    summary: str
    description: str
    means: str
    confirm: str
    do: str
    clears: str
    panel: Place
    hold: str = ""
    keep: str = ""
    needs: str = ""
    like: str = ""
    page_of: PageOf = "agent"
    labels: Mapping[str, str] = field(default_factory=dict)

    def rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        times = {
            key: value
            for key, value in (("for", self.hold), ("keep_firing_for", self.keep))
            if value
        }
        return {
            "alert": self.name,
            "expr": self.expr,
            **times,
            "labels": {key: value for key, value in self._labels().items() if value},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOK_URL}#{self.name.lower()}",
                "dashboard_url": self.panel.url + HERE,
            }
            | self._agent(),
        }

    def _agent(self) -> dict[str, str]:
        """The link to the agent or gateway, where the series is one's."""
        if not self.name.startswith("Tocsin") or self.page_of == "none":
            return {}
        return {"agent_url": AGENT_URL if self.page_of == "agent" else GATEWAY_URL}

    def _labels(self) -> dict[str, str]:
        return {
            "severity": self.severity,
            "component": self.component,
            "scope": self.scope,
            "action": self.action,
            "alert_family": self.family,
            **self.labels,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order: recordings before the alerts that read them."""

    name: str
    rules: tuple[Recording | Alert, ...]

    def document(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"name": self.name, "rules": [rule.rule() for rule in self.rules]}

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Its alerts."""
        return tuple(rule for rule in self.rules if isinstance(rule, Alert))

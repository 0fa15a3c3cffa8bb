"""``/api/v1/incidents``: open and closed incidents of the cluster, and each with its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, get_args

from collector.config.links import Links
from collector.web.explained import rules
from collector.web.incident_rows import finding_row, name_of, time
from collector.web.verdict import title
from detectors.faults import fault_of
from detectors.incidents.summary import cause_of
from gateway.api import paging, schema
from gateway.api.facts import Facts
from gateway.api.operation import Operation, View
from gateway.api.parameters import Parameter, Values
from gateway.api.problem import Problem
from gateway.api.reach import Reach, names, reach
from gateway.model import Cluster
from pipeline.documents import printable
from pipeline.finding import SEVERITIES, Action, Finding, Incident

Row = dict[str, Any]
MAX_NAMED = 64  # nodes and jobs that a row names; the numbers are of all
MAX_MEMBERS = 200  # findings of one incident that are shown
IDENTITY = "[0-9a-f]{4,16}"

_ROW_FIELDS: Mapping[str, schema.Schema] = {
    "id": schema.text("hexadecimal; the same on every gateway"),
    "state": schema.text("", "open", "closed"),
    "severity": schema.text("`record` is info, without an alert", *reversed(SEVERITIES)),
    "class": schema.text("fault class, as in docs/detectors.md"),
    "certain": schema.flag("a fact, and not a statistical judgement"),
    "kind": schema.text("of the root device: gpu, nvlink, ib_port, node, switch, rack, job, ..."),
    "device": schema.text("id of the root device"),
    "host": schema.text("its host"),
    "name": schema.text("its display name, such as `GPU 3`"),
    "title": schema.text("display name with the host"),
    "rack": schema.maybe(schema.text()),
    "serial": schema.maybe(schema.text()),
    "since": schema.time("when it opened"),
    "last_true": schema.maybe(schema.time("when its evidence was last true")),
    "true_now": schema.flag("whether any of its findings is still open"),
    "cleared": schema.maybe(schema.time("when it ended")),
    "ended": schema.text("why it ended"),
    "summary": schema.text(),
    "cause": schema.text("the first sentences of the summary, with the numbers of now"),
    "action": schema.text("what is proposed", *get_args(Action)),
    "reason": schema.text("the next step, and why"),
    "acknowledged": schema.maybe(schema.time()),
    "acknowledged_by": schema.text(),
    "note": schema.text(),
    "times": schema.whole("how often it happened while it was open"),
    "again": schema.maybe(schema.time("when it happened last")),
    "gpus_affected": schema.whole(),
    "nodes_affected": schema.whole(),
    "nodes": schema.array(schema.text(), f"at most {MAX_NAMED} names", most=MAX_NAMED),
    "jobs_affected": schema.whole(),
    "jobs": schema.array(schema.text(), f"at most {MAX_NAMED} ids", most=MAX_NAMED),
    "findings": schema.whole("how many it has"),
    "links": schema.table(schema.text(), "`web.runbook_url` and `web.dashboard_url`, filled in"),
}
ROW = schema.named("Incident", schema.obj(**_ROW_FIELDS))
_FINDING = schema.named(
    "Finding",
    schema.obj(
        id=schema.text(),
        detector=schema.text(),
        kind=schema.text(),
        device=schema.text(),
        host=schema.text(),
        name=schema.text("display name of the device"),
        fault=schema.text(),
        severity=schema.text("", *SEVERITIES),
        action=schema.text(),
        summary=schema.text(),
        evidence=schema.array(schema.text(), "the oldest first"),
        value=schema.maybe(schema.number()),
        expected=schema.maybe(schema.number()),
        unit=schema.text(),
        since=schema.time(),
        last_true=schema.time(),
        read=schema.flag("whether its device is being read"),
        ended=schema.maybe(schema.time()),
    ),
)
_RULE = schema.obj(
    "how a detector judges",
    detector=schema.text(),
    judges=schema.array(schema.text()),
    rule=schema.text(),
    sources=schema.array(schema.text()),
    next_step=schema.text(),
    clears=schema.text(),
)


def _row(incident: Incident, its: Sequence[Finding], cluster: Cluster, links: Links) -> Row:
    root, facts = incident.root, Facts(cluster)
    about, affected = facts.facts(root), reach(incident, its, cluster)
    now = [cluster.current.get(one.id, one) for one in its if one.active and incident.active]
    row = {
        "id": incident.id,
        "state": "open" if incident.active else "closed",
        "severity": incident.severity,
        "class": incident.fault,
        "certain": fault_of(incident.fault).certain,
        "kind": printable(root.kind),
        "device": printable(root.id),
        "host": printable(root.host),
        "name": name_of(root, facts),
        "rack": printable(about.get("rack", "")) or None,
        "serial": printable(about.get("serial", "")) or None,
        "since": time(incident.opened_ns),
        "last_true": time(max(one.time_ns for one in now or its)) if its else None,
        "true_now": bool(now),
        "cleared": time(incident.cleared_ns) if incident.cleared_ns else None,
        "ended": printable(incident.ended),
        "summary": printable(incident.summary),
        "cause": printable(_cause(incident, its, cluster)),
        "action": incident.action,
        "reason": printable(incident.reason),
        "acknowledged": time(incident.acknowledged_ns) if incident.acknowledged_ns else None,
        "acknowledged_by": printable(incident.acknowledged_by),
        "note": printable(incident.note),
        "times": incident.times,
        "again": time(incident.again_ns) if incident.again_ns else None,
        "findings": len(incident.findings),
        "links": _links(incident, about, links),
        **_affected(affected, cluster),
    }
    return {**row, "title": title(row)}


def _affected(affected: Reach, cluster: Cluster) -> Row:
    return {
        "gpus_affected": len(affected.gpus),
        "nodes_affected": len(affected.nodes),
        "nodes": names(cluster, affected.nodes[:MAX_NAMED]),
        "jobs_affected": len(affected.jobs),
        "jobs": list(affected.jobs[:MAX_NAMED]),
    }


def _links(incident: Incident, facts: Mapping[str, str], links: Links) -> dict[str, str]:
    root = incident.root
    of_gpu = root.kind in ("gpu", "nvlink", "gpu_instance")
    values = {
        "host": root.host,
        "gpu": facts.get("index", "") if of_gpu else "",
        "uuid": root.id.partition("/")[0] if of_gpu else "",
        "device": root.id,
        "kind": root.kind,
        "class": incident.fault,
        "alert": f"tocsin{fault_of(incident.fault).alert.lower()}",
        "incident": incident.id,
    }
    return links.of({key: printable(value) for key, value in values.items()})


def _cause(incident: Incident, its: Iterable[Finding], cluster: Cluster) -> str:
    """The first sentences of its summary, with the numbers of now where they are known."""
    cause = cause_of(incident.summary)
    for finding in its:
        now = cluster.current.get(finding.id) if finding.active else None
        if now is not None and cause.startswith(finding.summary):
            return now.summary + cause.removeprefix(finding.summary)
    return cause


def _members(incident: Incident, cluster: Cluster) -> list[Finding]:
    found = ((cluster.finding.get(one) or cluster.ended.get(one)) for one in incident.findings)
    return [one for one in found if one is not None]


def _urgency(row: Row) -> tuple[object, ...]:
    affects = (-row["gpus_affected"], -row["jobs_affected"])
    return (
        -SEVERITIES.index(row["severity"]), not row["certain"], *affects, row["since"], row["id"],
    )  # fmt: skip


@lru_cache(maxsize=1)
def rows(cluster: Cluster, links: Links) -> tuple[Row, ...]:
    """All incidents: the open ones, the most urgent first, then those that are over, the newest
    first. Made once per snapshot.
    """
    opened = [_row(one, _members(one, cluster), cluster, links) for one in cluster.incidents]
    past = [_row(one.incident, one.findings, cluster, links) for one in cluster.past]
    return (*sorted(opened, key=_urgency), *past)


def listed(view: View, values: Values, _: object = None) -> Any:
    """A page of those that are asked for."""
    found = [row for row in rows(view.cluster, view.links) if _matches(row, values)]
    part, cursor = paging.page(found, lambda row: str(row["id"]), values)
    return paging.answer("incidents", part, len(found), cursor, time(view.cluster.time_ns))


def _matches(row: Row, values: Values) -> bool:
    return (
        values["state"] in ("all", row["state"])
        and all(values[key] in (None, row[key]) for key in ("severity", "kind", "host", "rack"))
        and (
            values["class"] is None
            or row["class"] == values["class"]
            or row["class"].startswith(values["class"] + "/")
        )
        and (values["job"] is None or values["job"] in row["jobs"])
        and (values["node"] is None or values["node"] in row["nodes"])
    )


def one(view: View, values: Values, _: object = None) -> Any:
    """Everything about one."""
    cluster, text = view.cluster, values["id"]
    known = {each.id: each for each in cluster.incidents}
    past = {each.incident.id: each for each in cluster.past}
    ids = [*known, *past]
    found = [each for each in ids if each == text] or [e for e in ids if e.startswith(text)]
    if len(found) != 1:
        several = f"{len(found)} incidents begin so" if found else "no open or recent incident"
        raise Problem(404, f"id: {several}: {text}", "id")
    incident = known[found[0]] if found[0] in known else past[found[0]].incident
    its = _members(incident, cluster) if incident.active else list(past[incident.id].findings)
    shown = [_finding(each, cluster) for each in its[:MAX_MEMBERS]]
    return {
        **_row(incident, its, cluster, view.links),
        "standing": [each for each in shown if each["ended"] is None],
        "over": [each for each in shown if each["ended"] is not None],
        "rules": rules(shown),
    }


def _finding(finding: Finding, cluster: Cluster) -> Row:
    current = cluster.current.get(finding.id)
    row = finding_row(finding, current, _unread(finding, cluster))
    device = finding.device
    return {**row, "host": printable(device.host), "name": name_of(device, Facts(cluster))}


def _unread(finding: Finding, cluster: Cluster) -> frozenset[str]:
    """The device's id where its host sends nothing."""
    node = cluster.layout.node_at.get(finding.device.host)
    silent = node is not None and bool(cluster.levels.silent[node])
    return frozenset({printable(finding.device.id)} if silent else ())


LIST = Operation(
    id="incidents",
    path="/api/v1/incidents",
    summary="Open and closed incidents",
    text="Open ones first, the most urgent first: by severity, certainty, GPUs and jobs affected, "
    "then age; then those that ended within a day (at most 100), the newest first.",
    parameters=(
        Parameter("state", "which", choices=("open", "closed", "all"), default="open"),
        Parameter("severity", "of this severity", choices=tuple(reversed(SEVERITIES))),
        Parameter("class", "of this fault class, or below it: `ib` has `ib/link_down`"),
        Parameter("kind", "whose root device is of this kind"),
        Parameter("host", "whose root device is on this host"),
        Parameter("node", "that affect this node (the first 64 of each incident)"),
        Parameter("rack", "whose root device is in this rack"),
        Parameter("job", "that affect this job (the first 64 of each incident)"),
        *paging.PARAMETERS,
    ),
    tenants=True,
    answer=schema.named("Incidents", paging.schema("incidents", ROW)),
    handler=listed,
)
ONE = Operation(
    id="incident",
    path="/api/v1/incidents/{id}",
    summary="One incident with its evidence",
    text="With its findings (at most 200) and the rules of their detectors. `tocsin explain` reads "
    "older ones from the store.",
    parameters=(
        Parameter(
            "id",
            "the id, or an unambiguous begin of it",
            where="path",
            pattern=IDENTITY,
            max_length=16,
            required=True,
        ),
    ),
    tenants=True,
    answer=schema.named(
        "IncidentDetails",
        schema.obj(
            **_ROW_FIELDS,
            standing=schema.array(_FINDING, "findings that are open"),
            over=schema.array(_FINDING, "findings that ended"),
            rules=schema.array(_RULE),
        ),
    ),
    handler=one,
    refusals={404: "no incident of that id is open or ended within a day, or several begin so"},
)

"""Labels of incidents in a store, and the incidents that can be labelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import polars as pl

from pipeline.arrival_cut import GATEWAY
from pipeline.store.query.as_judged import as_judged
from pipeline.store.query.store import Store

Row = Mapping[str, Any]


def label_rows(store: Store) -> list[Row]:
    """Events ``incident_labelled``, oldest first: their attributes, and ``time`` (with a zone),
    ``host``, ``kind`` and ``device`` of the root device.
    """
    wanted = store.table("events").filter(pl.col("kind") == "incident_labelled")
    rows = store.collect(wanted).sort("time", "seq", "n").to_dicts()
    return [
        {
            **orjson.loads(row["attributes"]),
            "time": row["time"],
            "host": orjson.loads(row["device_attributes"])[0],
            "kind": row["device_kind"],
            "device": row["device"],
        }
        for row in rows
    ]


def incident_rows(store: Store) -> list[Row]:
    """Every incident as it was last, by when it opened: the table's columns, and ``detectors``,
    names in the order of evidence.
    """
    incidents = as_judged(store.collect(store.table("incidents")))
    findings = store.collect(store.table("findings").select("id", "detector").unique("id"))
    detector = dict(findings.iter_rows())
    last = {row["id"]: row for row in incidents.iter_rows(named=True)}
    return [
        {**row, "detectors": _names(row["findings"], detector)}
        for row in sorted(last.values(), key=lambda row: row["opened"])
    ]


def _names(findings: list[str], detector: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(detector[one] for one in findings if one in detector))


def opening_rows(store: Store, judge: str = GATEWAY) -> list[Row]:
    """Every incident of one judge, a gateway or the agent of a host, as it was reported first, by
    when it opened: the table's columns, and of the finding with its first evidence ``detector``,
    ``value`` and ``expected`` as it was first, and ``host`` of its device.

    Agents and gateways report the same fault with other numbers, and often under one id. An
    incident whose finding is not in the store is left out.
    """
    wanted = ("id", "detector", "value", "expected", "device_attributes", "time", "seq", "boot_id")
    own = store.table("findings").filter(pl.col("host") == judge).select(wanted)
    findings = as_judged(store.collect(own))
    boots = findings["boot_id"].unique().to_list()
    reported = store.table("incidents").filter(pl.col("boot_id").is_in(boots))
    incidents = as_judged(store.collect(reported))
    first = {row["id"]: row for row in reversed(findings.to_dicts())}
    opened = {row["id"]: row for row in reversed(incidents.to_dicts())}
    found: list[Row] = []
    for row in sorted(opened.values(), key=lambda row: row["opened"]):
        root = next((first[one] for one in row["findings"] if one in first), None)
        if root is not None:
            about = {name: root[name] for name in ("detector", "value", "expected")}
            host = orjson.loads(root["device_attributes"])[0]
            found.append({**row, **about, "host": host})
    return found

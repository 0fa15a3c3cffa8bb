"""Incidents and findings that touched a job: they name it, or are about its GPUs, ports or hosts
while it ran.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson
import polars as pl

from pipeline.gpu_parts import gpu_id
from pipeline.job_names import base
from pipeline.store.query.as_judged import as_judged
from pipeline.store.query.job_runs import JobRun
from pipeline.store.query.store import Store, Window

Row = dict[str, Any]
OF_A_HOST = ("node", "ib_port", "nvswitch")


def incidents_of(store: Store, window: Window, run: JobRun) -> list[Row]:
    """The newest row of each incident, the first that opened first."""
    rows = as_judged(store.collect(store.table("incidents", window))).to_dicts()
    newest = {row["id"]: row for row in rows}
    hosts = {span.host for span in run.spans}
    found = [row for row in newest.values() if _touches(row, run, hosts)]
    return sorted(found, key=lambda row: row["opened"])


def findings_of(store: Store, window: Window, run: JobRun, detectors: Collection[str]) -> list[Row]:
    """The newest row of each finding of some detectors about the job or its parts."""
    asked = store.table("findings", window).filter(pl.col("detector").is_in(list(detectors)))
    newest = {row["id"]: row for row in as_judged(store.collect(asked)).to_dicts()}
    hosts = {span.host for span in run.spans}
    return [
        row
        for row in newest.values()
        if _about(row, run, hosts)
        or (row["device_kind"] == "job" and base(row["device"]) == run.job)
    ]


def _touches(row: Row, run: JobRun, hosts: Collection[str]) -> bool:
    named = run.job in {base(job) for job in row["jobs"] or ()}
    return (
        named
        or (row["device_kind"] == "job" and base(row["device"]) == run.job)
        or (not row["jobs"] and _about(row, run, hosts))
    )


def _about(row: Row, run: JobRun, hosts: Collection[str]) -> bool:
    """Whether its device is a part of the job: a GPU, an instance or link of one, a port or node of
    its hosts.
    """
    if gpu := gpu_id(row["device_kind"], row["device"]):
        return gpu in run.gpus
    return row["device_kind"] in OF_A_HOST and _host(row) in hosts


def _host(row: Row) -> str:
    """The device's own host: a gateway stores incidents under its name."""
    if attributes := row.get("device_attributes"):
        return str(orjson.loads(attributes)[0])
    return str(row["host"])

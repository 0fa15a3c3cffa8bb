"""Rows of nodes and devices: level, score, what is left of them, and why not more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.integrations.health import COOL_CELSIUS, HOTTEST_WORTH
from collector.web.incident_rows import name_of, time
from collector.web.levels import WORST_FIRST, Level
from gateway.api import schema
from gateway.api.facts import Facts
from gateway.model import Cluster
from gateway.model.last_values import LastValues
from pipeline.documents import printable
from pipeline.finding import Finding

Row = dict[str, Any]
MAX_REASONS = 5
MAX_TEXT = 300  # characters of a reason, which may quote what a kernel log said
# What a device of each level is worth for a new job, as in collector/integrations/health.py: `warn`
# is degraded or predicted to fail, and 0 is what must not be used, or is not known.
WORTH: Mapping[Level, float] = {
    "ok": 1.0,
    "note": 1.0,
    "warn": 0.4,
    "bad": 0.0,
    "blind": 0.0,
    "out": 0.0,
}
_WORTH = np.array([WORTH[level] for level in WORST_FIRST])
# What is shown of a device: name, column, and by what its native value is divided.
_SHOWN = {
    "gpu": (
        ("gpu_utilization_percent", "gpu_utilization_percent", 1),
        ("power_watts", "power_milliwatts", 1000),
        ("temperature_celsius", "temperature_celsius", 1),
        ("memory_free_bytes", "memory_free_bytes", 1),
        ("nvlinks_up", "nvlinks_up", 1),
        ("nvlinks_down", "nvlinks_down", 1),
    ),
    "ib_port": (("rate_bits_per_second", "rate_bits_per_second", 1),),
}

LEVEL = schema.text("the worse of what is read and what was found", *WORST_FIRST)
REASONS = schema.array(
    schema.text(), "why not `ok`: open findings, the gravest first", most=MAX_REASONS
)
NODE = schema.named(
    "Node",
    schema.obj(
        kind=schema.text("", "node"),
        id=schema.text(),
        host=schema.text(),
        name=schema.text(),
        level=LEVEL,
        score=schema.whole("worth for a new job: the mean of its GPUs by the worst of its ports",
                           0, 100),
        silent=schema.flag("its host sends nothing"),
        sent=schema.maybe(schema.time("when its host sent last")),
        rack=schema.maybe(schema.text()),
        model=schema.text("of its GPUs"),
        leaves=schema.array(schema.text(), "leaf switches of its ports"),
        gpus=schema.whole(),
        free_gpus=schema.whole("that no job holds"),
        jobs=schema.array(schema.text(), "that hold its GPUs"),
        reasons=REASONS,
    ),
)  # fmt: skip
DEVICE = schema.named(
    "Device",
    schema.obj(
        kind=schema.text("", "gpu", "ib_port"),
        id=schema.text(),
        host=schema.text(),
        name=schema.text("display name"),
        level=LEVEL,
        score=schema.whole("worth for a new job", 0, 100),
        jobs=schema.array(schema.text()),
        reasons=REASONS,
        serial=schema.maybe(schema.text()),
        leaf=schema.maybe(schema.text("leaf switch")),
        rail=schema.maybe(schema.text()),
        seen=schema.maybe(schema.time("when its state was read last")),
        values=schema.table(schema.maybe(schema.number()), "last values; null: never observed"),
    ),
)


class Devices:
    """Makes rows of one snapshot. ``worth``: (node,), 0 to 1; ``free`` bool (gpu,)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._layout, self._levels = cluster, cluster.layout, cluster.levels
        self._facts = Facts(cluster)
        self.margin = margins(cluster.gpus)[self._layout.gpu_rows]
        cool = np.where(
            np.isnan(self.margin),
            1.0,
            np.minimum(
                1.0,
                HOTTEST_WORTH + (1 - HOTTEST_WORTH) * np.maximum(self.margin, 0.0) / COOL_CELSIUS,
            ),
        )
        self.gpu_worth = _WORTH[self._levels.gpus] * cool
        self.port_worth = _WORTH[self._levels.ports]
        self.free = np.ones(len(self._layout.gpus), np.bool_)
        for job in cluster.jobs:
            self.free[list(job.gpus)] = False
        self.worth = self._nodes()

    def _nodes(self) -> NDArray[np.float64]:
        count = np.bincount(self._layout.gpu_node, minlength=len(self._layout.nodes))
        total = np.bincount(
            self._layout.gpu_node, weights=self.gpu_worth, minlength=len(self._layout.nodes)
        )
        worth = np.divide(total, count, out=np.zeros(len(count)), where=count > 0)
        np.minimum.at(worth, self._layout.port_node, self.port_worth)
        found: NDArray[np.float64] = np.minimum(worth, _WORTH[self._levels.nodes])
        return found

    def node(self, row: int) -> Row:
        """A node."""
        cluster, node = self._cluster, self._layout.nodes[row]
        name = printable(node.name)
        sent_ns = int(cluster.sent_ns[row])
        return {
            "kind": "node",
            "id": name,
            "host": name,
            "name": name,
            "level": WORST_FIRST[self._levels.nodes[row]],
            "score": round(100 * float(self.worth[row])),
            "silent": bool(self._levels.silent[row]),
            "sent": time(sent_ns) if sent_ns else None,
            "rack": printable(node.rack) or None,
            "model": printable(node.model),
            "leaves": [printable(leaf) for leaf in node.leaves],
            "gpus": node.gpus.stop - node.gpus.start,
            "free_gpus": int(self.free[node.gpus].sum()),
            "jobs": [job.id for job in cluster.holders.get(row, ())],
            "reasons": reasons(cluster.reasons.get(node.name, ())),
        }

    def gpu(self, row: int) -> Row:
        """A GPU, by its row in the layout."""
        cluster = self._cluster
        values = _values(cluster.gpus, int(self._layout.gpu_rows[row]))
        holders = cluster.holders.get(int(self._layout.gpu_node[row]), ())
        jobs = [job.id for job in holders if row in job.gpus]
        margin = float(self.margin[row])
        values["values"]["thermal_margin_celsius"] = margin if math.isfinite(margin) else None
        return self._row("gpu", row, float(self.gpu_worth[row]), jobs, values)

    def port(self, row: int) -> Row:
        """A port, by its row in the layout."""
        values = _values(self._cluster.ports, int(self._layout.port_rows[row]))
        holders = self._cluster.holders.get(int(self._layout.port_node[row]), ())
        jobs = [job.id for job in holders]
        return self._row("ib_port", row, float(self.port_worth[row]), jobs, values)

    def _row(self, kind: str, row: int, worth: float, jobs: list[str], values: Row) -> Row:
        layout, cluster, gpu = self._layout, self._cluster, kind == "gpu"
        device = (layout.gpus if gpu else layout.ports)[row]
        codes = self._levels.gpus if gpu else self._levels.ports
        facts = device.attributes
        findings = cluster.reasons.get(device.host, ())
        return {
            "kind": kind,
            "id": printable(device.id),
            "host": printable(device.host),
            "name": name_of(device, self._facts),
            "level": WORST_FIRST[codes[row]],
            "score": round(100 * worth),
            "jobs": jobs,
            "reasons": reasons(
                one
                for one in findings
                if one.device.kind != "node" and one.device.id.partition("/")[0] == device.id
            ),
            **{key: printable(facts.get(key, "")) or None for key in ("serial", "leaf", "rail")},
            **values,
        }


def _values(values: LastValues, row: int) -> Row:
    """What is shown of a row of the frames, and when it was read."""
    found: Row = {}
    for name, column, unit in _SHOWN[values.kind]:
        value = float(values.of(column)[row]) / unit
        found[name] = value if math.isfinite(value) else None
    seen_ns = int(values.seen_ns[row])
    return {"seen": time(seen_ns) if seen_ns else None, "values": found}


def margins(gpus: LastValues) -> NDArray[np.float32]:
    """Degrees to the slow-down temperature, (device,) as in the frames: as the driver says it, or
    by subtraction (NVML's T.Limit came with Hopper); NaN = not known.
    """
    own = gpus.of("temperature_margin_celsius")
    made = gpus.of("temperature_slowdown_celsius") - gpus.of("temperature_celsius")
    found: NDArray[np.float32] = np.where(np.isfinite(own), own, made)
    return found


def reasons(findings: Iterable[Finding]) -> list[str]:
    """Summaries of findings that are more than info, the gravest first."""
    listed = dict.fromkeys(
        " ".join(printable(one.summary).split())[:MAX_TEXT]
        for one in findings
        if one.active and one.severity != "record"
    )
    return [*listed][:MAX_REASONS]

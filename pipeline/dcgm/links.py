"""NVLinks as entities of their own: dcgm-exporter's rows for fields of link level."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.dcgm.entities import LabelStyle
from pipeline.exposition.latest import Entry, Snapshot
from pipeline.exposition.loose import Labels

UP = 1.0
# Rows of NVLinks spell it so in 4.8.2 too, whose GPU rows have Hostname
# (internal/pkg/rendermetrics/render_metrics.go of dcgm-exporter, linkMetricsFormat).
HOSTNAME = "hostname"


@dataclass(frozen=True, slots=True)
class LinkEntity:
    """One link that is up, its row in the nvlink frame, and its labels in dcgm-exporter's order."""

    row: int
    labels: Labels


def link_entities(snapshot: Snapshot, links: Entry, style: LabelStyle) -> list[LinkEntity]:
    """Links that are up.

    Their label counts from 1 over the links of a GPU, so it is not NVML's
    number; ``-o`` changes nothing.
    """
    found: list[LinkEntity] = []
    place: dict[str, int] = {}
    up = links.frame.gauge("state")
    for row, device in enumerate(links.frame.devices):
        facts = snapshot.facts(device)
        gpu = facts.get("gpu_uuid", "")
        place[gpu] = place.get(gpu, 0) + 1
        if up[row] != UP or not links.fresh:
            continue
        index = facts.get("index", "")
        parent = next((d for d in snapshot.attributes if d.kind == "gpu" and d.id == gpu), None)
        about = snapshot.facts(parent) if parent is not None else {}
        labels = (
            ("nvlink", str(place[gpu])),
            ("gpu", index),
            ("gpu_uuid", gpu),
            ("pci_bus_id", about.get("pci_bus_id", "")),
            ("device", f"nvidia{index}"),
            ("model_name", about.get("name", "")),
            (HOSTNAME, style.hostname),
        )
        found.append(LinkEntity(row, tuple((name, value) for name, value in labels if value)))
    return found

"""Which GPUs and MIG instances have rows in the dialect, and under which labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pipeline.dcgm.select import FLEX, Selection
from pipeline.exposition.latest import Entry, Snapshot
from pipeline.exposition.loose import Labels
from pipeline.frame import Attributes, Device
from pipeline.gpu_state import GpuState

NOT_THERE = frozenset({GpuState.ABSENT, GpuState.PASSTHROUGH})


@dataclass(frozen=True, slots=True)
class LabelStyle:
    """How dcgm-exporter's switches change the labels; an empty
    ``hostname`` leaves that label away.
    """

    hostname: str = ""
    hostname_label: str = "Hostname"
    old_namespace: bool = False
    replace_blanks: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """One GPU or MIG instance: what it is, its rows in the frames (-1 = none), its own labels
    in dcgm-exporter's order.

    ``facts`` are all that is known of the GPU.
    """

    device: Device
    gpu: Device
    gpu_row: int
    instance_row: int
    labels: Labels
    facts: Attributes = field(compare=False)


def entities(
    snapshot: Snapshot,
    gpus: Entry,
    instances: Entry | None,
    present: frozenset[str],
    *,
    style: LabelStyle,
    selection: Selection = FLEX,
) -> list[Entity]:
    """Entities in the order of GPU index and instance.

    ``present`` are the ids of the instances that answer now.

    A GPU without index cannot be distinguished in this dialect and has no rows; neither has one
    that is known and not there.
    """
    found: list[Entity] = []
    place = 0
    for row, index in _by_index(snapshot, gpus):
        gpu = gpus.frame.devices[row]
        facts = snapshot.facts(gpu)
        inside = _inside(snapshot, instances, gpu, present)
        base = _base(gpu, facts, index, style)
        if selection.shows_gpu(index, has_instances=bool(inside)):
            found.append(Entity(gpu, gpu, row, -1, (*base, *_host(style)), facts))
        for number, instance, instance_row in inside:
            if selection.shows_instance(place, index, number):
                profile = snapshot.facts(instance).get("profile", "")
                mig = (("GPU_I_PROFILE", profile), ("GPU_I_ID", number))
                found.append(
                    Entity(instance, gpu, row, instance_row, (*base, *mig, *_host(style)), facts)
                )
            place += 1
    return found


def absent(gpus: Entry) -> frozenset[int]:
    """Rows of the GPUs that are known and that the driver does not have."""
    return frozenset(
        row for row, state in enumerate(gpus.frame.gauge("state").tolist()) if state in NOT_THERE
    )


def _by_index(snapshot: Snapshot, gpus: Entry) -> list[tuple[int, str]]:
    """Rows of the GPUs that have an index and are not absent, in order of index."""
    indexed = []
    gone = absent(gpus)
    for row, gpu in enumerate(gpus.frame.devices):
        index = snapshot.facts(gpu).get("index", "")
        if index.isascii() and index.isdigit() and row not in gone:
            indexed.append((int(index), row))
    return [(row, str(index)) for index, row in sorted(indexed)]


def _inside(
    snapshot: Snapshot, instances: Entry | None, gpu: Device, present: frozenset[str]
) -> list[tuple[str, Device, int]]:
    if instances is None:
        return []
    found = []
    for row, instance in enumerate(instances.frame.devices):
        facts = snapshot.facts(instance)
        if facts.get("gpu_uuid") == gpu.id and instance.id in present:
            found.append((facts.get("gpu_instance", ""), instance, row))
    return sorted(found, key=lambda item: (item[0].zfill(6), item[1].id))


def _base(gpu: Device, facts: Attributes, index: str, style: LabelStyle) -> Labels:
    model = facts.get("name", "")
    labels = (
        ("gpu", index),
        ("uuid" if style.old_namespace else "UUID", gpu.id),
        ("pci_bus_id", facts.get("pci_bus_id", "")),
        ("device", f"nvidia{index}"),
        ("modelName", re.sub(" +", "-", model) if style.replace_blanks else model),
    )
    return tuple((name, value) for name, value in labels if value)


def _host(style: LabelStyle) -> Labels:
    return ((style.hostname_label, style.hostname),) if style.hostname else ()

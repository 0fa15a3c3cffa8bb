"""Levels of all devices and nodes at once, as codes: the place in ``WORST_FIRST``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.web.levels import GPU_STATE, HEALTH, PORT_STATE, WORST_FIRST, Level
from detectors.incidents import health_of
from gateway.model.last_values import LastValues
from gateway.model.layout import Layout
from pipeline.catalog import field
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.gpu_parts import gpu_of

Codes = NDArray[np.uint8]
CODE: Mapping[Level, int] = {level: code for code, level in enumerate(WORST_FIRST)}
BAD, WARN, BLIND, OUT, NOTE, OK = (CODE[level] for level in WORST_FIRST)
# A host sends every five seconds and is waited for three more; after three batches it is silent.
SILENT_NS = 20 * SECOND_NS
# Readings of a device that are older, while its host sends: its source is silent. Where devices are
# read once a minute or less often, three periods, and no more than MAX_STALE_NS.
STALE_NS, MAX_STALE_NS, PERIODS = 60 * SECOND_NS, 900 * SECOND_NS, 3


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Codes by row of the layout; ``silent`` (node,): its host sends nothing."""

    nodes: Codes
    gpus: Codes
    ports: Codes
    silent: NDArray[np.bool_]


def _table(kind: str, levels: Mapping[str, Level]) -> Codes:
    """The code of each numbered state of a kind, by its number; BAD or BLIND for others."""
    states = field(kind, "state").states
    other = BAD if kind == "gpu" else BLIND
    table = np.full(max(number for number, _ in states) + 1, other, np.uint8)
    for number, name in states:
        table[number] = CODE[levels[name]] if name in levels else other
    return table


_TABLES = {"gpu": _table("gpu", GPU_STATE), "ib_port": _table("ib_port", PORT_STATE)}


def levels_of(
    layout: Layout,
    gpus: LastValues,
    ports: LastValues,
    *,
    findings: Iterable[Finding],
    out: Iterable[Device],
    sent_ns: NDArray[np.int64],
    now_ns: int,
) -> Levels:
    """The levels now. ``sent_ns`` (node,): when each host sent last, unix, 0 = never."""
    silent = sent_ns < now_ns - SILENT_NS
    of_gpus = _states(gpus, "gpu", layout.gpu_rows, now_ns)
    of_ports = _states(ports, "ib_port", layout.port_rows, now_ns)
    if "expected" in ports.columns and len(of_ports):
        unexpected = ports.of("expected")[layout.port_rows] == 0
        of_ports[unexpected & (of_ports <= WARN)] = NOTE
    of_nodes = np.full(len(layout.nodes), OK, np.uint8)
    _judged(layout, findings, of_gpus, of_ports, of_nodes)
    np.minimum(of_gpus, np.where(silent, BLIND, OK)[layout.gpu_node], out=of_gpus, casting="unsafe")
    np.minimum.at(of_nodes, layout.gpu_node, of_gpus)
    np.minimum.at(of_nodes, layout.port_node, of_ports)
    of_nodes[silent & (of_nodes > BLIND)] = BLIND
    _taken_out(layout, out, of_gpus, of_ports, of_nodes)
    return Levels(of_nodes, of_gpus, of_ports, silent)


def _states(values: LastValues, kind: str, rows: NDArray[np.intp], now_ns: int) -> Codes:
    """By the state that was read last; BLIND where that is not known, or long ago."""
    if not len(rows):
        return np.zeros(0, np.uint8)
    state, seen_ns = values.of("state")[rows], values.seen_ns[rows]
    table = _TABLES[kind]
    number = np.clip(np.nan_to_num(state, nan=0), 0, len(table) - 1).astype(np.intp)
    codes = table[number]
    patience_ns = np.clip(PERIODS * values.gap_ns[rows], STALE_NS, MAX_STALE_NS)
    codes[seen_ns < now_ns - patience_ns] = BLIND
    return codes


def _judged(
    layout: Layout, findings: Iterable[Finding], gpus: Codes, ports: Codes, nodes: Codes
) -> None:
    """The worse of state and findings; a finding without an alert is a note."""
    listed = [one for one in findings if one.active]
    health = health_of(listed)
    for device in {one.device for one in listed}:
        is_ = health.get(device, "ok")
        code = NOTE if is_ == "ok" else CODE[HEALTH[is_]]
        codes, row = place(layout, device, gpus, ports, nodes)
        if row is not None:
            codes[row] = min(codes[row], code)


def place(
    layout: Layout, device: Device, gpus: Codes, ports: Codes, nodes: Codes
) -> tuple[Codes, int | None]:
    """The codes and the row of a device; parts of a GPU are shown as the GPU."""
    if gpu := gpu_of(device):
        return gpus, layout.gpu_at(device.host, gpu)
    if device.kind == "ib_port":
        return ports, layout.port_at(device.host, device.id)
    return nodes, layout.node_at.get(device.host) if device.kind == "node" else None


def _taken_out(
    layout: Layout, out: Iterable[Device], gpus: Codes, ports: Codes, nodes: Codes
) -> None:
    """What is out of service is shown as that, whatever happens to it."""
    for device in out:
        codes, row = place(layout, device, gpus, ports, nodes)
        if row is None:
            continue
        codes[row] = OUT
        if device.kind == "node":
            gpus[layout.nodes[row].gpus] = OUT
            ports[layout.nodes[row].ports] = OUT

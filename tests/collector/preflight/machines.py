"""Machines for preflight from the simulator's frames: no files, no driver child."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collector.preflight.model import Machine, Row
from pipeline.observation import Reading
from simulator.frames import FrameRenderer
from simulator.node import Node
from simulator.profile import load_profile

HOST = {
    "memory_total_kibibytes": 2.0**31,
    "memory_available_kibibytes": 2.0**30,
    "clock_synchronised": 1.0,
    "clock_offset_nanoseconds": 2e4,
}


def idle(profile: str = "hgx-h100", seed: int = 0) -> Machine:
    """A healthy node without a job."""
    node = Node(load_profile(profile), seed)
    node.workload.drained.add("preflight")
    node.advance(30.0)
    frames = FrameRenderer(node, "n1")
    return Machine("n1", _rows(frames.nvml(0, 0)), _rows(frames.infiniband(0, 0)), dict(HOST))


def changed(machine: Machine, kind: str, index: int, **values: Any) -> Machine:
    """The machine with other values of one GPU or port; None takes a value away."""
    rows = list(getattr(machine, kind))
    merged = {**rows[index].values, **values}
    rows[index] = rows[index]._replace(values={k: v for k, v in merged.items() if v is not None})
    return (
        replace(machine, gpus=tuple(rows))
        if kind == "gpus"
        else replace(machine, ports=tuple(rows))
    )


def _rows(reading: Reading) -> tuple[Row, ...]:
    return tuple(Row(*record) for record in reading.frames[0].records())

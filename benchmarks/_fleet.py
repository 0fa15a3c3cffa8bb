"""A fleet of any size for the benchmark of the detectors: a small simulated
one, as often as it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from evaluation.runs.run import Job, rendered
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation

GPUS_PER_NODE = 8
SMALL = 125  # nodes that are really simulated, at most
SKIPPED = 4 * 200  # observations of the first half hour: jobs begin


def observations(gpus: int, ticks: int) -> Iterator[Observation]:
    """So many ticks of a working fleet of about so many GPUs: four observations each, frames of
    GPUs, ports and nodes among them.
    """
    nodes = max(1, gpus // GPUS_PER_NODE)
    small = min(nodes, SMALL)
    copies = nodes // small
    run = rendered(Job("H00", "nominal", 1, "dev", (), days=0.1, nodes=small))
    many = _Many(copies)
    begun = [many.of(o) for o in islice(run.observations(), SKIPPED) if o.events]
    yield from begun
    yield from map(many.of, islice(run.observations(), SKIPPED, SKIPPED + 4 * ticks))


class _Many:
    """Copies of a fleet side by side: every device, host and job of its own."""

    def __init__(self, copies: int) -> None:
        self._copies = copies
        self._devices: dict[tuple[str, int], tuple[tuple[Device, ...], tuple[Device, ...]]] = {}

    def of(self, one: Observation) -> Observation:
        """The observation of all copies."""
        if self._copies == 1:
            return one
        frames = tuple(
            self._frame(one.source, number, frame) for number, frame in enumerate(one.frames)
        )
        events = tuple(_event(event, copy) for copy in range(self._copies) for event in one.events)
        return replace(one, frames=frames, events=events)

    def _frame(self, source: str, number: int, frame: Frame) -> Frame:
        before, many = self._devices.get((source, number), ((), ()))
        if before is not frame.devices:
            many = tuple(
                _device(device, copy) for copy in range(self._copies) for device in frame.devices
            )
            self._devices[source, number] = (frame.devices, many)
        wide: NDArray[np.float64] = np.tile(frame.gauges, self._copies)
        counters, observed = (
            np.tile(frame.counters, self._copies),
            np.tile(frame.observed, self._copies),
        )
        return Frame(
            frame.schema,
            frame.time_ns,
            frame.mono_ns,
            many,
            wide,
            counters,
            observed,
            np.tile(frame.sampled_ns, self._copies),
        )


def _device(device: Device, copy: int) -> Device:
    facts = {
        name: f"{value}-{copy}" if name in ("rack", "leaf", "peer") else value
        for name, value in device.attributes.items()
    }
    return Device(f"{device.host}-{copy}", device.kind, f"{device.id}-{copy}", facts)


def _event(event: Event, copy: int) -> Event:
    facts = dict(event.attributes)
    if "job" in facts:
        facts["job"] = f"{facts['job']}-{copy}"
    if "gpus" in facts:
        facts["gpus"] = " ".join(f"{gpu}-{copy}" for gpu in str(facts["gpus"]).split())
    return replace(event, device=_device(event.device, copy), attributes=facts)

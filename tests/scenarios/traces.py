"""What a run shows, kept as arrays: (tick, device) per field, and all events.

For short runs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device
from pipeline.observation import Event
from simulator.fleet import Run, Truth, load_scenario, render

Floats = NDArray[np.float64]


@dataclass
class Trace:
    """Values by field, shape (tick, device); missing is NaN.

    ``begin_ns`` is the start of the run.
    """

    run: Run
    devices: tuple[Device, ...]
    values: dict[str, Floats]
    events: list[Event] = field(default_factory=list)

    def column(self, device: Device | str, name: str) -> Floats:
        """One field of one device over time."""
        assert isinstance(device, Device)
        return self.values[name][:, self.devices.index(device)]

    def at(self, time_ns: int) -> int:
        """The first tick whose reading shows what happened from a time on."""
        return int((time_ns - self.run.topology.begin_ns) / 1e9 // self.run.step_s)

    def during(self, truth: Truth, device: Device | str, name: str) -> tuple[Floats, Floats]:
        """One field of one device before and while a fault is there."""
        column, onset, end = (
            self.column(device, name),
            self.at(truth.onset_ns),
            self.at(truth.end_ns),
        )
        return column[:onset], column[onset + 1 : end]

    def reported(
        self, truth: Truth, kind: str = "xid", device: Device | str | None = None
    ) -> list[Event]:
        """Events of a kind between a fault's onset and a minute after its end,
        of one device or of all.
        """
        last = truth.end_ns + 60 * 10**9
        events = [e for e in self.events if e.kind == kind and truth.onset_ns <= e.time_ns <= last]
        return [e for e in events if device is None or e.device == device]


def rendered(name: str, seed: int = 1, **options: float | str) -> Run:
    """A scenario on eight nodes, half a day long unless told otherwise."""
    return render(load_scenario(name), seed, **{"nodes": 8, "days": 0.5, **options})  # type: ignore[arg-type] # passed on


def trace(run: Run, kind: str, *names: str) -> Trace:
    """Render a run and keep fields of one kind of device."""
    (kept,) = traces(run, **{kind: names})
    return kept


def traces(run: Run, **fields: Sequence[str]) -> tuple[Trace, ...]:
    """Render a run once and keep these fields of each of these kinds of device."""
    rows: dict[str, dict[str, list[Floats]]] = {
        kind: {name: [] for name in names} for kind, names in fields.items()
    }
    devices: dict[str, tuple[Device, ...]] = dict.fromkeys(fields, ())
    events: list[Event] = []
    for observation in run.observations():
        events += observation.events
        for frame in observation.frames:
            if frame.kind not in rows or (frame.kind == "node" and observation.source != "nvml"):
                continue
            devices[frame.kind] = frame.devices
            for name, column in rows[frame.kind].items():
                if name in frame.schema.gauge_row:
                    column.append(frame.gauge(name).copy())
                else:
                    values, observed = frame.counter(name)
                    column.append(np.where(observed, values.astype(np.float64), np.nan))
    return tuple(
        Trace(
            run,
            devices[kind],
            {name: np.array(column) for name, column in columns.items()},
            list(events),
        )
        for kind, columns in rows.items()
    )


def codes(events: list[Event]) -> list[int]:
    """Codes of XIDs as the kernel log told them."""
    return [
        int(event.attributes["code"]) for event in events if event.attributes["origin"] == "kmsg"
    ]

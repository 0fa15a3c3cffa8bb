"""A detector small enough to know by heart: a GPU above a limit for three readings in a row
is hot, until it is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from detectors.kit.snapshot import State, device_state, devices_from
from pipeline.align import Rows
from pipeline.finding import Finding
from pipeline.observation import Observation

LIMIT_C, PATIENCE = 80.0, 3


class Hot:
    """Remembers how often each GPU was hot in a row, and its findings."""

    name = "hot"
    version = 1

    def __init__(self) -> None:
        self._rows = Rows()
        self._run = np.zeros(0, np.int64)
        self._onset = np.zeros(0, np.int64)

    def update(self, observation: Observation) -> Iterable[Finding]:
        for frame in observation.frames:
            rows = np.array(self._rows.place(frame.devices), np.intp)
            more = len(self._rows) - len(self._run)
            self._run, self._onset = np.pad(self._run, (0, more)), np.pad(self._onset, (0, more))
            for row, device, value in zip(
                rows.tolist(),
                frame.devices,
                frame.gauge("temperature_celsius").tolist(),
                strict=True,
            ):
                before = self._run[row]
                self._run[row] = (
                    before + 1 if value > LIMIT_C else 0 if value <= LIMIT_C else before
                )
                if before < PATIENCE == self._run[row]:
                    self._onset[row] = frame.time_ns
                findings = Finding(
                    "hot",
                    device,
                    "thermal",
                    "onset",
                    "page",
                    int(self._onset[row]),
                    frame.time_ns,
                    "hot",
                )
                if before < PATIENCE == self._run[row]:
                    yield replace(findings, value=value, expected=LIMIT_C)
                elif before >= PATIENCE and self._run[row] == 0:
                    yield replace(findings, phase="cleared")

    def state(self) -> State:
        return device_state(self._rows.devices) | {"run": self._run, "onset": self._onset}

    def restore(self, state: State) -> None:
        devices, run, onset = devices_from(state), state["run"], state["onset"]
        if not len(devices) == len(run) == len(onset):
            raise ValueError("arrays of different lengths")
        self._rows, self._run, self._onset = Rows(devices), run.copy(), onset.copy()

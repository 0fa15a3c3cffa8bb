"""Every device against its own past: an exponentially weighted mean and a limit of so many sigma.

What is tried first everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from detectors.kit.stats import Moments, alpha_of, ew_update
from evaluation.baselines.board import Aligned, Board
from pipeline.finding import Finding, Severity
from pipeline.frame import Frame
from pipeline.observation import Observation

HALF_LIFE = 360.0  # samples: an hour at 10 s
WARM = 60  # samples before it judges
ACTIVE_PERCENT = 50.0  # utilisation below which a GPU is not compared with its busy past

# Field -> class of fault, least sigma in the field's own unit, severity.
METRICS: tuple[tuple[str, str, float, Severity], ...] = (
    ("sm_clock_megahertz", "straggler", 10.0, "page"),
    ("temperature_celsius", "thermal", 0.4, "ticket"),
    ("power_milliwatts", "power", 2000.0, "ticket"),
)


class EwmaZ:
    """Raw samples, own baseline, |z| above ``limit``; no peers, no persistence, no care for jobs.

    Flagged samples are not learnt.
    """

    name = "ewma-z"

    def __init__(self, limit: float = 6.0) -> None:
        self.limit = limit
        self._board = Board(self.name)
        self._aligned = Aligned()
        self._moments = {name: Moments.zeros(0) for name, *_ in METRICS}

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Every busy GPU in every frame."""
        for frame in observation.frames:
            if frame.kind == "gpu":
                yield from self._frame(frame)

    def _frame(self, frame: Frame) -> Iterator[Finding]:
        move = self._aligned.follow(frame)
        if move is not None:
            self._moments = {name: _moved(moments, move) for name, moments in self._moments.items()}
        active = frame.gauge("gpu_utilization_percent") >= ACTIVE_PERCENT
        for name, fault, floor, severity in METRICS:
            moments = self._moments[name]
            x = np.where(active, frame.gauge(name), np.nan)
            z = np.abs(x - moments.m) / moments.spread(floor)
            bad = (z > self.limit) & (moments.n >= WARM)
            known = np.isfinite(x)
            yield from self._board.judge(
                frame,
                f"{name} z",
                bad,
                severity,
                fault=fault,
                known=known,
                value=z,
                expected=self.limit,
            )
            ew_update(moments, x, alpha_of(HALF_LIFE), floor, frozen=bad)


def _moved(moments: Moments, move: np.typing.NDArray[np.intp]) -> Moments:
    kept = move >= 0
    fresh = Moments.zeros(len(move))
    for name in ("m", "v", "n"):
        getattr(fresh, name)[kept] = getattr(moments, name)[move[kept]]
    return fresh

"""The calibration of a configuration, said to the judge as an event, so that a replay meets it."""

from __future__ import annotations

import logging
from pathlib import Path

from detectors.trust.calibrated import Calibrated, changed
from detectors.trust.calibration import Calibration, ModelError, read
from pipeline.arrival_cut import GATEWAY
from pipeline.catalog import fleet as series
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.observation import Event
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.gateway")

REPEAT_S = 600  # as the arrival cut: who replays a part of a day finds it at most so long before


class LearntModel:
    """The model of a file. One that is wrong is refused with the configuration, before the gateway
    starts; one that cannot be read after that is named in the log, and what the judge remembers of
    before goes on.
    """

    def __init__(self, path: str, judge: Judge, metrics: SelfMetrics) -> None:
        self._judging = next((one for one in judge.memories if isinstance(one, Calibrated)), None)
        self._metrics = metrics
        self._sent_s, self._counted = -REPEAT_S, 0
        self._model: Calibration | None = None
        self._keeps = False
        try:
            self._model = read(Path(path)) if path else None
        except (ModelError, OSError) as error:
            log.error("detectors.calibration: %s: %s; what was judged by goes on", path, error)
            self._keeps = True
        metrics.add(series.LOWERED, amount=0)

    def events(self, second: int) -> tuple[Event, ...]:
        """What is said in a second that is judged: in the first, and once in ten minutes."""
        if second // REPEAT_S == self._sent_s // REPEAT_S:
            return ()
        self._sent_s = second
        judged_by = None if self._judging is None else self._judging.model
        model = judged_by if self._keeps else self._model
        if model is None and judged_by is None:
            return ()
        return (changed(model, GATEWAY, second * SECOND_NS),)

    def show(self) -> None:
        """The model in use and what it lowered, as series."""
        if self._judging is None:
            return
        model, count = self._judging.model, self._judging.lowered
        self._metrics.replace(series.CALIBRATION, {(model.hash,): 1.0} if model else {})
        if count > self._counted:
            self._metrics.add(series.LOWERED, amount=count - self._counted)
        self._counted = count

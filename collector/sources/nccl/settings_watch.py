"""When settings of jobs are looked at again, and what of them is new."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from collector.node.trainings import Trainings
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

log = logging.getLogger("tocsin.nccl")

EVERY_S, AGAIN_S = 600.0, 60.0  # between two looks, and two where processes came or went
MAX_DOCUMENT = 16_384  # characters of one job's problems in an event
Triage = Callable[[], Mapping[str, Any]]


class SettingsWatch:
    """Looks by ``triage``, {job: {"ranks", "problems"}}; without one there is nothing to say."""

    def __init__(self, triage: Triage | None, node: Device, trainings: Trainings) -> None:
        self._triage, self._node, self._trainings = triage, node, trainings
        self._looked_s = float("-inf")
        self._pids: frozenset[int] = frozenset()
        self._known: dict[str, str] = {}

    def read(self, pids: frozenset[int], now_s: float, at: Instant) -> Iterator[Event]:
        """An event for each job of which something else is known than before."""
        if self._triage is None or not pids:
            return
        if now_s - self._looked_s < (EVERY_S if pids == self._pids else AGAIN_S):
            return
        self._looked_s, self._pids = now_s, pids
        try:
            found = self._triage()
        except (OSError, ValueError, TypeError) as error:
            log.warning("settings of NCCL jobs: not looked at: %s", error)
            return
        known: dict[str, str] = {}
        for name, about in found.items():
            training = self._trainings.of_group(name)
            job = training.id if training else name
            text = known[job] = _document(about["problems"])
            if self._known.get(job) != text:
                facts: dict[str, Value] = {
                    "job": job,
                    "ranks": int(about["ranks"]),
                    "document": text,
                }
                yield Event(*at, self._node, "nccl_settings", facts)
        self._known = known


def _document(problems: Sequence[Any]) -> str:
    """Those that there is room for: the text of one may quote what a job wrote."""
    kept: list[Any] = []
    size = 2
    for one in problems:
        size_of_it = len(json.dumps(one)) + 2
        if size + size_of_it <= MAX_DOCUMENT:
            kept.append(one)
            size += size_of_it
    return json.dumps(kept)

"""When settings of jobs are looked at again, and what of them is new."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any

from collector.node.trainings import Trainings
from pipeline.clock import Instant
from pipeline.frame import Device
from pipeline.observation import Event, Value

log = logging.getLogger("tocsin.nccl")

EVERY_S, AGAIN_S = 600.0, 60.0  # between two looks, and two where processes came or went
MAX_DOCUMENT = 16_384  # characters of one job's problems in an event
Triage = Callable[[], Mapping[str, Any]]
Start = Callable[[Triage], "Future[Mapping[str, Any]]"]


def aside(triage: Triage) -> Future[Mapping[str, Any]]:
    """In a thread of its own, for which nobody waits: it lasts as long as jobs make it last."""
    looking: Future[Mapping[str, Any]] = Future()

    def look() -> None:
        try:
            looking.set_result(triage())
        except (OSError, ValueError, TypeError) as error:
            looking.set_exception(error)
        finally:
            if not looking.done():  # the thread's own traceback says why
                looking.set_exception(RuntimeError("the look failed"))

    Thread(target=look, name="nccl-settings", daemon=True).start()
    return looking


class SettingsWatch:
    """Looks by ``triage``, {job: {"ranks", "problems"}}, one at a time as ``start`` runs it;
    without ``triage`` there is nothing to say.
    """

    def __init__(
        self, triage: Triage | None, node: Device, trainings: Trainings, start: Start = aside
    ) -> None:
        self._triage, self._node, self._trainings = triage, node, trainings
        self._start = start
        self._looking: Future[Mapping[str, Any]] | None = None
        self._looked_s = float("-inf")
        self._pids: frozenset[int] = frozenset()
        self._known: dict[str, str] = {}

    def read(self, pids: frozenset[int], now_s: float, at: Instant) -> Iterator[Event]:
        """An event for each job of which something else is known than before."""
        due = now_s - self._looked_s >= (EVERY_S if pids == self._pids else AGAIN_S)
        if self._looking is None and self._triage is not None and pids and due:
            self._looked_s, self._pids = now_s, pids
            self._looking = self._start(self._triage)
        if self._looking is None or not self._looking.done():
            return
        looking, self._looking = self._looking, None
        try:
            found = looking.result()
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            log.warning("settings of NCCL jobs: not looked at: %s", error)
            return
        known: dict[str, str] = {}
        for name, about in found.items():
            training = self._trainings.of_group(name)
            job = training.id if training else name
            text = known[job] = json.dumps(fitting(about["problems"]))
            if self._known.get(job) != text:
                facts: dict[str, Value] = {
                    "job": job,
                    "ranks": int(about["ranks"]),
                    "document": text,
                }
                yield Event(*at, self._node, "nccl_settings", facts)
        self._known = known


def fitting(problems: Sequence[Any]) -> list[Any]:
    """Those that there is room for: the text of one may quote what a job wrote."""
    kept: list[Any] = []
    size = 2
    for one in problems:
        size_of_it = len(json.dumps(one)) + 2
        if size + size_of_it <= MAX_DOCUMENT:
            kept.append(one)
            size += size_of_it
    return kept

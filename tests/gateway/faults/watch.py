"""When gateways report, as Prometheus asks it: the one that has the lease and is not behind."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from rules.fleet import FRESH_S
from tests.agents import AgentProcess
from tests.wait import until

STEP_S = 0.2
# Of an answer that took longer it is not known when it was made: it counts for its last second.
KNOWN_S = 1.0
# Of a gateway that is asked while it dies.
DEATHS = (OSError, AssertionError, http.client.HTTPException)
LEADS = re.compile(r"^tocsin_fleet_leader 1(?:\.0)?$", re.MULTILINE)
TICK = re.compile(r"^tocsin_fleet_tick_timestamp_seconds (\S+)$", re.MULTILINE)


class Answer(NamedTuple):
    """Of one gateway, between two instants of the monotonic clock."""

    ended_s: float
    begun_s: float
    gateway: int
    reports: bool


class Silence(NamedTuple):
    """No gateway reports, between two instants of the monotonic clock."""

    begun_s: float
    ended_s: float


class Watch:
    """Asks all gateways that there are, until the end of ``with``."""

    def __init__(self, gateways: Callable[[], Sequence[AgentProcess]]) -> None:
        self._gateways, self._answers = gateways, list[Answer]()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        self._reporting()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def silences(self) -> list[Silence]:
        """Until one reports now: where another one reports than before, or the same one was seen
        not to. That an answer is late is no silence.
        """
        self._reporting()
        found: list[Silence] = []
        before: Answer | None = None
        broken = False
        for each in sorted(self._answers):
            if before and not each.reports:
                broken |= each.gateway == before.gateway
            if not each.reports:
                continue
            begun_s = max(each.begun_s, each.ended_s - KNOWN_S)
            if before and (broken or each.gateway != before.gateway) and begun_s > before.ended_s:
                found.append(Silence(before.ended_s, begun_s))
            before, broken = each, False
        return found

    def longest_s(self, until_s: float = 0.0) -> float:
        """The longest silence; what of it was before an instant does not count."""
        return max((end - max(begun, until_s) for begun, end in self.silences()), default=0.0)

    def _reporting(self) -> None:
        asked_s = time.monotonic()
        until(
            lambda: any(each.reports and each.begun_s > asked_s for each in [*self._answers]),
            "a gateway that reports",
            servers=[one for one in self._gateways() if one.process.poll() is None],
        )

    def _run(self) -> None:
        asked: dict[AgentProcess, Future[None]] = {}
        with ThreadPoolExecutor() as pool:
            while not self._end.wait(STEP_S):
                for one in [*self._gateways()]:
                    if one not in asked or asked[one].done():
                        asked[one] = pool.submit(self._ask, one)

    def _ask(self, gateway: AgentProcess) -> None:
        begun_s, now_s, text = time.monotonic(), time.time(), ""
        with contextlib.suppress(*DEATHS):
            _, text = gateway.get()
        tick = TICK.search(text)
        reports = bool(LEADS.search(text) and tick and now_s - float(tick[1]) < FRESH_S)
        self._answers.append(Answer(time.monotonic(), begun_s, gateway.process.pid, reports))

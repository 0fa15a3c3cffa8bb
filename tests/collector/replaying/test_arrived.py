"""A gateway's verdict is found again from the stores of its agents and its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collector.replaying.arrivals import cut_of
from collector.replaying.fleet import rejudge_fleet
from collector.replaying.stored import Span, stored_hours
from gateway.fleet import Fleet, JudgedSecond
from gateway.verdicts import Verdicts
from pipeline.bus import subjects
from pipeline.bus.batch import Batch, encode
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.plain import plain
from pipeline.selfmetrics import SelfMetrics
from tests.collector.replaying.kept import judge, keep
from tests.contracts.horizon.world import LIVES, simulated, struck
from tests.fakes import FakeClock

PERIOD_S = 10
# Seconds by which the clocks of hosts are wrong, from the begin.
WRONG_S = (0, 95, -40)
DAYS = 0.007


class Agents:
    """Hosts that send what they read each ten seconds. Some batches are lost, some come late."""

    def __init__(self, seed: int, wrong_s: Sequence[int] = WRONG_S) -> None:
        self._rng, self._wrong_s = np.random.default_rng(seed), wrong_s
        self.kept: list[JudgedObservation] = []
        self._last = dict[str, int]()
        self._number = dict[str, int]()

    def batches(self) -> Iterator[tuple[int, str, bytes]]:
        """When the broker has each, by its clock, with the host."""
        lives = tuple(replace(life, step_s=0.0) for life in LIVES[: len(self._wrong_s)])
        sent: list[tuple[int, str, bytes]] = []
        agents = simulated("F06", lives, days=DAYS, seed=3)
        for agent, wrong_s in zip(agents, self._wrong_s, strict=True):
            windows: dict[int, list[Observation]] = {}
            for one in struck(agent, self._rng):
                windows.setdefault(one.time_ns // SECOND_NS // PERIOD_S, []).append(one)
            for window, seen in sorted(windows.items()):
                right_ns = (window + 1) * PERIOD_S * SECOND_NS
                late = self._rng.choice([0.0, 0.0, 0.0, 0.0, 70.0]) * (wrong_s == 0)
                arrives_ns = right_ns + round((self._rng.uniform(0.01, 0.3) + late) * SECOND_NS)
                payload = self._batch(seen, wrong_s, right_ns)
                if self._rng.random() > 0.05:
                    sent.append((arrives_ns, seen[0].host, payload))
        yield from sorted(sent)

    def _batch(self, seen: Sequence[Observation], wrong_s: int, right_ns: int) -> bytes:
        host = seen[0].host
        judged = tuple(JudgedObservation(_wrong(one, wrong_s * SECOND_NS)) for one in seen)
        self.kept += judged
        number = self._number[host] = self._number.get(host, -1) + 1
        previous = self._last.get(host, -1)
        self._last[host] = seen[-1].seq
        return encode(
            Batch(host, "start", number, previous, right_ns + wrong_s * SECOND_NS, judged)
        )


def _wrong(one: Observation, wrong_ns: int) -> Observation:
    """By a wrong clock of its host."""
    frames = tuple(replace(f, time_ns=f.time_ns + wrong_ns) for f in one.frames)
    events = tuple(replace(e, time_ns=e.time_ns + wrong_ns) for e in one.events)
    return replace(one, time_ns=one.time_ns + wrong_ns, frames=frames, events=events)


class Store:
    """What a gateway writes."""

    name = "store"

    def __init__(self) -> None:
        self.kept: list[JudgedObservation] = []

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Keep it."""
        self.kept.append(JudgedObservation(observation, tuple(findings), tuple(incidents)))


Said = list[list[Any]]


def said(judged: Iterator[JudgedObservation]) -> Said:
    """Findings and incidents in their order."""
    found: Said = []
    for each in judged:
        found += map(plain, each.findings)
        found += map(plain, each.incidents)
    return found


def judged_live(agents: Agents, root: Path) -> Said:
    """What a gateway says while they send; all stores are put into one place."""
    store, seconds, now_ns = Store(), list[JudgedSecond](), 0
    fleet = Fleet(judge(), SelfMetrics(), PERIOD_S * SECOND_NS)
    for at_ns, host, payload in agents.batches():
        now_ns = at_ns
        seconds += fleet.judged(at_ns)
        assert fleet.take(subjects.token(host), payload, at_ns) == ""
    seconds += fleet.judged(now_ns + 60 * SECOND_NS)
    verdicts = Verdicts(store, FakeClock())
    for second in seconds:
        verdicts.write(second)
    keep(root, agents.kept)
    keep(root, store.kept)
    return said(one for second in seconds for one in second.judged)


def replayed(root: Path) -> Said:
    """What is found again."""
    hours, cut = stored_hours(root, Span()), cut_of(root, Span())
    return said(one.now for one in rejudge_fleet(hours, judge(), cut))


@pytest.mark.slow
def test_a_gateways_verdict_is_found_again(tmp_path: Path) -> None:
    """Word by word, where batches were lost or late, clocks wrong, and agents came and went."""
    root = tmp_path / "store"
    live = judged_live(Agents(5), root)
    assert len(live) > 20
    assert replayed(root) == live


@pytest.mark.slow
def test_a_host_whose_clock_was_wrong_by_hours_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its readings are in other hours of the store."""
    judged_live(Agents(5, (0, 7300)), tmp_path / "store")
    with caplog.at_level(logging.WARNING):
        replayed(tmp_path / "store")
    named = [message for message in caplog.messages if "more than an hour" in message]
    assert [message.partition(":")[0] for message in named] == ["node-0001"]

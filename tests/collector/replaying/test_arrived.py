"""A gateway's verdict is found again from the stores of its agents and its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.replaying.arrivals import cut_of
from collector.replaying.fleet import rejudge_fleet
from collector.replaying.stored import Span, stored_hours
from detectors.trust.calibrated import Calibrated
from detectors.trust.calibration import Calibration
from gateway.fleet import Fleet, JudgedSecond
from gateway.learnt import LearntModel
from gateway.verdicts import Verdicts
from pipeline.bus import subjects
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.plain import plain
from pipeline.selfmetrics import SelfMetrics
from tests.collector.replaying.kept import judge, keep
from tests.fakes import FakeClock
from tests.gateway.agents import PERIOD_S, Agents


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


def judged_live(agents: Agents, root: Path, model: str = "") -> Said:
    """What a gateway says while they send; all stores are put into one place."""
    store, seconds, now_ns = Store(), list[JudgedSecond](), 0
    judging, metrics = judge(calibrated=True), SelfMetrics()
    learnt = LearntModel(model, judging, metrics)
    fleet = Fleet(judging, metrics, PERIOD_S * SECOND_NS, learnt.events)
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
    return said(one.now for one in rejudge_fleet(hours, judge(calibrated=True), cut))


@pytest.mark.slow
def test_a_gateways_verdict_is_found_again(tmp_path: Path) -> None:
    """Word by word, where batches were lost or late, clocks wrong, and agents came and went."""
    root = tmp_path / "store"
    live = judged_live(Agents(5), root)
    assert len(live) > 20
    assert replayed(root) == live


@pytest.mark.slow
def test_the_model_by_which_a_gateway_judged_is_met_again(tmp_path: Path) -> None:
    """It comes from the gateway's own store, not from the configuration of the replay."""
    model, path = Calibration(-9.0, {"far": 1.0}, 0.5, {"hang": (0, 20)}), tmp_path / "model.json"
    path.write_text(model.text())
    live = judged_live(Agents(5), tmp_path / "store", str(path))
    hours, cut = stored_hours(tmp_path / "store", Span()), cut_of(tmp_path / "store", Span())
    judging = judge(calibrated=True)
    assert said(one.now for one in rejudge_fleet(hours, judging, cut)) == live
    (fusion,) = [one for one in judging.memories if isinstance(one, Calibrated)]
    assert fusion.model == model


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

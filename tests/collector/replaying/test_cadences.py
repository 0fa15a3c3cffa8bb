"""Nodes that are read at several cadences are replayed as their agents judged them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from collector.cli.main import main
from collector.replaying.cadences import Cadences
from collector.replaying.stored import Span, stored_hours
from detectors.paging import in_service, judge_in_service
from evaluation.metrics.scope import ByHost
from pipeline.clock import SECOND_NS
from pipeline.exporters import DCGM_EXPORTER
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from simulator.fleet import load_scenario, render
from simulator.fleet.plan import WARM_S
from tests.collector.replaying.kept import keep
from tests.fakes import FakeClock

CADENCES = {"quick": 15.0, "slow": 30.0}  # the agents' own default is a second
BEFORE_S, AFTER_S = 600, 600


def readings(host: str, step_s: float) -> Iterator[Observation]:
    """A node whose power brake acts in pulses, which only its counters show (F14)."""
    scenario = replace(load_scenario("F14"), cases=1)
    run = render(scenario, 1, days=(WARM_S + AFTER_S) / 86_400, nodes=1, step_s=step_s)
    begin_ns = run.topology.begin_ns + round((WARM_S - BEFORE_S) * SECOND_NS)
    cut = ByHost()
    for whole in run.observations():
        if whole.source == "jobs" or whole.time_ns >= begin_ns:
            for seq, (_, part) in enumerate(cut.split(whole)):
                yield renamed(replace(part, boot_id=f"boot of {host}", seq=whole.seq + seq), host)


def renamed(one: Observation, host: str) -> Observation:
    """Of another host, with GPUs of its own."""
    frames = tuple(
        replace(
            frame,
            devices=tuple(replace(d, host=host, id=f"{host} {d.id}") for d in frame.devices),
        )
        for frame in one.frames
    )
    events = tuple(
        replace(event, device=replace(event.device, host=host, id=f"{host} {event.device.id}"))
        for event in one.events
    )
    return replace(one, host=host, frames=frames, events=events)


@pytest.fixture(scope="module")
def live() -> dict[str, list[JudgedObservation]]:
    """What each agent said, which knew its own period."""
    said = {}
    for host, step_s in CADENCES.items():
        periods = dict.fromkeys(("nvml", "infiniband"), step_s)
        judge = judge_in_service(SelfMetrics(), FakeClock(), periods, in_service())
        said[host] = [judge.judge(one) for one in readings(host, step_s)]
    return said


@pytest.fixture(scope="module")
def root(
    tmp_path_factory: pytest.TempPathFactory, live: dict[str, list[JudgedObservation]]
) -> Path:
    """One store of both."""
    root = tmp_path_factory.mktemp("site") / "store"
    keep(root, [one for node in live.values() for one in node])
    return root


@pytest.mark.slow
def test_a_site_of_several_cadences_is_replayed_without_a_word(
    root: Path, live: dict[str, list[JudgedObservation]]
) -> None:
    """The findings of each node, which counters of its own pace give."""
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(StringIO()):
        assert main(["replay", "--from", str(root)]) == 0
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    found = {line["id"] for line in lines if line["type"] == "finding"}
    said = [finding for node in live.values() for one in node for finding in one.findings]
    assert found == {finding.id for finding in said}
    brakes = {one.device.host for one in said if one.fault == "throttle/hw_power_brake"}
    assert brakes == set(CADENCES)


@pytest.mark.slow
def test_readings_in_a_log_show_their_pace_as_files_do(
    tmp_path: Path, live: dict[str, list[JudgedObservation]]
) -> None:
    """What an agent has not sealed yet."""
    keep(tmp_path / "store", live["slow"][-60:], sealed=False)
    (hours,) = stored_hours(tmp_path / "store", Span())
    assert hours.periods["slow", "nvml"] == CADENCES["slow"]


def test_an_import_keeps_the_period_that_all_imports_have() -> None:
    """A site that scrapes every ten seconds, for half a minute."""
    cadences = Cadences({DCGM_EXPORTER: 30.0})
    cadences.take({("n1", DCGM_EXPORTER): 10.0})
    assert cadences.of("n1", DCGM_EXPORTER) == 30.0

"""A store of many nodes is judged in one pass as by an agent at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import collector.replaying.nodes as replaying
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.stored import Span, stored, stored_hours
from detectors import all_detectors
from detectors.incidents import Incidents
from detectors.node_horizon import NodeHorizon
from pipeline.arrival_cut import GATEWAY
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard
from pipeline.interfaces import Detector
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.collector.replaying.kept import keep
from tests.contracts.horizon.sides import Said, singles, take
from tests.contracts.horizon.world import LIVES, simulated, struck
from tests.fakes import FakeClock

PERIODS = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), 10.0) | {"host": 60.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What agents kept that booted, missed readings, had their clocks set, came and went."""
    root = tmp_path_factory.mktemp("lives") / "store"
    rng = np.random.default_rng(1)
    for agent in simulated("F06", LIVES[1:5], days=0.008, seed=3):
        keep(root, [JudgedObservation(one) for one in struck(agent, rng)])
    return root


def agents(root: Path) -> list[list[Observation]]:
    """What each agent has read."""
    found: dict[str, list[Observation]] = {}
    for one in stored(root, Span()):
        found.setdefault(one.observation.host, []).append(one.observation)
    return list(found.values())


def together(root: Path) -> Iterator[JudgedObservation]:
    """All in one pass."""
    for one in rejudge_nodes(
        stored_hours(root, Span()), lambda: NodeHorizon(all_detectors, Incidents, PERIODS)
    ):
        yield one.now


@pytest.mark.slow
def test_many_nodes_in_one_pass_are_judged_as_by_an_agent_at_a_time(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are taken at once."""
    monkeypatch.setattr(replaying, "NODES_AT_ONCE", 2)
    said: Said = {}
    for judged in together(store):
        take(said, judged)
    alone = singles(agents(store), PERIODS)
    assert said == alone
    assert sum(map(len, alone.values())) > 10


@pytest.mark.slow
def test_rounds_judged_some_at_a_time_say_what_they_say_one_by_one(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a detector fails, which each node reports when it begins and when it ends."""

    def make() -> list[Detector]:
        made = all_detectors()
        update = made[0].update

        def failing(observation: Observation) -> Iterable[Finding]:
            if observation.mono_ns // 10**9 // 60 % 3 == 1:
                raise ZeroDivisionError
            return update(observation)

        monkeypatch.setattr(made[0], "update", failing)
        return made

    def said(at_once: int) -> list[tuple[str, int, tuple[Finding, ...], tuple[Incident, ...]]]:
        monkeypatch.setattr(replaying, "ROUNDS_AT_ONCE", at_once)
        guard = Guard(SelfMetrics(), FakeClock())
        every = rejudge_nodes(
            stored_hours(store, Span()),
            lambda: NodeHorizon(make, Incidents, PERIODS, guard=guard),
        )
        return [
            (now.observation.host, now.observation.seq, now.findings, now.incidents)
            for now in (one.now for one in every)
        ]

    alone = said(1)
    assert said(7) == alone
    faults = [finding.fault for _, _, findings, _ in alone for finding in findings]
    assert faults.count("detector_failed") > 4


def test_what_a_gateway_stored_is_of_no_node(tmp_path: Path) -> None:
    """Its findings are about all of them."""
    seen = Observation(GATEWAY, GATEWAY, "s", 0, 1_800_000_000 * 10**9, 1, 0)
    keep(tmp_path / "store", [JudgedObservation(seen)])
    assert list(together(tmp_path / "store")) == []


@pytest.mark.slow
def test_nodes_of_one_name_are_judged_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten agents that read at the same time are ten nodes, named by number."""
    begin_ns = 1_800_000_000 * 10**9
    for n in range(10):
        life = [
            Observation("jobs", "n1", f"boot-{n}", seq, begin_ns + seq * 10**10, seq * 10**10, 0)
            for seq in range(1, 30)
        ]
        root = tmp_path / f"of {n}"
        keep(root, [JudgedObservation(one) for one in life])
        for path in root.rglob("*.parquet"):
            other = tmp_path / "store" / path.relative_to(root)
            other.parent.mkdir(parents=True, exist_ok=True)
            path.rename(other.with_name(path.name))
    with caplog.at_level(logging.WARNING):
        hosts = {judged.observation.host for judged in together(tmp_path / "store")}
    assert hosts == {"n1", *(f"n1~{n}" for n in range(2, 11))}
    assert sum("several nodes are named n1" in message for message in caplog.messages) == 9

"""Troubles that the kernel reports: each spelling is understood, and each trouble is found by its
rule in time, no matter of which node; what only looks like trouble is silent.
"""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from collector.sources.kmsg.joiner import Joiner
from collector.sources.kmsg.records import Record
from detectors.availability import Availability
from detectors.host import Host
from detectors.host.rules import RULES
from detectors.incidents import Incidents
from detectors.nvlink_fabric import NvLinkFabric
from evaluation.metrics.alerts import alerts_of_incidents
from evaluation.metrics.match import Case, match
from evaluation.runs.truths import plain_truths
from pipeline.finding import Finding, Incident
from simulator.fleet import load_scenario, render
from simulator.fleet.faults.kinds import KINDS
from simulator.fleet.troubles import devices, hardware, kernel, storage
from simulator.fleet.troubles.trouble import Spelling, Trouble, Words
from simulator.profile import load_profile

TROUBLES = (
    *kernel.KERNEL, *kernel.RESOURCES, *hardware.HARDWARE, *storage.SERVERS, *storage.DISKS,
    *devices.SWITCHES, *devices.DRIVERS, *devices.PCIE, *devices.ADAPTERS,
)  # fmt: skip
KIND_RULES = {rule.kind for rule in RULES}


def kinds_of(spelling: Spelling) -> list[str]:
    """The kinds of event that the records of one report give."""
    rng, joiner = np.random.default_rng(1), Joiner()
    words = Words(rng, load_profile("hgx-h100"), 3)
    records = [Record(text, n, n) for n, text in enumerate(words.of(spelling, rng))]
    at_once = [parsed.kind for record in records if (parsed := joiner.feed(record))]
    return at_once + [parsed.kind for _, parsed in joiner.overdue(final=True)]


@pytest.mark.parametrize("trouble", TROUBLES, ids=map(str, count()))
def test_every_spelling_is_understood(trouble: Trouble) -> None:
    """Each report gives an event that a rule judges; so does what follows, and what ends it."""
    for spelling in (*trouble.spellings, *((text,) for text in trouble.chain)):
        assert set(kinds_of(spelling)) <= KIND_RULES, spelling
        assert kinds_of(spelling), spelling
    clears = {kind for rule in RULES for kind in rule.clears}
    for text in trouble.ends:
        assert kinds_of((text,))[0] in clears


def judged(name: str, nodes: int, days: float) -> tuple[list[Case], list[Incident]]:
    """Cases and incidents of a run, judged by what reads the kernel log and states alone."""
    run = render(load_scenario(name), 4, nodes=nodes, days=days)
    detectors, fusion = (Host(), Availability(), NvLinkFabric()), Incidents()
    findings: list[Finding] = []
    incidents: list[tuple[int, Incident]] = []
    for seen in run.observations():
        if seen.source == "infiniband":
            continue
        new = [finding for detector in detectors for finding in detector.update(seen)]
        findings += new
        incidents += [(seen.time_ns, one) for one in fusion.update(seen, new)]
        last_ns = seen.time_ns
    alerts = alerts_of_incidents(incidents, findings)
    cases, _ = match(plain_truths(run), alerts, last_ns)
    return [case for case in cases if case.watched], [one for _, one in incidents]


@pytest.mark.slow
@pytest.mark.parametrize("number", [*range(33, 45)])
def test_each_trouble_is_found_in_time_on_its_device(number: int) -> None:
    """With jobs and without, with whatever follows it."""
    cases, _ = judged(f"F{number}", 12, 0.25)
    assert cases
    assert [case.id for case in cases if not (case.in_time and case.top1)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["H43", "H44", "H45", "H46"])
def test_what_only_looks_like_trouble_is_silent(name: str) -> None:
    """Single errors, servers that are back, planned boots, adapters that recover."""
    _, incidents = judged(name, 8, 0.3)
    assert incidents == []


@pytest.mark.slow
def test_faults_within_minutes_are_of_every_kind_and_relation() -> None:
    """Of one device, node and job, and of nodes apart; each case has two or three devices' worth
    of truths, and over some seeds every kind strikes.
    """
    struck: set[str] = set()
    for seed in range(4):
        run = render(load_scenario("F46"), seed, split="test", nodes=48)
        by_case: dict[str, int] = {}
        for truth in run.truth:
            case = truth.id.rpartition("/")[0]
            by_case[case] = by_case.get(case, 0) + 1
        assert max(by_case.values()) == 3
        struck |= {truth.fault for truth in run.truth}
    assert struck == {kind.fault for kind in KINDS.values()}

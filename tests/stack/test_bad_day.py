"""From fault to alert: each fault of the bad day reaches the right receiver once, in words; the
quiet day reaches nobody.
"""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.cli.main import main
from detectors.faults import FAULTS
from rules.build import alerts
from simulator.day import Step, load_day
from simulator.profile import load_profile
from tests.sources import ROOT
from tests.stack import tour
from tests.stack.bad_day import FINDINGS, PLAIN, PROFILE, SETTINGS, Played, Told, play

pytestmark = pytest.mark.integration

printed = runpy.run_path(str(ROOT / "tools" / "receivers.py"))["lines"]  # a script, no module

RULES = {alert.name: alert for alert in alerts()}
STEPS = load_day("bad", load_profile(PROFILE)).steps
PROMISED = [
    pytest.param(step, alert, id=f"{step.incident}-{alert}")
    for step in STEPS
    for alert in step.alerts
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The day, once for all tests."""
    with play(tmp_path_factory.mktemp("stack")) as day:
        yield day


def _receiver(alert: str, incident: str) -> str:
    """An application's fault is for its owner; the on-call gets the rest, by severity."""
    if not alert.startswith("Raw") and FAULTS[incident].origin == "application":
        return "owner"
    return "pager" if RULES[alert].severity == "critical" else "ticket"


def _about(played: Played, alert: str, target: str, incident: str) -> list[Told]:
    """Every time that an alert about a device began to fire, by the receiver that is to hear of
    it.
    """
    plain = alert.startswith("Raw")
    device = played.device(target, PLAIN if plain else FINDINGS)
    began = {
        (sent.since, *sent.labels.items()): sent
        for sent in reversed(played.sent)
        if sent.firing
        and sent.receiver == _receiver(alert, incident)
        and sent.labels["alertname"] == alert
        and device in sent.labels.values()
        and (plain or sent.labels["class"] == incident)
    }
    return [*began.values()]


@pytest.mark.parametrize(("step", "alert"), PROMISED)
def test_each_fault_is_told_once_to_whom_it_concerns(
    played: Played, step: Step, alert: str
) -> None:
    """The alert that the day promises, about the device that was broken,
    of the node that it is in.
    """
    (sent,) = _about(played, alert, step.target, step.incident)
    assert sent.labels["node"] == "node1"


@pytest.mark.parametrize(("step", "alert"), PROMISED)
def test_its_text_names_device_number_and_action(played: Played, step: Step, alert: str) -> None:
    """Who is woken reads what is broken, how much, and what to do, without looking anywhere."""
    sent = _about(played, alert, step.target, step.incident)[0]
    text = sent.text["description"]
    assert played.device(step.target, PLAIN if alert.startswith("Raw") else FINDINGS) in text
    assert re.search(r"\bon node1\b", text)
    assert re.search(
        r"\d", text.replace(played.device(step.target, FINDINGS), "").replace("node1", "")
    )
    assert sent.labels["action"]
    assert sent.text["runbook_url"].endswith(f"#{alert.lower()}")
    assert not re.search(r"\{\{|<no value>|%!", text)


def test_nobody_is_woken_by_anything_else(played: Played) -> None:
    """The pager of those who run Tocsin rings for the faults of the day, and for
    nothing they bring about.
    """
    woken = {
        sent.labels["alertname"] for sent in played.sent if sent.receiver == "pager" and sent.firing
    }
    assert woken == {
        alert
        for step in STEPS
        for alert in step.alerts
        if _receiver(alert, step.incident) == "pager"
    }


def test_the_quiet_day_reaches_nobody(played: Played) -> None:
    """The node beside it is healthy: no message names it."""
    assert [sent for sent in played.sent if sent.labels.get("node") == "node2"] == []


def test_prometheus_has_nothing_to_complain_of(played: Played) -> None:
    """No rule fails, no sample is refused, no target is away."""
    assert not played.complaints


def test_the_day_replayed_says_what_was_said_when_it_was_live(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    """Judged again from what the agent kept, under the settings that it had, each reading of the
    bad day gives the same findings.
    """
    assert main(["replay", "--from", str(played.store), "--compare", *SETTINGS]) == 0, (
        capsys.readouterr().out
    )
    assert re.search(r"\b\d{3,} observations of 1 nodes: 0 differ", capsys.readouterr().err)


def test_the_tour_shows_what_its_commands_say(played: Played, tmp_path: Path) -> None:
    """Every command of docs/tour.md runs on this day's store and shows what stands there, but
    for times, ids and numbers.
    """
    names: dict[str, str] = {}
    made: dict[str, tour.Example] = {}
    for example in tour.examples():
        command = tour.with_ids(example.command, names)
        output = tour.run(command, tmp_path, played.store)
        names |= tour.ids(example.output, output)
        made[example.command] = tour.Example(command, output)
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        tour.write(made, "\n".join(_heard(played)))
    assert [tour.shape(now.output) for now in made.values()] == [
        tour.shape(example.output) for example in tour.examples()
    ]


def test_the_tour_shows_what_the_receivers_hear(played: Played) -> None:
    """Each line is what pager, ticket or owner was told, in this order; the numbers
    are those of another run.
    """
    assert [_without_numbers(line) for line in _heard(played)] == [
        _without_numbers(line) for line in tour.heard().splitlines()
    ]


def _without_numbers(line: str) -> str:
    """A line of the receivers without the numbers that were measured; those of the device stay."""
    device, fact, text = line.partition("): ")
    text = re.sub(r"[\d.]+(ms|[dhms])( [\d.]+(ms|[dhms]))*", "SPAN", text)
    text = re.sub(r"\d+([.]\d+)?", "N", text)
    # How many XIDs of a burst were counted when the alert fired depends on the scrape.
    return device + fact + re.sub(r"( XID N count: N[.])+", " XID N count: N.", text)


def _heard(played: Played) -> list[str]:
    """What the stand-in for the receivers prints of the alerts that the day
    promises of Tocsin's own.
    """
    heard: dict[tuple[float, str, str], str] = {}
    for step in STEPS:
        for alert in step.alerts:
            for sent in _about(played, alert, step.target, step.incident):
                if sent.labels["cluster"] == FINDINGS:
                    message = {
                        "alerts": [
                            {"status": "firing", "labels": sent.labels, "annotations": sent.text}
                        ]
                    }
                    heard[step.at_s, alert, step.incident] = next(printed(sent.receiver, message))
    return list(heard.values())

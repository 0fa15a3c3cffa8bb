"""Health in one word and advice in one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from detectors.faults import FAULTS
from detectors.incidents import health_of
from detectors.incidents.advice import STEPS, reason
from pipeline.finding import Action, Finding
from tests.detectors.incidents.story import gpu

FOUND = Finding("d", gpu(0), "throttle", "onset", "ticket", 0, 0, "It is.")


@pytest.mark.parametrize(
    ("fault", "severity", "word"),
    [
        ("gpu_lost", "page", "failed"),
        ("throttle", "ticket", "degraded"),
        ("throttle", "record", "ok"),
        ("ib_ber", "page", "failed"),
        *((row.name, "ticket", "predicted_failure") for row in FAULTS.values() if row.prediction),
    ],
)
def test_health_of_a_device_by_what_stands_about_it(fault: str, severity: str, word: str) -> None:
    """A page is a failure, a prediction says what will be, any other ticket is a
    degradation, a record is nothing.
    """
    found = replace(FOUND, fault=fault, severity=severity)  # type: ignore[arg-type] # one of the three
    assert health_of([found]) == {gpu(0): word}


def test_the_worst_of_several_is_the_health() -> None:
    """In whichever order they are found."""
    both = [replace(FOUND, severity="page"), FOUND]
    assert health_of(both) == health_of(both[::-1]) == {gpu(0): "failed"}


def test_what_ended_says_nothing() -> None:
    """A device is well again."""
    assert health_of([replace(FOUND, phase="cleared")]) == {}


def test_every_action_has_a_step() -> None:
    """None is left without words."""
    assert set(STEPS) == set(get_args(Action))


@pytest.mark.parametrize("action", get_args(Action))
@pytest.mark.parametrize("fault", [*FAULTS, "something/new"])
def test_advice_is_one_sentence(fault: str, action: Action) -> None:
    """Whatever the fault: the step, and why where that is known."""
    said = reason(fault, action, "ticket")
    assert said[0].isupper()
    assert said.endswith(".")
    assert said.count(".") == 1
    assert (": " in said) == (fault != "something/new")


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        ("ib/link_down", "subnet manager"),
        ("ib/switch_down", "switch"),
        ("ib/adapter_temperature", "cooling"),
        ("ib/adapter_power", "slot"),
        ("ib/adapter_cable", "cable"),
    ],
)
def test_what_is_to_be_checked_is_the_part_that_failed(fault: str, part: str) -> None:
    """A leaf switch that is down and an adapter that overheats send nobody to a cable."""
    said = reason(fault, "CONTACT_SUPPORT", "page")
    assert part in said
    assert ("cable" in said) == (fault in ("ib/link_down", "ib/adapter_cable"))

"""Scripted days: those that come with the simulator, and what is said of a file that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from rules.build import alerts
from simulator.day import day_names, load_day
from simulator.profile import load_profile

H100 = load_profile("hgx-h100")


@pytest.mark.parametrize("name", day_names())
def test_every_day_fits_the_default_profile(name: str) -> None:
    """Its faults exist, in the order of their times, within the day."""
    day = load_day(name, H100)
    assert all(0 < step.at_s < day.lasts_s for step in day.steps)


def test_every_alert_of_a_day_exists() -> None:
    """A day promises no alert that no rule sends."""
    promised = {
        alert
        for name in day_names()
        for step in load_day(name, H100).steps
        for alert in step.alerts
    }
    assert promised <= {alert.name for alert in alerts()}


def test_a_step_is_an_injection_at_its_time(tmp_path: Path) -> None:
    """The delay stands before the parameters; the target is what is to blame."""
    file = tmp_path / "own.toml"
    file.write_text('[[step]]\nat_s = 90\nfault = "xid@gpu2:code=79"\nsays = "x"\nalerts = ["A"]\n')
    (step,) = load_day(str(file), H100).steps
    assert (step.spec, step.target, step.alerts) == ("xid@gpu2+90s:code=79", "gpu2", ("A",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step = 3", "[[step]]"),
        ("step = [3]", "[[step]]"),
        ("[[step]]\nat_s = 1", "step 1: missing key 'fault'"),
        (
            '[[step]]\nat_s = 1\nfault = "xid@gpu0"\nsays = "x"\nwhen = 3',
            "step 1: unknown key 'when'",
        ),
        ('[[step]]\nat_s = "soon"\nfault = "xid@gpu0"\nsays = "x"', "at_s must be seconds"),
        ('[[step]]\nat_s = true\nfault = "xid@gpu0"\nsays = "x"', "at_s must be seconds"),
        ('[[step]]\nat_s = 1\nfault = 79\nsays = "x"', "fault must be text"),
        ('[[step]]\nat_s = 1\nfault = "melt@gpu0"\nsays = "x"', "step 1: no fault 'melt'"),
        ('[[step]]\nat_s = 1\nfault = "xid@gpu0+5s"\nsays = "x"', "belongs into at_s"),
        (
            '[[step]]\nat_s = 1\nfault = "xid@gpu0"\nsays = "x"\nalerts = "A"',
            "alerts must be a list",
        ),
        (
            (
                "[[step]]\n"
                "at_s = 9\n"
                'fault = "xid@gpu0"\n'
                'says = "x"\n'
                "[[step]]\n"
                "at_s = 1\n"
                'fault = "xid@gpu0"\n'
                'says = "x"'
            ),
            "order",
        ),
        ("days = 3", "unknown key 'days'"),
        ("title = 3", "title must be text"),
        ("title =", "Invalid value"),
    ],
)
def test_a_day_that_is_wrong_names_file_and_key(text: str, said: str, tmp_path: Path) -> None:
    """Who writes a day of their own is told what to mend."""
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"own\.toml") as error:
        load_day(str(file), H100)
    assert said in str(error.value)


def test_a_day_that_is_not_there_names_those_that_are() -> None:
    """A word without a slash is a name."""
    with pytest.raises(ValueError, match="no day 'worse'; there are bad, quiet"):
        load_day("worse", H100)

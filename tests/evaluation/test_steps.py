"""Progress of many steps: a bar with the time left on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest

from evaluation.steps import Steps
from tests.collector.cli.screen import Screen, screen

__all__ = ["screen"]


def test_a_log_gets_a_line_per_step_and_no_control_characters() -> None:
    """Two of three were done before: the third is 3/3."""
    out = io.StringIO()
    steps = Steps(3, 2, out, 1.0)
    steps.step("F16", 1.0)
    steps.print("F10 failed")
    steps.end()
    assert out.getvalue() == "3/3 F16\nF10 failed\n"


def test_a_terminal_gets_a_bar_with_the_time_left(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps count by their work: half of it is done after the first two, the second took 30 s for
    a fifth, so the rest takes 75 s.
    """
    now = [0.0]
    monkeypatch.setattr("collector.cli.progress.time.monotonic", lambda: now[0])
    steps = Steps(10, 4, screen, 10.0)
    steps.step("a", 3.0)
    now[0] = 30.0
    steps.step("b", 2.0)
    last = screen.lines()[-1]
    assert "50%" in last
    assert "0:01:15" in last
    assert last.rstrip().endswith("6/10 b")
    steps.end()


def test_a_message_stays_above_the_bar(screen: Screen) -> None:
    """And the bar is removed at the end."""
    steps = Steps(2, 0, screen, 2.0)
    steps.step("a", 1.0)
    steps.print("F10 failed")
    steps.step("b", 1.0)
    assert "F10 failed" in screen.lines()
    steps.end()
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")

"""Progress of many steps: a bar with the time left where somebody watches, lines where somebody reads later."""

from __future__ import annotations

import io

from collector.cli.steps import Steps


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_per_step_and_no_control_characters() -> None:
    """Two of three were done before: the third is 3/3."""
    out = io.StringIO()
    steps = Steps(3, 2, out, lambda: 0.0)
    steps.step("F16")
    steps.say("F10 failed")
    steps.end()
    assert out.getvalue() == "3/3 F16\nF10 failed\n"


def test_a_terminal_gets_a_bar_with_the_time_left() -> None:
    """Four were done before; the fifth and sixth took 30 s each, four are left: 2 minutes; six of ten parts of the bar are full."""
    out, now = Terminal(), iter((0.0, 30.0, 60.0))
    steps = Steps(10, 4, out, lambda: next(now))
    steps.step("a")
    steps.step("b")
    assert out.getvalue().split("\r\x1b[K")[-1] == f"[{'#' * 18}{' ' * 12}] 6/10, 2 min left b"


def test_the_bar_goes_away_at_the_end() -> None:
    """What follows begins on a clean line; a message stays above the bar."""
    out = Terminal()
    steps = Steps(1, 0, out, lambda: 0.0)
    steps.say("F10 failed")
    steps.step("a")
    steps.end()
    assert "F10 failed\n" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


def test_steps_that_differ_count_by_their_work() -> None:
    """The first of two steps was a tenth of the work and took 30 s: nine times as much is left, 4 minutes."""
    out, now = Terminal(), iter((0.0, 30.0))
    steps = Steps(2, 0, out, lambda: next(now), work=10.0)
    steps.step("a", 1.0)
    assert "1/2, 4 min left a" in out.getvalue()

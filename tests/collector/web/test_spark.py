"""Sparklines: what their points say."""

from __future__ import annotations

import re

import numpy as np

from collector.web.page.spark import spark


def line(values: list[float | None], top: float | None = 100.0) -> str:
    """The path of the line."""
    (drawn,) = re.findall(r'class="line" d="([^"]*)"', spark(np.array(values, np.float32), top, ""))
    return str(drawn)


def test_the_top_is_the_most_that_can_be() -> None:
    """A line at half of a limit lies at half of the height, whatever else there was."""
    assert line([0.0, 50.0, 100.0]) == "M0 19L1 10L2 1"


def test_more_than_can_be_stays_within() -> None:
    """A reading above the limit does not leave the picture."""
    assert line([0.0, 250.0]) == "M0 19L1 1"


def test_what_was_not_read_is_a_gap() -> None:
    """No line is drawn through it, and one reading alone is a dot."""
    assert line([0.0, 100.0, None, 100.0]) == "M0 19L1 1M3 1h0"


def test_a_level_line_needs_two_points() -> None:
    """The page stays small while nothing moves."""
    assert line([100.0] * 120) == "M0 1L119 1"


def test_without_a_limit_the_greatest_is_the_top() -> None:
    """And a line of zeros lies on the ground."""
    assert line([0.0, 5.0], None) == "M0 19L1 1"
    assert line([0.0, 0.0], None) == "M0 19L1 19"


def test_nothing_read_is_an_empty_picture() -> None:
    """No point is made up."""
    assert line([None, None]) == ""

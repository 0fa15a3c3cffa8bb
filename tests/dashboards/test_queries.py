"""Selectors cannot name what does not exist, and say what they mean."""

from __future__ import annotations

import pytest

from dashboards.queries import dialect, foreign, measured, own
from dashboards.shared import zero_where
from pipeline.catalog import agent


def test_a_field_that_does_not_exist_cannot_be_asked_for() -> None:
    """A name that is spelt wrong stops the build, with the name in the message."""
    with pytest.raises(KeyError, match="temperature_fahrenheit"):
        measured("gpu", "temperature_fahrenheit")


def test_a_label_that_a_series_does_not_have_cannot_be_asked_for() -> None:
    """Nor can a matcher that no series would ever meet."""
    with pytest.raises(ValueError, match=r"tocsin_incident_active has no label 'gpu'"):
        own(agent.INCIDENT_ACTIVE, gpu="0")


def test_a_stranger_that_nobody_vouched_for_cannot_be_asked_for() -> None:
    """Series of other programs are listed."""
    with pytest.raises(ValueError, match="node_load1"):
        foreign("node_load1")


def test_a_field_that_dcgm_exporter_lacks_cannot_be_asked_of_it() -> None:
    """The state of a GPU is ours alone."""
    with pytest.raises(ValueError, match="no series of gpu state"):
        dialect("gpu", "state")


def test_both_generations_of_dcgm_exporter_give_base_units() -> None:
    """4.8 shows MHz and per cent, 4.9 Hz and ratios: the panel's unit holds for either."""
    clock = dialect("gpu", "sm_clock_megahertz")
    assert "DCGM_FI_DEV_SM_CLOCK{" in clock
    assert "} * 1000000 or DCGM_FI_DEV_SM_CLOCK_HERTZ{" in clock
    assert "} / 100 or DCGM_FI_DEV_GPU_UTIL_RATIO{" in dialect("gpu", "gpu_utilization_percent")


def test_a_zero_needs_somebody_who_looked() -> None:
    """What is counted is 0 only beside a series that exists."""
    assert zero_where("count(a)", "b") == "count(a) or 0 * count(b)"

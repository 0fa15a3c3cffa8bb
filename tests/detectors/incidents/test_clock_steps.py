"""The wall clock of a node is set while an incident is open: durations go on, and it ends after it
began.
"""

from __future__ import annotations

import pytest

from tests.detectors.incidents.story import Story, gpu

DAY_S = 86_400


@pytest.mark.parametrize("step_s", [-DAY_S, -3600, 3600, 400 * DAY_S])
def test_an_incident_outlives_a_step_of_the_clock(step_s: int) -> None:
    """It is the same incident, and another GPU's fault is its own."""
    story = Story()
    story.nodes("n1")
    story.finds(gpu(0), "xid/gpu")
    story.wait(60)
    story.step_clock(step_s)
    story.wait(300)
    assert set(story.open) == {gpu(0).id}
    story.finds(gpu(1), "xid/gpu")
    assert set(story.open) == {gpu(0).id, gpu(1).id}
    assert len(story.pages) == 2


@pytest.mark.parametrize("step_s", [-DAY_S, -3600, 3600, 400 * DAY_S])
def test_an_incident_ends_as_long_after_its_last_finding_as_without_the_step(step_s: int) -> None:
    """Ten minutes by the clock of durations, and never before it began."""
    story = Story()
    story.nodes("n1")
    found = story.finds(gpu(0), "xid/gpu")
    story.wait(60)
    story.step_clock(step_s)
    story.clears(found)
    story.wait(540)
    assert set(story.open) == {gpu(0).id}
    story.wait(120)
    assert story.open == {}
    assert story.updates[-1].cleared_ns >= story.updates[-1].opened_ns


def test_an_effect_after_a_step_still_belongs_to_its_cause() -> None:
    """The job stalls a minute after its GPU was lost; the clock was set back in between."""
    story = Story()
    story.nodes("n1")
    story.happens(
        "job_started", gpu(0), job="7", gpus=" ".join(gpu(n).id for n in range(8)), hosts=1
    )
    story.finds(gpu(0), "gpu_lost")
    story.step_clock(-3600)
    story.wait(60)
    story.finds(gpu(3), "hang/in_flight")
    assert len(story.fusion.open()) == 1

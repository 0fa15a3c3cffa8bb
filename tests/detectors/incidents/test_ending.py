"""When incidents end, and why."""

from __future__ import annotations

import pytest

from tests.detectors.incidents.story import Story, gpu


def ends(story: Story) -> list[tuple[str, str]]:
    """Class of each incident that ended, and why."""
    return [(one.fault, one.ended) for one in story.updates if not one.active]


@pytest.mark.parametrize("fault", ["hang/rank_stuck", "hang/crawl", "hang/process_lost"])
def test_the_incident_of_a_stall_ends_with_the_stall(fault: str) -> None:
    """The job works again: with the observation that shows it, not ten minutes later."""
    story = Story()
    stall = story.finds(gpu(0, index="0"), fault, detector="hang")
    story.wait(300)
    story.clears(stall)
    assert ends(story) == [(fault, f"Its last finding ended: {fault} on GPU 0 of n1.")]


def test_a_stall_with_two_ranks_ends_with_the_second() -> None:
    """One of them that goes on is not the job."""
    story = Story()
    first = story.finds(gpu(0), "hang/rank_stuck", detector="hang")
    second = story.finds(gpu(1), "hang/rank_stuck", detector="hang")
    story.wait(300)
    story.clears(first)
    assert ends(story) == []
    story.clears(second)
    assert [fault for fault, _ in ends(story)] == ["hang/rank_stuck"]


def test_a_broken_gpu_that_stalled_its_job_is_no_stall() -> None:
    """What came back may leave again: its incident ends ten minutes later, with the reason."""
    story = Story()
    lost = story.finds(gpu(0, index="0"), "gpu_lost")
    stall = story.finds(gpu(0), "hang/rank_stuck", detector="hang")
    story.wait(60)
    story.clears(lost)
    story.clears(stall)
    story.wait(540)
    assert ends(story) == []
    story.wait(120)
    why = "Its last finding ended, and nothing of it was true for 10 minutes"
    assert ends(story) == [("gpu_lost", f"{why}: gpu_lost on GPU 0 of n1.")]


def test_why_an_incident_ends_survives_a_restart() -> None:
    """Between its last finding and its end."""
    story = Story()
    story.clears(story.finds(gpu(0, index="0"), "gpu_lost"))
    story.restart()
    story.wait(660)
    ((_, why),) = ends(story)
    assert why.endswith("gpu_lost on GPU 0 of n1.")

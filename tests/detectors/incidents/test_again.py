"""What happens again while its incident is open is reported again, in the same incident."""

from __future__ import annotations

from dataclasses import replace

from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from tests.detectors.incidents.story import Story, gpu, node


def happens_again(story: Story, finding: Finding, times: int = 2) -> None:
    """Its detector counts once more."""
    now = story.now_ns
    more = replace(finding, phase="ongoing", times=times, time_ns=now, again_ns=now)
    story.see(findings=[more])


def test_a_second_crash_of_a_node_is_reported_in_the_open_incident() -> None:
    """With its number and time; an incident of its own would be another ticket for one node."""
    story = Story()
    found = story.finds(node(), "host/crashed", "ticket")
    story.wait(7200)
    happens_again(story, found)
    first, second = story.updates
    assert (first.id, first.times, first.again_ns) == (second.id, 1, 0)
    assert (second.times, second.again_ns) == (2, story.now_ns)
    assert " It has happened 2 times, the last at " in second.summary


def test_what_happens_again_and_again_is_reported_ever_more_rarely() -> None:
    """Each of the first eight times, then whenever they have doubled."""
    story = Story()
    found = story.finds(gpu(), "xid/gpu")
    for times in range(2, 33):
        story.wait(600)
        happens_again(story, found, times)
    assert [one.times for one in story.updates] == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32]


def test_a_gpu_that_is_lost_came_back_and_is_lost_again_was_lost_twice() -> None:
    """The first finding has ended, and its incident is still open."""
    story = Story()
    first = story.finds(gpu(), "gpu_lost")
    story.wait(120)
    story.clears(first)
    story.wait(120)
    second = story.finds(gpu(), "gpu_lost")
    assert len({one.id for one in story.updates}) == 1
    assert (story.updates[-1].times, story.updates[-1].again_ns) == (2, second.onset_ns)


def test_two_faults_of_one_device_are_not_one_that_happened_twice() -> None:
    """A GPU that fell off the bus has an XID and is lost."""
    story = Story()
    story.finds(gpu(), "xid/gpu")
    story.finds(gpu(), "gpu_lost")
    assert story.updates[-1].times == 1


def test_a_page_that_happens_again_is_no_longer_acknowledged() -> None:
    """Who took it on believes that it is over; the note stays."""
    story = Story()
    found = story.finds(gpu(), "xid/gpu")
    one = story.updates[0].id
    story.happens("incident_acknowledged", gpu(), incident=one, note="was reset", user="ada")
    story.wait(3600)
    assert story.updates[-1].acknowledged_ns > 0
    happens_again(story, found)
    assert (story.updates[-1].acknowledged_ns, story.updates[-1].note) == (0, "was reset")


def test_another_sentence_about_the_root_is_reported() -> None:
    """A second server that is gone minutes after the first is in the words of the finding."""
    story = Story()
    found = story.finds(node(), "storage/server", "ticket")
    story.wait(60)
    words = "Servers a and b do not respond."
    story.see(findings=[replace(found, phase="ongoing", summary=words, time_ns=story.now_ns)])
    assert [one.summary for one in story.updates] == ["storage/server it is.", words]


def test_a_restart_reports_nothing_of_it_again() -> None:
    """How often was reported is remembered."""
    story = Story()
    found = story.finds(gpu(), "xid/gpu")
    story.wait(600)
    happens_again(story, found)
    story.restart()
    said = len(story.updates)
    story.wait(600)
    assert len(story.updates) == said
    happens_again(story, found, 3)
    assert story.updates[-1].times == 3
    assert story.updates[-1].again_ns >= 1200 * SECOND_NS

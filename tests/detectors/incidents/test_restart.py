"""Incidents over a restart: whoever reads them does not notice."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.incidents.book import Book, OpenIncident
from detectors.incidents.evidence import Evidence
from detectors.incidents.graph import FaultSite
from pipeline.finding import Finding, Severity
from pipeline.frame import Device
from tests.detectors.incidents.story import Story, gpu, node, port
from tests.fakes import START_NS

DEVICES = (
    gpu(0),
    gpu(1),
    gpu(2),
    gpu(0, "n2"),
    port(0, peer="leaf1-3"),
    port(3, "leaf1", peer="n1-0"),
    node(),
)
FAULTS = ("ecc", "throttle", "straggler", "xid/gpu", "xid/application", "ib/link_down", "hang")
STEPS = st.one_of(
    st.tuples(
        st.just("find"),
        st.sampled_from(DEVICES),
        st.sampled_from(FAULTS),
        st.sampled_from(["page", "ticket", "record"]),
    ),
    st.tuples(st.just("clear"), st.integers(0, 20)),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, 700, 90_000])),
    st.tuples(st.just("out"), st.sampled_from(DEVICES)),
    st.tuples(st.just("back"), st.sampled_from(DEVICES)),
    st.tuples(st.just("ack"), st.integers(0, 5)),
)


def play(
    story: Story, steps: list[tuple[object, ...]], restarts: AbstractSet[int] = frozenset()
) -> list[str]:
    """What is told, as text."""
    standing: list[Finding] = []
    for number, (what, *about) in enumerate(steps):
        if number in restarts:
            story.restart()
        story.nodes("n1", "n2")  # frames go on coming, also to one that has just started
        _step(story, standing, number, str(what), about)
    return [repr(incident) for incident in story.updates]


def _step(
    story: Story, standing: list[Finding], number: int, what: str, about: list[object]
) -> None:
    match what, about:
        case "find", [Device() as device, str(fault), severity]:
            standing.append(story.finds(device, fault, _severity(severity), f"d{number}"))
        case "clear", [int(which)] if standing:
            story.clears(standing.pop(which % len(standing)))
        case "wait", [int(seconds)]:
            story.wait(seconds, step=max(seconds / 3, 1))
        case "out", [Device() as device]:
            story.happens("maintenance_started", device, reason="because")
        case "back", [Device() as device]:
            story.happens("maintenance_ended", device)
        case "ack", [int(which)] if story.updates:
            one = story.updates[which % len(story.updates)]
            story.happens(
                "incident_acknowledged", one.root, incident=one.id, note="mine", user="ada"
            )


def _severity(value: object) -> Severity:
    return "page" if value == "page" else "ticket" if value == "ticket" else "record"


def test_incidents_are_found_in_the_order_in_which_they_opened() -> None:
    """Also those that came to be about a place later, and after a restart too: of two that are
    equally new the same one takes in what follows.
    """

    def about(host: str, *places: str) -> Evidence:
        finding = Finding("d", node(host), "f", "onset", "page", START_NS, START_NS, "It is.")
        return Evidence(finding, tuple(FaultSite("job", each) for each in places), 0, 0)

    book = Book()
    for name in ("old", "new"):
        book.open[name] = OpenIncident(name, START_NS, 0, 0, 0)
        book.add(book.open[name], about(name))
    for name in ("new", "old"):
        book.add(book.open[name], about(f"{name}-later", "j1"))
    other = Book()
    other.prepare(book.state())()
    for each in (book, other):
        assert [one.id for one in each.with_any([("job", "j1")])] == ["old", "new"]


@pytest.mark.slow
@given(st.lists(STEPS, max_size=25), st.sets(st.integers(0, 24), max_size=3))
def test_a_restart_anywhere_changes_nothing(
    steps: list[tuple[object, ...]], restarts: set[int]
) -> None:
    """Whatever is found, mended, taken out or taken on: with restarts in between the
    same is told, word for word.
    """
    assert play(Story(), steps, restarts) == play(Story(), steps)


@pytest.mark.slow
@given(st.lists(STEPS, max_size=25))
def test_every_incident_that_is_told_is_whole(steps: list[tuple[object, ...]]) -> None:
    """It opens once, ends at most once, never before it opened, and what is open is what
    was told and did not end.
    """
    story = Story()
    play(story, steps)
    open_ids = {}
    for incident in story.updates:
        assert incident.summary
        assert incident.reason.endswith(".")
        if incident.active:
            open_ids[incident.id] = incident
        else:
            assert incident.cleared_ns >= incident.opened_ns
            assert open_ids.pop(incident.id, None) is not None, "ended without having opened"
    assert {i.id for i in story.fusion.open()} == set(open_ids)

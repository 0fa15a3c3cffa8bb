"""Reports and hits as events: what goes through the store comes back as it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.catalog.events import strange_attributes
from pipeline.frame import Device
from pipeline.nccl.hit import Hit
from pipeline.nccl.member import Member, Operation, Timing
from pipeline.nccl.report import Communicator, Discard, Group, PeerEvent, Process, Report, Unlisted
from pipeline.nccl.wire import WireError, events_of, hit_of, line_event, packed, reports_in

NODE = Device("n1", "node", "n1")
NUMBERS = st.integers(-1, 2**62)
TEXT = st.text(max_size=12)
COUNTS = st.lists(st.tuples(TEXT, NUMBERS), max_size=3).map(tuple)
TUPLE_OF_TEXT = st.lists(TEXT, max_size=3).map(tuple)
OPERATIONS = st.builds(
    Operation,
    NUMBERS,
    TEXT,
    TUPLE_OF_TEXT,
    st.lists(st.lists(NUMBERS, max_size=3).map(tuple), max_size=2).map(tuple),
)
TIMINGS = st.builds(
    Timing,
    TEXT,
    NUMBERS,
    NUMBERS,
    st.floats(allow_nan=False),
    st.none() | st.floats(allow_nan=False),
)
MEMBERS = st.builds(
    Member,
    NUMBERS,
    host=TEXT,
    pid=NUMBERS,
    state=st.sampled_from(["ok", "left", "dead"]),
    launched=COUNTS,
    completed=COUNTS,
    operations=st.lists(OPERATIONS, max_size=2).map(tuple),
    timings=st.lists(TIMINGS, max_size=2).map(tuple),
)
PROCESSES = st.builds(Process, TEXT, NUMBERS, st.lists(NUMBERS, max_size=2).map(tuple), TEXT)
COMMUNICATORS = st.builds(
    Communicator,
    TEXT,
    NUMBERS,
    st.lists(MEMBERS, max_size=2).map(tuple),
    TEXT,
    TEXT,
    st.lists(NUMBERS, max_size=3).map(tuple),
    st.lists(st.builds(Unlisted, NUMBERS, TEXT, NUMBERS), max_size=2).map(tuple),
)
REPORTS = st.builds(
    Report,
    st.sampled_from(["ras", "flight_recorder"]),
    TEXT,
    NUMBERS,
    job=TEXT,
    distrust=TEXT,
    communicators=st.lists(COMMUNICATORS, max_size=3).map(tuple),
    groups=st.lists(
        st.builds(Group, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.just("ok"), TUPLE_OF_TEXT),
        max_size=2,
    ).map(tuple),
    dead=st.lists(PROCESSES, max_size=2).map(tuple),
    peers=st.lists(st.builds(PeerEvent, NUMBERS, TEXT, TEXT, PROCESSES, TEXT), max_size=2).map(
        tuple
    ),
    parsed=COUNTS,
    discarded=st.lists(st.builds(Discard, TEXT, TEXT, NUMBERS), max_size=2).map(tuple),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(REPORTS)
def test_a_report_comes_back_as_it_was(report: Report) -> None:
    """Through its events."""
    events = events_of(report, NODE, 1_000_000)
    assert [found for found, _ in reports_in(events)] == [report]


@pytest.mark.slow
@given(REPORTS)
@settings(max_examples=15)
def test_a_communicator_is_written_as_one_object(report: Report) -> None:
    """Byte by byte as if it had been one, though it is written member by member."""
    documents = [str(e.attributes["document"]) for e in events_of(report, NODE, 5000)[1:]]
    assert documents == [packed_communicator(c) for c in report.communicators]


def packed_communicator(communicator: Communicator) -> str:
    """The communicator in the JSON of a complete report."""
    text = packed(Report("ras", communicators=(communicator,)))
    begin = text.index('"communicators":[') + len('"communicators":[')
    decoder = json.JSONDecoder()
    return text[begin : decoder.raw_decode(text, begin)[1]]


@pytest.mark.slow
@settings(max_examples=25)
@given(REPORTS)
def test_events_bear_only_what_the_catalogue_names(report: Report) -> None:
    """So that the store and its reference know every attribute."""
    for event in events_of(report, NODE, 1_000_000):
        assert strange_attributes(event.kind, event.attributes) == []


def test_a_report_that_lost_a_part_is_refused() -> None:
    """A communicator that is missing would make a stall look like health."""
    events = events_of(
        Report("ras", communicators=(Communicator("a", 2), Communicator("b", 2))), NODE, 1_000_000
    )
    with pytest.raises(WireError, match="1 communicators"):
        list(reports_in(events[:-1]))


def test_a_hit_comes_back_as_it_was() -> None:
    """With the fields that its pattern captured."""
    hit = Hit(
        "cuda",
        "gpu",
        "reporter",
        5_000,
        "n1",
        7,
        3,
        -1,
        "0",
        2,
        {"err": "x"},
        "the line",
        "job.out",
    )
    event = line_event(hit, NODE, 1_000_000)
    assert hit_of(event) == hit
    assert event.time_ns == 5_000


def test_a_line_without_a_time_of_its_own_has_that_of_its_reading() -> None:
    """Most lines of launchers bear none."""
    hit = Hit("srun", "process", "named")
    assert line_event(hit, NODE, 1_000_000).time_ns == 1_000_000


@pytest.mark.parametrize("document", ["", "[]", "{", '{"fields":7}', "[" * 100_000])
def test_a_damaged_document_is_refused(document: str) -> None:
    """With the parser's own error, whatever it holds."""
    event = line_event(Hit("srun", "process", "named"), NODE, 0)
    with pytest.raises(WireError):
        hit_of(replace(event, attributes={"document": document}))

"""The MONITOR stream: the events of the recorded deaths, in whatever pieces it comes."""

from __future__ import annotations

import itertools
import time
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.ras.monitor import (
    MAX_LINE,
    MAX_OBJECT,
    MonitorStream,
    parse_monitor,
)
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.report import Process
from tests.collector.sources.nccl.recordings import reply

NAMES = ("kill_monitor.json", "kill_monitor_best.txt")


@pytest.mark.parametrize(
    ("name", "events", "pid"),
    [("kill_monitor.json", 9, 18892), ("kill_monitor_best.txt", 8, 21349)],
)
def test_a_death_is_a_fact_of_the_lifecycle(name: str, events: int, pid: int) -> None:
    """The only lifecycle event is the death of the killed process."""
    report = parse_monitor(reply(name), name, UTC)
    assert len(report.peers) == events
    assert [(e.event, e.peer.pid) for e in report.peers if e.group == "lifecycle"] == [
        ("PEER_DEAD", pid)
    ]
    assert report.dead == (Process("127.0.1.2", pid, (1,)),)
    assert report.discarded == ()


def test_death_comes_a_minute_after_the_connection_broke() -> None:
    """The stream's own times show how long NCCL waits."""
    peers = parse_monitor(reply("kill_monitor.json"), zone=UTC).peers
    times = {e.event: e.time_ns for e in peers if e.peer.pid == 18892}
    first = next(e.time_ns for e in peers if e.event == "PEER_DISCONNECTED")
    assert times["PEER_DEAD"] - first == 60 * 10**9


def test_a_peer_may_be_an_address_alone() -> None:
    """Before a connection has introduced itself only its socket is known."""
    (unnamed,) = (e for e in parse_monitor(reply("kill_monitor_best.txt")).peers if e.peer.address)
    assert (unnamed.peer.address, unnamed.peer.pid, unnamed.group) == (
        "127.0.0.1<52198>",
        -1,
        "trace",
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(cuts=st.lists(st.integers(0, 4000), max_size=6))
def test_a_stream_says_the_same_in_any_pieces(name: str, cuts: list[int]) -> None:
    """Where the network cuts has no meaning."""
    data = reply(name)
    stream, found = MonitorStream(UTC), []
    ends = [0, *sorted(cuts), len(data)]
    for begin, end in itertools.pairwise(ends):
        found += stream.feed(data[begin:end])
    assert tuple(found) == parse_monitor(data, zone=UTC).peers


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=100),
            st.sampled_from([b"{\n", b"}\n", b"}{\n", b"OK\n", b'"event": "X"\n']),
        ),
        max_size=30,
    )
)
def test_junk_is_counted_and_raises_nothing(pieces: list[bytes]) -> None:
    """A stream has no end at which it could be refused: junk is counted,
    and what follows is read.
    """
    stream = MonitorStream(UTC)
    for piece in pieces:
        stream.feed(piece)
    stream.feed(b"\n}\n\n" * 2)
    assert [
        e.event
        for e in stream.feed(
            b"[2026-11-20 05:08:21] PEER_DEAD: Process 1 on node n1 managing GPU 0 \n"
        )
    ] == ["PEER_DEAD"]


@pytest.mark.slow
@pytest.mark.parametrize("flood", [b"x" * 1000, b"{\n" + b'"a":\n' * 200])
def test_memory_is_bounded_by_one_object(flood: bytes) -> None:
    """A line or an object without end is dropped, however long it goes on."""
    stream = MonitorStream(UTC)
    for _ in range(1000):
        stream.feed(flood)
        held = len(stream._rest) + sum(map(len, stream._object))
        assert held <= MAX_LINE + MAX_OBJECT


def test_an_object_of_blank_lines_has_an_end() -> None:
    """A line counts with its end: else blank ones are kept without limit, in the time of their
    square.
    """
    stream = MonitorStream()
    began_s = time.process_time()
    for _ in range(4):
        stream.feed(b"{\n" + b"\n" * 100_000)
        assert len(stream._object) <= MAX_OBJECT
    assert stream.unread.count == 4
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize("junk", [b"", b"OK\n", b"hello\n"])
def test_a_stream_without_events_is_no_stream(junk: bytes) -> None:
    """A saved file in which nothing is found is refused."""
    with pytest.raises(FormatError):
        parse_monitor(junk)

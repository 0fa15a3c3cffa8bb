"""Inspector logs: timings and counts per rank, through half lines, junk and other jobs."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.inspector.line import parse_line
from collector.sources.nccl.inspector.log import InspectorLog, looks_like_inspector, parse_log
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.member import KEPT_TIMINGS, Member, Timing
from pipeline.nccl.report import Report
from tests.collector.sources.nccl.inspector.lines import P2P, line
from tests.collector.sources.nccl.recordings import WORLD, reply


def only(report: Report) -> Member:
    """The one rank of the one communicator."""
    (found,) = report.communicators
    assert found.id == WORLD
    (member,) = found.members
    return member


def test_a_line_is_one_timing_of_one_rank() -> None:
    """The hash is RAS's, the size and time those of the operation."""
    found = parse_line(line(407, rank=3))
    assert (found.communicator, found.rank, found.size, found.host, found.pid) == (
        WORLD,
        3,
        8,
        "n1",
        77,
    )
    assert found.timing == Timing("AllReduce", 407, 4194304, 120.5, 1.75)
    assert found.time_ns == 1795151188 * 10**9


def test_completed_operations_are_counted_from_one() -> None:
    """The sequence begins at 0: after number 9 ten are complete, as RAS would count them."""
    log = InspectorLog()
    log.feed([line(8), line(9), line(3, coll="AllGather")])
    assert dict(only(log.report()).completed) == {"AllReduce": 10, "AllGather": 4}


@pytest.mark.parametrize(
    ("word", "value"), [('"nan"', math.nan), ("inf", math.inf), ('"inf"', math.inf), ("3", 3.0)]
)
def test_numbers_that_are_none_are_read(word: str, value: float) -> None:
    """The plugin writes them as words, one of them without quotes."""
    timing = parse_line(line(1, us=word)).timing
    assert timing is not None
    assert timing.microseconds == pytest.approx(value, nan_ok=True)


def test_a_time_that_is_no_number_counts_and_is_no_timing() -> None:
    """The operation is complete; how long it took is unknown."""
    log = InspectorLog()
    log.feed([line(4, us='"nan"'), line(5, us="inf"), line(6)])
    member = only(log.report())
    assert dict(member.completed) == {"AllReduce": 7}
    assert [t.seq for t in member.timings] == [6]


def test_the_latest_timings_are_kept() -> None:
    """Memory is bounded, the count is not."""
    log = InspectorLog()
    log.feed(line(n) for n in range(KEPT_TIMINGS + 100))
    member = only(log.report())
    assert [t.seq for t in member.timings] == list(range(100, KEPT_TIMINGS + 100))
    assert dict(member.completed) == {"AllReduce": KEPT_TIMINGS + 100}


@pytest.mark.slow
def test_of_many_operations_the_same_are_kept_on_all_ranks() -> None:
    """500 a second of two ranks whose logs are written at different moments: of the
    kept ones most are on both.
    """
    logs = [InspectorLog(per_second=1.0), InspectorLog(per_second=1.0)]
    for log, shift in zip(logs, (0, 333), strict=True):
        log.feed(
            line(n, us="10").replace(b"1795151188000000", b"%d" % (1795151188000000 + 2000 * n))
            for n in range(shift, 30_000 + shift)
        )
    kept = [{t.seq for t in only(log.report(timings=32)).timings} for log in logs]
    assert len(kept[0] & kept[1]) >= 30
    assert dict(only(logs[0].report()).completed) == {"AllReduce": 30_000}


def test_a_job_that_started_again_under_the_same_hash_counts_anew() -> None:
    """Another pid is another process."""
    log = InspectorLog()
    log.feed([line(500), line(0, pid=78)])
    assert (only(log.report()).pid, dict(only(log.report()).completed)) == (78, {"AllReduce": 1})


def test_sends_are_no_collectives() -> None:
    """They have a sequence of their own, which RAS does not count."""
    log = InspectorLog()
    log.feed([P2P])
    (found,) = log.report().communicators
    assert (found.id, found.members[0].completed, found.members[0].timings) == (
        "0" * 15 + "1",
        (),
        (),
    )


def test_a_last_line_without_end_is_not_read() -> None:
    """It may be half of what will be there."""
    report = parse_log(line(1) + b"\n" + line(2)[:-2])
    assert dict(only(report).completed) == {"AllReduce": 2}
    assert [d.count for d in report.discarded] == [1]


def test_junk_between_lines_is_counted() -> None:
    """What is no Inspector line is shown and passed over."""
    report = parse_log(b"hello\n" + line(1) + b"\n{}\n")
    assert report.parsed == (("line", 1),)
    assert [d.what for d in report.discarded] == ["hello", "{}"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{}",
        b'{"header":{"id":"zz","rank":0,"n_ranks":8}}',
        b'{"header":{"id":"0x1","rank":8,"n_ranks":8}}',
        b'{"header":{"id":"0x1","rank":0,"n_ranks":8},"coll_perf":{"coll":"AllReduce","coll_sn":-1}}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_none_is_refused(bad: bytes) -> None:
    """No communicator, no such rank, no such number."""
    with pytest.raises(FormatError):
        parse_line(bad)


@pytest.mark.slow
@given(st.binary(max_size=40), st.integers(0, 500), st.integers(0, 30))
def test_no_bytes_raise_anything_but_its_own_error(junk: bytes, at: int, cut: int) -> None:
    """Junk anywhere in a log gives a report or FormatError."""
    whole = line(1) + b"\n" + P2P + b"\n"
    with contextlib.suppress(FormatError):
        parse_log(whole[:at] + junk + whole[at + cut :])


def test_a_log_is_distinguished_from_a_ras_report() -> None:
    """By its first line."""
    assert looks_like_inspector(line(1))
    assert not looks_like_inspector(reply("ok.json"))

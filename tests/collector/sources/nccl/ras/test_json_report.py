"""JSON reports: the recorded ones are read to their conclusion, and only sums
that are right are believed.
"""

from __future__ import annotations

import contextlib
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.ras.json_report import MAX_OBJECTS, parse_json
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.report import Report
from tests.collector.sources.nccl.recordings import (
    FIRST_NODE,
    SECOND_NODE,
    WORLD,
    communicator,
    gone,
    member,
    reply,
)


def read(name: str) -> Report:
    """A recorded report."""
    return parse_json(reply(name), name, UTC)


def test_a_healthy_job_is_whole_and_counts_alike() -> None:
    """All ranks of three communicators run, and all of one communicator have launched the same."""
    report = read("ok.json")
    assert report.trusted
    assert {
        c.id: (len(c.members), {dict(m.launched)["AllReduce"] for m in c.members})
        for c in report.communicators
    } == {
        WORLD: (8, {6650}),
        FIRST_NODE: (4, {0}),
        SECOND_NODE: (4, {0}),
    }
    assert {dict(m.launched)["AllGather"] for m in communicator(report, FIRST_NODE).members} == {50}
    assert {m.state for c in report.communicators for m in c.members} == {"ok"}


def test_the_time_is_that_of_the_answering_node() -> None:
    """05:06:28 on 20 November 2026, in the zone of that node."""
    assert read("ok.json").time_ns == 1795151188 * 10**9


@pytest.mark.parametrize(("name", "pid"), [("kill_t7.json", 18892), ("stop_t7.json", 18874)])
def test_a_lost_process_is_missing_and_not_dead(name: str, pid: int) -> None:
    """One process is missing from two communicators; seven seconds on it is not yet called dead."""
    report = read(name)
    assert report.trusted
    assert set(gone(report)) == {(WORLD, 5, pid), (SECOND_NODE, 1, pid)}
    assert member(report, WORLD, 5).state == "unresponsive"


def test_an_error_names_the_rank_that_reports_it() -> None:
    """World rank 2 saw a remote process fail."""
    seen = member(read("async_one.json"), WORLD, 2)
    assert (seen.error, seen.pid, seen.host, seen.gpu) == (6, 18745, "127.0.1.1", 2)


def test_a_teardown_is_read_as_states() -> None:
    """Two ranks left, one finalises, one aborts, one is initialising:
    trusted, and no process is dead.
    """
    report = read("nocomm.json")
    states = {m.rank: m.state for m in communicator(report, WORLD).members}
    assert states == {
        0: "finalize",
        1: "abort",
        2: "ok",
        3: "ok",
        4: "ok",
        5: "left",
        6: "left",
        7: "init",
    }
    assert report.trusted
    assert not list(gone(report))


def test_a_half_initialised_communicator_discredits_the_report() -> None:
    """An entry without hash and size, and a world that has lost a rank:
    nothing in it may be believed.
    """
    report = read("half_init.json")
    assert "being initialised" in report.distrust
    assert "has 3 and misses 0" in report.distrust


def test_the_comma_that_2_28_leaves_out_is_put_in() -> None:
    """The releases that forget it are read like those that do not, and the repair is reported."""
    whole = reply("kill_t7.json")
    broken = whole.replace(
        b'"nvml_dev": 1,\n          "status": {\n            "unresponsive"',
        b'"nvml_dev": 1\n          "status": {\n            "unresponsive"',
    )
    assert broken.count(b'"nvml_dev": 1\n') == 2
    report = parse_json(broken)
    assert report.communicators == parse_json(whole).communicators
    assert [d.count for d in report.discarded] == [2]


def test_replies_to_commands_before_the_report_are_passed_over() -> None:
    """OK belongs to SET FORMAT; a refusal is reported."""
    report = parse_json(b"SERVER PROTOCOL 2\nOK\nERROR: Unknown command FOO\n" + reply("ok.json"))
    assert report.communicators == read("ok.json").communicators
    assert [d.what for d in report.discarded] == ["ERROR: Unknown command FOO"]


def test_a_cut_document_is_refused_wherever_it_ends() -> None:
    """Nothing is guessed from half a document."""
    whole = reply("kill_t7.json").rstrip()
    for end in range(0, len(whole), 37):
        with pytest.raises(FormatError):
            parse_json(whole[:end])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"communicators_count": 3', b'"communicators_count": 4'),
        (b'"ranks_count": 8', b'"ranks_count": 7'),
        (b'"size": 8', b'"size": 9'),
        (b'"hash": "0xc7075c59e2491f69"', b'"hash": "0x0"'),
        (
            b'"rank": 3,\n          "host": "127.0.1.2"',
            b'"rank": 2,\n          "host": "127.0.1.2"',
        ),
    ],
)
def test_sums_that_are_wrong_discredit_the_report(old: bytes, new: bytes) -> None:
    """A report that contradicts itself is not believed in any part."""
    whole = reply("ok.json")
    assert whole.count(old) == 1
    assert not parse_json(whole.replace(old, new)).trusted


def test_a_report_of_too_many_objects_is_refused_before_it_is_decoded() -> None:
    """Memory follows the number of objects: one that would fill it is not looked at."""
    with pytest.raises(FormatError, match="objects"):
        parse_json(b'{"nccl_version":"2.30.7","communicators":[' + b"{}," * MAX_OBJECTS + b"{}]}")


def test_counters_that_are_not_known_cost_nothing() -> None:
    """A rank with a million made-up operations has the five that there are."""
    flood = b"".join(b'"op%d": 1, ' % n for n in range(100_000))
    whole = reply("ok.json").replace(b'"Broadcast": 0', flood + b'"Broadcast": 0', 1)
    assert {len(m.launched) for c in parse_json(whole).communicators for m in c.members} == {5}


def test_fields_that_a_later_nccl_adds_are_passed_over() -> None:
    """What is known is read as before."""
    whole = reply("ok.json").replace(b'"size": 8,', b'"size": 8, "colour": {"deep": [1, 2]},')
    assert parse_json(whole).communicators == read("ok.json").communicators


@pytest.mark.parametrize(
    "junk",
    [
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"nccl_version":"x","communicators":' + b"[" * 200_000,
        b"{\xff}",
        b"",
    ],
)
def test_hostile_documents_are_refused(junk: bytes) -> None:
    """Deep nesting, bad characters and nothing at all are FormatError."""
    with pytest.raises(FormatError):
        parse_json(junk)


@pytest.mark.slow
@given(st.binary(max_size=80), st.integers(0, 2000), st.integers(0, 40))
def test_no_bytes_raise_anything_but_its_own_error(junk: bytes, at: int, cut: int) -> None:
    """Junk anywhere in a report gives a report or FormatError."""
    whole = reply("half_init.json")
    with contextlib.suppress(FormatError):
        parse_json(whole[:at] + junk + whole[at + cut :])

"""Text reports: every recorded one is read to its conclusion, and no text does harm."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.nccl.ras.text import parse_text
from collector.sources.nccl.sanitize import FormatError
from pipeline.nccl.report import Process, Report, Unlisted
from tests.collector.sources.nccl.recordings import (
    SECOND_NODE,
    WORLD,
    communicator,
    gone,
    member,
    replies,
    reply,
)

REPORTS = [name for name in replies("*.txt") if "monitor" not in name]
LOST = [name for name in REPORTS if name.startswith(("kill", "stop"))]


def read(name: str) -> Report:
    """A recorded report."""
    return parse_text(reply(name).decode(), name)


@pytest.mark.parametrize("name", [name for name in REPORTS if name != "badcmds.txt"])
def test_no_line_of_a_recorded_report_is_unknown(name: str) -> None:
    """Every line of the reports of three NCCL releases is understood."""
    assert read(name).discarded == ()


@pytest.mark.parametrize("name", ["ok.txt", "ok_2.28.9-1.txt", "ok_2.27.7-1.txt"])
def test_a_healthy_job_is_trusted_and_blames_nobody(name: str) -> None:
    """All communicators run, nothing is missing, and none needs to be described."""
    report = read(name)
    assert report.trusted
    assert (report.nodes, report.processes) == (2, 8)
    assert {group.state for group in report.groups} == {"ok"}
    assert not any(group.errors for group in report.groups)
    assert not report.communicators


@pytest.mark.parametrize(
    ("name", "communicators"),
    [("ok.txt", [1, 2]), ("ok_2.28.9-1.txt", [1, 2, 4]), ("ok_2.27.7-1.txt", [1, 2, 4])],
)
def test_groups_are_rows_of_the_table(name: str, communicators: list[int]) -> None:
    """Each row counts the communicators that are alike."""
    assert [group.communicators for group in read(name).groups] == communicators


@pytest.mark.parametrize("name", LOST)
def test_a_lost_process_is_missing_in_each_of_its_communicators(name: str) -> None:
    """The killed or stopped process is world rank 5 and rank 1 of its node's communicator,
    at every age of the loss.
    """
    pid = 18892 if name.startswith("kill") else 18874
    report = read(name)
    assert report.trusted
    assert set(gone(report)) == {(WORLD, 5, pid), (SECOND_NODE, 1, pid)}
    assert report.processes == 8


@pytest.mark.parametrize("name", LOST)
def test_a_process_is_dead_only_after_a_minute(name: str) -> None:
    """Until 60 s it is missing, afterwards it is dead, for the job and in each communicator."""
    dead = name in {"kill_t65.txt", "kill_t75.txt"}
    report = read(name)
    process = Process("127.0.1.2", 18892 if name.startswith("kill") else 18874, (1,))
    assert (report.dead, report.missing) == (((process,), ()) if dead else ((), (process,)))
    assert member(report, WORLD, 5).state == ("dead" if dead else "unresponsive")


def test_a_first_query_of_a_stopped_process_times_out() -> None:
    """The collection took the five seconds of its deadline, and reports how
    many peers did not answer.
    """
    report = read("stop_t0.2.txt")
    assert (report.collection_seconds, report.timeouts) == (4.801, 2)


def test_an_error_names_the_rank_that_reports_it() -> None:
    """World rank 2 saw a remote process fail."""
    seen = member(read("async_one.txt"), WORLD, 2)
    assert (seen.error, seen.pid, seen.host, seen.gpu) == (6, 18745, "127.0.1.1", 2)


def test_ranks_that_are_behind_are_named_and_the_others_counted() -> None:
    """Four ranks are at 10, the twelve others at 11."""
    world = communicator(read("mismatch_4of16.txt"), WORLD)
    assert {m.rank: (m.pid, m.gpu, dict(m.launched)) for m in world.members} == {
        12 + i: (pid, 4 + i, {"AllReduce": 10})
        for i, pid in enumerate((23883, 23885, 23887, 23889))
    }
    assert world.unlisted == (Unlisted(12, "AllReduce", 11),)
    assert world.size == 16


def test_a_teardown_is_read_as_states() -> None:
    """Two ranks have left, one finalises, one aborts, one is initialising,
    three run; no process is dead.
    """
    report = read("nocomm.txt")
    world = communicator(report, WORLD)
    states = {m.rank: m.state for m in world.members}
    assert states == {5: "left", 6: "left", 0: "finalize", 1: "abort", 7: "init"}
    assert world.unlisted == (Unlisted(3, state="ok"),)
    assert report.trusted
    assert not list(gone(report))


def test_a_phantom_row_discredits_the_report() -> None:
    """NCCL 2.27.7 walked out of bounds: a communicator of no ranks, a head without a body,
    and the world is missing.
    """
    report = read("nocomm_2.27.7-1.txt")
    assert not report.trusted
    assert "no ranks" in report.distrust


def test_refused_commands_are_reported_and_the_cut_report_is_not_trusted() -> None:
    """Four protocol errors come before a report that ends in the middle of a line."""
    report = read("badcmds.txt")
    assert [d.what for d in report.discarded if d.why == "a command was refused"] == [
        "ERROR: Unknown command FOO",
        "ERROR: Invalid timeout value x",
        "ERROR: Invalid format xml",
        "ERROR: Invalid event group 'bogus'",
    ]
    assert "cut off" in report.distrust


CUT = ["kill_t75.txt", "mismatch_4of16.txt", "nocomm.txt", "async_one.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_a_report_cut_within_a_line_is_never_believed(name: str) -> None:
    """Wherever the connection breaks, what came is refused or not trusted."""
    whole = reply(name).decode()
    for end in (end for end in range(len(whole)) if whole[end - 1 : end] != "\n"):
        with contextlib.suppress(FormatError):
            assert not parse_text(whole[:end]).trusted, end


@pytest.mark.parametrize("name", CUT)
def test_a_report_cut_between_lines_says_nothing_that_the_whole_does_not(name: str) -> None:
    """A lost last line may hide what is the matter; it never makes anything up."""
    lines = reply(name).decode().splitlines(keepends=True)
    whole = {(c.id, m) for c in parse_text("".join(lines)).communicators for m in c.members}
    for end in range(len(lines)):
        with contextlib.suppress(FormatError):
            report = parse_text("".join(lines[:end]))
            assert (
                not report.trusted
                or {(c.id, m) for c in report.communicators for m in c.members} <= whole
            ), end


def test_a_mismatch_with_one_side_is_cut() -> None:
    """Where ranks differ there are two kinds of them: a report that lists
    of one has lost the other.
    """
    text = reply("mismatch_4of16.txt").decode()
    assert not parse_text(text[: text.index("  4 ranks have launched")]).trusted


def test_unknown_lines_are_kept_and_counted() -> None:
    """A later NCCL may report more: what is new is shown, and the rest is still read."""
    text = reply("kill_t7.txt").decode().replace("Warnings\n", "  A new kind of line\nWarnings\n")
    report = parse_text(text)
    assert report.trusted
    assert [(d.what, d.why) for d in report.discarded] == [
        ("  A new kind of line", "not understood")
    ]


def test_old_wording_counts_all_operations_at_once() -> None:
    """NCCL 2.24 and 2.25 have one counter for all operations, and call ranks that left UNKNOWN."""
    text = (
        "NCCL version 2.25.1 compiled with CUDA 12.8\nErrors\n======\n\nWarnings\n========\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    0         1         1         4         4         4   RUNNING  MISMATCH\n"
        "Warnings\n"
        "#0-0 (00000000000000aa) MISMATCH\n"
        "  Communicator ranks have different status\n"
        "  The unknown ranks: 2\n"
        "  Communicator ranks have different collective operation counts\n"
        "  3 ranks have launched up to operation 7\n"
        "  Rank 3 has launched up to operation 0 -- GPU 3 managed by process 9 on node 10.0.0.1\n"
    )
    report = parse_text(text)
    assert report.discarded == ()
    assert member(report, "00000000000000aa", 2).state == "left"
    assert member(report, "00000000000000aa", 3).launched == (("*", 0),)


@pytest.mark.slow
@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=300),
    st.integers(0, 1200),
    st.integers(0, 60),
)
def test_no_text_raises_anything_but_its_own_error(junk: str, at: int, cut: int) -> None:
    """Junk anywhere in a report gives a report or FormatError."""
    whole = reply("kill_t75.txt").decode()
    with contextlib.suppress(FormatError):
        parse_text(whole[:at] + junk + whole[at + cut :])


@pytest.mark.parametrize(
    "line",
    [
        "  Rank " + "1" * 100_000,
        "  The missing ranks: " + "1," * 100_000,
        "#" * 100_000,
        " " * 100_000 + "x",
    ],
)
def test_a_line_without_end_is_not_looked_at(line: str) -> None:
    """Length alone makes a line unknown: no pattern ever sees it."""
    report = parse_text(reply("ok.txt").decode().replace("\nErrors\n", f"\n{line}\nErrors\n"))
    assert len(report.discarded) == 1
    assert len(report.discarded[0].what) <= 200


def test_a_flood_of_lines_is_refused() -> None:
    """Beyond any report that a job could have, nothing is read."""
    with pytest.raises(FormatError, match="more than"):
        parse_text("NCCL version 2.30.7 compiled with CUDA 13.0\n" * 200_001)


BOMBS = [
    " " * 4000 + "x",
    "  Rank 1 reported " + "a " * 2000 + "!",
    "  The missing ranks: " + "1, " * 1300 + "x",
    "1 " * 2000 + "x",
]
BOMBS += [
    "  Process 1 on node n managing GPUs " + "1," * 1900 + " (NVML" * 20,
    "Nodes " * 680 + "x",
    "(total)" * 580 + "x",
    "Group " + " " * 4000,
]


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_no_line_takes_more_than_a_moment(bomb: str) -> None:
    """The time is linear in the length: a line that is nearly right costs no more than one that is.

    Quadratic took 300 ms.
    """
    began = time.process_time()
    parse_text(reply("ok.txt").decode().replace("\nErrors\n", f"\n{bomb}\nErrors\n"))
    assert time.process_time() - began < 0.1

"""A report in pieces."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from collector.sources.nccl.ras.pieces import RANKS, Piece, split, whole
from collector.sources.tenants.bounded import BoundsError, pack, unpack
from pipeline.nccl.member import Member
from pipeline.nccl.report import Communicator, Report


def report_of(*sizes: int) -> Report:
    """One communicator of each size, with texts of their own as a decoder makes them."""
    counts = tuple((f"{name}".upper(), 7) for name in ("broadcast", "allreduce"))
    return Report(
        "ras",
        "127.0.0.1:28028",
        communicators=tuple(
            Communicator(
                f"c{number}",
                size,
                tuple(
                    Member(rank, host=f"10.0.0.{rank % 8}", pid=rank, launched=counts)
                    for rank in range(size)
                ),
            )
            for number, size in enumerate(sizes)
        ),
    )


def test_a_report_is_whole_again() -> None:
    """Communicators of no rank, of one, of as many as a piece has, and of more."""
    report = report_of(0, 1, RANKS, RANKS + 1, 3 * RANKS)
    bare, pieces = split(report)
    assert not any(communicator.members for communicator in bare.communicators)
    assert max(len(unpack(piece, Piece)[1]) for piece in pieces) == RANKS
    assert whole(bare, pieces) == report


def test_hosts_and_counts_that_are_equal_are_there_once() -> None:
    """Of all communicators."""
    members = [
        member
        for communicator in whole(*split(report_of(16, 16))).communicators
        for member in communicator.members
    ]
    assert len({id(member.host) for member in members}) == 8
    assert len({id(member.launched) for member in members}) == 1


@pytest.mark.parametrize("number", [-1, 1])
def test_ranks_of_a_communicator_that_is_not_there_are_refused(number: int) -> None:
    """A child may be another's by then."""
    bare, _ = split(report_of(1))
    with pytest.raises(BoundsError):
        whole(bare, [pack((number, (Member(0),)), Piece)])


@pytest.mark.slow
def test_a_large_report_takes_less_than_half_of_what_it_takes_at_once() -> None:
    """At its peak, while it is decoded."""
    report = report_of(8 * RANKS, 8 * RANKS)
    data, split_up = pack(report, Report), split(report)
    assert 2 * peak(lambda: whole(*split_up)) < peak(lambda: unpack(data, Report))


def peak(work: Callable[[], Report]) -> int:
    """Bytes, at most."""
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most

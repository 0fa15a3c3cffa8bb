"""A report in pieces. Decoded all at once the largest would take 100 MiB, 1.5 kB for each rank of a
communicator, as most of its texts and numbers are there many times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from collector.sources.tenants.bounded import BoundsError, pack, unpack
from pipeline.nccl.member import Member, Sharing
from pipeline.nccl.report import Report

RANKS = 512  # of one piece

Piece = tuple[int, tuple[Member, ...]]
"""The number of a communicator in its report, and ranks of it."""


def split(report: Report) -> tuple[Report, tuple[bytes, ...]]:
    """A report without its communicators' ranks, and these in pieces, in order."""
    bare = tuple(replace(c, members=()) for c in report.communicators)
    pieces = tuple(
        pack((number, communicator.members[first : first + RANKS]), Piece)
        for number, communicator in enumerate(report.communicators)
        for first in range(0, len(communicator.members), RANKS)
    )
    return replace(report, communicators=bare), pieces


def whole(report: Report, pieces: Iterable[bytes]) -> Report:
    """The report that was split. What is equal in its ranks is there once. BoundsError."""
    members: list[list[Member]] = [[] for _ in report.communicators]
    sharing = Sharing()
    for piece in pieces:
        number, found = unpack(piece, Piece)
        if not 0 <= number < len(members):
            raise BoundsError(f"ranks of communicator {number} of {len(members)}")
        members[number] += map(sharing.member, found)
    communicators = (
        replace(communicator, members=tuple(found))
        for communicator, found in zip(report.communicators, members, strict=True)
    )
    return replace(report, communicators=tuple(communicators))

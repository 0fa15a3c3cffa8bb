"""The recorded replies and dumps of tests/data/nccl, and their conclusions
as the tests state them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.nccl.member import Member
from pipeline.nccl.report import Communicator, Report

DATA = Path(__file__).parents[3] / "data" / "nccl"
RAS = DATA / "ras"
DUMPS = DATA / "flight_recorder"

WORLD = "c7075c59e2491f69"  # 8 ranks: 0 to 3 on 127.0.1.1, 4 to 7 on 127.0.1.2
FIRST_NODE = "7fd09150d5ca943d"
SECOND_NODE = "7fd09050d5ca928a"


def reply(name: str) -> bytes:
    """A recorded RAS reply."""
    return (RAS / name).read_bytes()


def replies(pattern: str) -> list[str]:
    """Names of recorded replies, in order."""
    return sorted(path.name for path in RAS.glob(pattern))


def communicator(report: Report, identity: str) -> Communicator:
    """The one with this hash; AssertionError where there is not exactly one."""
    (found,) = (c for c in report.communicators if c.id == identity)
    return found


def member(report: Report, identity: str, rank: int) -> Member:
    """One rank of one communicator."""
    (found,) = (m for m in communicator(report, identity).members if m.rank == rank)
    return found


def gone(report: Report) -> Iterator[tuple[str, int, int]]:
    """Communicator, rank and pid of every member whose process does not answer."""
    return ((c.id, m.rank, m.pid) for c in report.communicators for m in c.members if m.gone)

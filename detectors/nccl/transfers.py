"""Sends that wait for a receive which was never called, and receives for a send."""

from __future__ import annotations

from collections.abc import Iterator

from detectors.nccl.communicators import Joined
from detectors.nccl.waiting import Rank, Waiting
from pipeline.nccl.member import Member, Transfer

COUNTERPART = {"send": "recv", "recv": "send"}


def unmatched(key: str, joined: Joined) -> Iterator[Waiting]:
    """Pairs of ranks of which one waits in a transfer that the other has not called.

    What NCCL transfers, both ends have called; a rank whose dump has no such unfinished call is
    awaited. One without a dump is not known.
    """
    if not any(member.transfers for member in joined.members.values()):
        return
    seats = {number: _seat(joined, member) for number, member in joined.members.items()}
    numbers = {seat: number for number, seat in seats.items() if seat >= 0}
    for number, member in joined.members.items():
        for transfer in dict.fromkeys(member.transfers):
            other = numbers.get(transfer.peer)
            if other is None or other == number or _called(joined, other, transfer, seats[number]):
                continue
            waits = Waiting(key, "behind", behind=[other], pending=[number])
            waits.operation = f"{COUNTERPART[transfer.kind]} for rank {seats[number]}"
            waits.wait(Rank(number), Rank(other))
            yield waits
            break


def _seat(joined: Joined, member: Member) -> int:
    """The number of a rank in its group, -1 where it is unknown."""
    ranks = joined.communicator.ranks
    if member.rank >= 0 or member.world_rank not in ranks:
        return member.rank if member.rank >= 0 or ranks else member.world_rank
    return ranks.index(member.world_rank)


def _called(joined: Joined, other: int, transfer: Transfer, rank: int) -> bool:
    wanted = COUNTERPART[transfer.kind]
    return any(t.kind == wanted and t.peer == rank for t in joined.members[other].transfers)

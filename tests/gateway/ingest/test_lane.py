"""What a worker is asked to read before anything of it is taken."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.ingest import wire
from gateway.ingest.arena import Arena
from gateway.ingest.lane import AHEAD, Lane, Ticket
from pipeline.bus.batch import MAGIC, MAX_BYTES, PREFIX, VERSION


class Silent:
    """A worker that is ready and answers nothing."""

    pid = 0

    def __init__(self) -> None:
        self.commands = 0
        self._answers = [wire.ANSWER.pack(wire.READY, 0, 0, 0)]

    def send(self, _: bytes) -> bool:
        """One more command."""
        self.commands += 1
        return True

    def receive(self, _: float) -> bytes | None:
        """That it is ready."""
        return self._answers.pop() if self._answers else None

    def spent(self, _: float) -> None:
        """No time."""


@pytest.mark.parametrize(("claims", "read"), [(13_000, AHEAD), (1 << 20, 19), (MAX_BYTES, 2)])
def test_fewer_large_batches_are_read_ahead(claims: int, read: int) -> None:
    """Many times its bytes may come of a message of 70 kB: not of a hundred at once."""
    arena, worker = Arena(1), Silent()
    lane = Lane(0, arena, lambda: cast("Any", worker), 10.0, cast("Any", worker))
    payload = PREFIX.pack(MAGIC, VERSION, claims, 0)
    tickets = [Ticket(number, "n1", payload, lane) for number in range(2 * AHEAD)]
    for ticket in tickets:
        lane.read(ticket)
    lane.step(0)
    assert worker.commands == read
    for ticket in tickets[:read]:
        lane.taken(ticket)
    assert worker.commands == 2 * read
    arena.close()

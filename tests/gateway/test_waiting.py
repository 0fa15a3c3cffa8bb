"""What a gateway has read and not judged."""

from __future__ import annotations

from gateway.consumer import Message
from gateway.waiting import MAX_BYTES, MAX_MESSAGES, Waiting


def filled(size: int) -> Waiting:
    """With as many messages of a size as are read before the first is judged."""
    waiting, payload = Waiting(), bytes(size)
    while not waiting.full:
        waiting.put(Message("n1", payload, 0, len(waiting)))
    return waiting


def test_what_waits_is_bounded_by_number_and_by_bytes() -> None:
    """Ten thousand of the largest messages would be ten gigabytes."""
    assert len(filled(13_000)) == MAX_MESSAGES
    largest = filled(1 << 20)
    assert len(largest) == MAX_BYTES >> 20
    assert largest.take().sequence == 0
    assert not largest.full

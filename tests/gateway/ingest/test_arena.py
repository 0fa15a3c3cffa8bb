"""Memory that workers share: bounded, reused, and given back."""

from __future__ import annotations

import os
from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gateway.ingest.arena import Arena, Ring, arrays_at
from pipeline.frame import blank

BEGIN, SIZE = 1000, 64


@given(st.lists(st.one_of(st.integers(1, SIZE), st.none()), max_size=60))
def test_records_of_a_ring_never_overlap(steps: list[int | None]) -> None:
    """Whatever is placed and freed (None); and once all are freed there is room for the largest."""
    ring, placed = Ring(BEGIN, SIZE), deque[range]()
    for size in steps:
        if size is None:
            if placed:
                ring.free()
                placed.popleft()
            continue
        at = ring.place(size)
        if at is None:
            assert placed
            continue
        new = range(at, at + size)
        assert new.start >= BEGIN
        assert new.stop <= BEGIN + SIZE
        assert not any(new.start < old.stop and old.start < new.stop for old in placed)
        placed.append(new)
    for _ in placed:
        ring.free()
    assert ring.place(SIZE) == BEGIN


def test_a_room_is_blank_and_seen_by_all_who_have_the_memory() -> None:
    """As a frame in which nothing was observed; what one writes the other reads."""
    arena = Arena(1)
    room = arena.room("gpu", 3)
    for made, fresh in zip(room.shown(), (*blank("gpu", range(3)), np.zeros(3)), strict=True):
        np.testing.assert_array_equal(made, fresh)
    gauges, counters, observed, sampled = arrays_at(arena.memory, room.at, "gpu", 3)
    gauges[0, 2], counters[1, 1], observed[1, 1], sampled[2] = 7.0, 8, True, 9
    assert (room.gauges[0, 2], room.counters[1, 1], room.observed[1, 1], room.sampled_ns[2]) == (
        7.0, 8, True, 9
    )  # fmt: skip
    arena.close()


def test_the_memory_of_a_room_is_given_back_with_its_last_view() -> None:
    """A view holds it, and nothing else does; what comes next takes its place."""
    arena = Arena(1)
    before = os.fstat(arena.fd).st_blocks
    room = arena.room("nvlink", 5_000)
    at, view = room.at, room.shown()[0]
    assert room.held
    other = arena.room("nvlink", 5_000)
    assert other.at != at
    assert not other.held
    del room
    arena.tidy()
    assert np.isnan(view).all()
    del view, other
    arena.tidy()
    assert os.fstat(arena.fd).st_blocks == before
    assert arena.room("gpu", 1).at == at
    arena.close()

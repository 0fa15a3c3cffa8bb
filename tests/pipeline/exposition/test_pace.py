"""How long a frame is shown: by its source's period, or by its own kind's
pace where that is slower.
"""

from __future__ import annotations

from pipeline.exposition.latest import Latest
from pipeline.frame import Device, frame_of
from pipeline.observation import Observation
from tests.fakes import FakeClock


def write(latest: Latest, clock: FakeClock, *kinds: str) -> None:
    """One observation of the NVML source with a frame of each kind."""
    now = (clock.time_ns(), clock.monotonic_ns())
    frames = tuple(frame_of(kind, [(Device("n1", kind, kind), {})], *now) for kind in kinds)
    latest.write(Observation("nvml", "n1", "boot", 1, *now, 0, frames))


def shown(latest: Latest) -> set[str]:
    """Kinds that are fresh."""
    return {entry.frame.kind for entry in latest.snapshot().entries if entry.fresh}


def test_a_kind_that_comes_rarely_is_stale_by_its_own_pace() -> None:
    """NVLinks, read with every fifth reading, do not flicker; they vanish when they stay away."""
    clock = FakeClock()
    latest = Latest(clock, {"nvml": 1.0})
    for second in range(11):
        write(latest, clock, *(("gpu", "nvlink") if second % 5 == 0 else ("gpu",)))
        clock.advance(1)
        if second >= 5:
            assert shown(latest) == {"gpu", "nvlink"}
    for _ in range(16):
        write(latest, clock, "gpu")
        clock.advance(1)
    assert shown(latest) == {"gpu"}


def test_a_gap_is_no_pace() -> None:
    """After an outage of a minute the next one is noticed as soon as the first."""
    clock = FakeClock()
    latest = Latest(clock, {"nvml": 1.0})
    write(latest, clock, "gpu")
    clock.advance(60)
    write(latest, clock, "gpu")
    clock.advance(4)
    assert shown(latest) == set()

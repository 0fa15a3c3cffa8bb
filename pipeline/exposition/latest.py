"""Latest: the newest frame of every source and kind, and everything known about each device."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from pipeline.catalog import KINDS
from pipeline.clock import SECOND_NS, Clock
from pipeline.frame import Attributes, Device, Frame
from pipeline.observation import Observation

# the exposition guide's habit of missing two scrapes: older readings are dropped, not shown as new
STALE_PERIODS = 3
SLOWEST_PACE_PERIODS = 10  # frames of one kind further apart are a gap, not a pace
MIN_STALE_S = 3.0  # a source faster than 1 Hz is not stale after one slow read
UNKNOWN_PERIOD_S = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The newest frame of one kind from one source, and whether it is fresh."""

    source: str
    frame: Frame
    fresh: bool


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All entries at one instant.

    ``generation`` changes when a device, an attribute or an entry does.
    """

    generation: int
    entries: tuple[Entry, ...]
    attributes: Mapping[Device, Attributes]

    def of(self, kind: str) -> tuple[Entry, ...]:
        """Entries of one kind in order of first appearance of their source."""
        return tuple(e for e in self.entries if e.frame.kind == kind)

    def facts(self, device: Device) -> Attributes:
        """All attributes any source knows of a device."""
        return self.attributes.get(device, device.attributes)


class Latest:
    """Keeps what a scrape shows. Any thread may write or look."""

    def __init__(self, clock: Clock, periods: Mapping[str, float] | None = None) -> None:
        self._clock = clock
        self._periods = dict(periods or {})
        self._lock = Lock()
        self._frames: dict[tuple[str, str], Frame] = {}
        self._paces: dict[tuple[str, str], int] = {}  # ns between the last two frames of a kind
        self._attributes: dict[Device, Attributes] = {}
        self._generation = 0

    def expect(self, periods: Mapping[str, float]) -> None:
        """How often each source is read from now on, seconds."""
        self._periods = dict(periods)

    def forget(self, sources: Collection[str]) -> None:
        """Drop the frames of sources that are no longer read."""
        with self._lock:
            gone = [key for key in self._frames if key[1] in sources]
            for key in gone:
                del self._frames[key], self._paces[key]
            if gone:
                self._generation += 1
                self._attributes = _merge(self._frames.values())

    def write(self, observation: Observation) -> None:
        """Take over the frames of one observation."""
        with self._lock:
            for frame in observation.frames:
                key = (frame.kind, observation.source)
                before = self._frames.get(key)
                self._paces[key] = frame.mono_ns - before.mono_ns if before else 0
                self._frames[key] = frame
                if before is None or not _same(before.devices, frame.devices):
                    self._generation += 1
                    self._attributes = _merge(self._frames.values())

    def snapshot(self) -> Snapshot:
        """What is known now, ordered by kind as in the catalogue and by source as they came."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            frames = sorted(self._frames.items(), key=lambda item: _ORDER[item[0][0]])
            attributes, generation = self._attributes, self._generation
        entries = tuple(
            Entry(source, frame, self._fresh(source, frame, now_ns))
            for (_, source), frame in frames
        )
        return Snapshot(generation, entries, attributes)

    def _fresh(self, source: str, frame: Frame, now_ns: int) -> bool:
        period = self._periods.get(source, UNKNOWN_PERIOD_S)
        pace = self._paces.get((frame.kind, source), 0) / 1e9
        if (
            period < pace <= SLOWEST_PACE_PERIODS * period
        ):  # a kind that comes with every fifth reading is stale by its own pace
            period = pace
        allowed = max(STALE_PERIODS * period, MIN_STALE_S)
        return now_ns - frame.mono_ns <= allowed * SECOND_NS


_ORDER = {kind: i for i, kind in enumerate(KINDS)}


def _same(a: Sequence[Device], b: Sequence[Device]) -> bool:
    """Whether two rows of devices are the same down to their attributes; cheap where
    they are the same tuple.
    """
    if a is b:
        return True
    return len(a) == len(b) and all(
        x is y or (x == y and x.attributes == y.attributes) for x, y in zip(a, b, strict=True)
    )


def _merge(frames: Iterable[Frame]) -> dict[Device, Attributes]:
    """Attributes of each device from all sources; where two disagree the first one stands."""
    merged: dict[Device, dict[str, str]] = {}
    for frame in frames:
        for device in frame.devices:
            known = merged.setdefault(device, {})
            for key, value in device.attributes.items():
                known[key] = known.get(key) or value
    return dict(merged)

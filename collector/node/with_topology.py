"""WithTopology: any source, with rack, leaf and rail of the topology put on its devices."""

from __future__ import annotations

from dataclasses import replace

from collector.node.topology import Entry, Topology
from pipeline.frame import Device, Frame
from pipeline.interfaces import Closable, Source
from pipeline.observation import Reading


class WithTopology:
    """Reads as the source does.

    Devices are made again only when the source's or the topology's own changed.
    """

    def __init__(self, source: Source, topology: Topology) -> None:
        self._source, self._topology = source, topology
        self._made: dict[str, tuple[tuple[Device, ...], Entry, tuple[Device, ...]]] = {}

    @property
    def name(self) -> str:
        """The source's own name."""
        return self._source.name

    def read(self) -> Reading:
        """The source's reading; its devices carry where they stand."""
        reading = self._source.read()
        return replace(
            reading,
            frames=tuple(replace(frame, devices=self._devices(frame)) for frame in reading.frames),
        )

    def close(self) -> None:
        """Let go of what the source holds open."""
        if isinstance(self._source, Closable):
            self._source.close()

    def _devices(self, frame: Frame) -> tuple[Device, ...]:
        entry = self._topology.entry
        was, known, placed = self._made.get(frame.kind, ((), entry, ()))
        if was is not frame.devices or known is not entry:
            placed = tuple(self._topology.with_topology(device) for device in frame.devices)
            self._made[frame.kind] = (frame.devices, entry, placed)
        return placed

"""NVML's event queue, read from the ring in the table of nvml_state.py."""

# ruff: noqa: N815 - members bear the names of nvml.h

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from simulator.nvml_state import EVENTS, NvmlState


class EventData(NamedTuple):
    """nvmlEventData_t: ``eventData`` of an XID event is the XID."""

    device: Any
    eventType: int
    eventData: int
    gpuInstanceId: int
    computeInstanceId: int


class EventSet:
    """What happens to registered GPUs after the set was made."""

    def __init__(self, state: NvmlState) -> None:
        self._state = state
        self._types: dict[str, int] = {}
        self._seen = self._posted()

    def register(self, gpu: str, types: int) -> None:
        """Also see events of these types (bits of nvmlEventType) of a GPU."""
        self._types[gpu] = self._types.get(gpu, 0) | types

    def next(self, handle: Callable[[str], Any]) -> EventData | None:
        """The oldest event not yet given, None where there is none.

        One that is torn or foreign is passed over.
        """
        posted = self._posted()
        self._seen = max(self._seen, posted - EVENTS)
        while self._seen < posted:
            number, self._seen = self._seen, self._seen + 1
            words = str(self._state.get(f"-/event {number % EVENTS}").value).split()
            if len(words) != 5 or not all(map(str.isdecimal, words)):
                continue
            kind, data, instance, compute = map(int, words[1:])
            if self._types.get(words[0], 0) & kind:
                return EventData(handle(words[0]), kind, data, instance, compute)
        return None

    def _posted(self) -> int:
        return int(self._state.get("-/events").value)

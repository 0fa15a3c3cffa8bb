"""The state of a GPU, as stored in the field ``state``."""

from __future__ import annotations

from enum import IntEnum


class GpuState(IntEnum):
    """Codes are stored and must not change.

    >>> GpuState(2), GpuState.HUNG.label
    (<GpuState.HUNG: 2>, 'hung')
    """

    OK = 0
    LOST = 1
    HUNG = 2
    ABSENT = 3
    UNREADABLE = 4
    PASSTHROUGH = 5  # a virtual machine has it

    @property
    def label(self) -> str:
        """The value of the label ``state``."""
        return self.name.lower()


GPU_STATES = tuple((state.value, state.label) for state in GpuState)
# Healthy, or not this node's to judge.
NO_FAULT = frozenset({GpuState.OK, GpuState.PASSTHROUGH})

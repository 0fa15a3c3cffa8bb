"""The state of every GPU, as codes of the field ``state``, and what to say when one changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.frame import Device
from pipeline.gpu_state import GPU_STATES, GpuState

log = logging.getLogger("tocsin.nvml")

OK, LOST, HUNG, ABSENT, UNREADABLE, PASSTHROUGH = GpuState
NAMES = dict(GPU_STATES)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one sweep says of the GPUs, by UUID."""

    read: frozenset[str]
    codes: Mapping[str, int]  # NVML's, of those that could not be read
    left_out: Mapping[str, str]  # and why
    listed: frozenset[str]  # by the driver
    whole: bool  # only then does not being listed mean anything
    given_away: frozenset[str] = frozenset()  # to virtual machines
    driver_hung: bool = False  # no call returns, about whatever GPU


@dataclass(frozen=True, slots=True)
class Change:
    """A GPU went from one state to another; ``before`` is None for one that was never judged."""

    device: Device
    before: int | None
    now: int


GPU_IS_LOST = 15  # nvml.h


class States:
    """Remembers each GPU's state."""

    def __init__(self) -> None:
        self._state: dict[str, int] = {}

    def judge(
        self, devices: Sequence[Device], evidence: Evidence
    ) -> tuple[list[int], list[Change]]:
        """State of each device, and what changed."""
        states: list[int] = []
        changes: list[Change] = []
        for device in devices:
            before = self._state.get(device.id)
            now = self._state[device.id] = self._one(device.id, evidence)
            states.append(now)
            if now != before:
                changes.append(Change(device, before, now))
        _say(changes)
        return states, changes

    def _one(self, uuid: str, evidence: Evidence) -> int:
        if uuid in evidence.read:
            return OK
        if uuid in evidence.given_away:
            return PASSTHROUGH
        if evidence.driver_hung:
            return HUNG
        if uuid in evidence.left_out:
            return HUNG if evidence.left_out[uuid] == "hung" else UNREADABLE
        if uuid in evidence.codes:
            return LOST if evidence.codes[uuid] == GPU_IS_LOST else UNREADABLE
        before = self._state.get(uuid)
        if not evidence.whole:
            return before if before in {LOST, ABSENT} and before is not None else UNREADABLE
        if uuid in evidence.listed:
            return UNREADABLE
        return (
            LOST if before == LOST else ABSENT
        )  # lost, then no longer listed: still the same fault


def _say(changes: Sequence[Change]) -> None:
    """One line per state that GPUs went into: a driver that goes takes all of them with it."""
    for state in sorted({change.now for change in changes}):
        gpus = [
            c.device for c in changes if c.now == state and (c.before is not None or state != OK)
        ]
        if not gpus:
            continue
        indices = ", ".join(gpu.attributes.get("index", "?") for gpu in gpus)
        who = f"GPU {indices} ({gpus[0].id}) is" if len(gpus) == 1 else f"GPUs {indices} are"
        log.log(
            logging.INFO if state in (OK, PASSTHROUGH) else logging.WARNING,
            "%s %s",
            who,
            NAMES[state],
        )

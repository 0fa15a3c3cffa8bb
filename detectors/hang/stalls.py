"""Which findings belong to which job: they end with it, whatever its GPUs do by then."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.hang.members import JobKey
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.documents import exact
from pipeline.frame import Device


class StallsByJob:
    """Devices and faults by job.

    >>> reported, gpu = StallsByJob(), Device("n1", "gpu", "G")
    >>> reported.add(JobKey("", "7"), [gpu], "hang/rank_stuck")
    >>> (
    ...     [(device.id, fault) for device, fault in reported.pop(JobKey("", "7"))],
    ...     reported.pop(JobKey("", "7")),
    ... )
    ([('G', 'hang/rank_stuck')], ())
    """

    def __init__(self) -> None:
        self._of: dict[JobKey, tuple[tuple[Device, str], ...]] = {}

    def add(self, job: JobKey, devices: Iterable[Device], fault: str) -> None:
        """A job's stall was reported of these."""
        said = ((device, fault) for device in devices)
        self._of[job] = tuple(dict.fromkeys((*self._of.get(job, ()), *said)))

    def of(self, job: JobKey) -> tuple[tuple[Device, str], ...]:
        """What was reported of a job."""
        return self._of.get(job, ())

    def pop(self, job: JobKey) -> tuple[tuple[Device, str], ...]:
        """What was reported of a job, which is over now."""
        return self._of.pop(job, ())

    def state(self) -> State:
        """All of it."""
        rows = [
            [*job, [[exact(device), fault] for device, fault in reported]]
            for job, reported in self._of.items()
        ]
        return {"told": text_array(rows)}

    def prepare(self, state: State) -> Commit:
        """KeyError, ValueError or TypeError where it does not fit."""
        of = {
            JobKey(str(realm), str(job)): tuple(
                (Device(**device), str(fault)) for device, fault in reported
            )
            for realm, job, reported in from_text_array(state["told"])
        }

        def commit() -> None:
            self._of = of

        return commit

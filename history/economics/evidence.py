"""What is known of a node over a time: how busy its GPUs were, whose they were, what was wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# In the order of precedence: the first that holds is the cause of a GPU-second.
CAUSES = (
    "down",
    "repair",
    "lost",
    "stalled",
    "checkpoint",
    "start_up",
    "idle",
    "used",
    "unknown",
)
MEANING = {
    "down": "the node or the GPU was off, rebooting or did not answer",
    "repair": "in maintenance or under repair, or drained without work",
    "lost": "a fault was open and the GPU did no work",
    "stalled": "its job hung or waited for a member that did",
    "checkpoint": "all GPUs of the job paused together and went on",
    "start_up": "from the start of a job to its first work",
    "idle": "no job, or a job that left it unused",
    "used": "it worked",
    "unknown": "no agent read it, or no utilisation (MIG), and nothing says why",
}
CODE = {cause: number for number, cause in enumerate(CAUSES)}


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted, in unix milliseconds; ``gpu`` is a column, -1 all of the node.

    ``cause`` is down, repair, lost or stalled; ``fault`` the class of the fault; ``part`` the kind
    of device that was out of service for repair, empty where nobody repaired (a reboot). A GPU that
    works on in a drained or cordoned node is used: ``waits`` for its jobs.
    """

    cause: str
    begin_ms: int
    end_ms: int
    gpu: int = -1
    fault: str = ""
    part: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class JobSpan:
    """A job that had some GPUs (columns) of the node."""

    job: str
    begin_ms: int
    end_ms: int
    gpus: tuple[int, ...]
    team: str = ""


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """One node. ``busy`` has a row per bucket of ``bucket_ms`` from ``begin_ms`` on and a column
    per GPU: utilisation in percent, NaN where the GPU was not read, negative where it did not
    answer.
    """

    host: str
    gpus: tuple[str, ...]
    begin_ms: int
    bucket_ms: int
    busy: NDArray[np.float32]
    spans: tuple[Span, ...] = ()
    jobs: tuple[JobSpan, ...] = ()
    models: tuple[str, ...] = ()
    rack: str = ""

    @property
    def end_ms(self) -> int:
        """The end of the last bucket."""
        return self.begin_ms + self.bucket_ms * len(self.busy)

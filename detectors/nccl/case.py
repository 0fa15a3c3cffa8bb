"""Case: all that is known about one job when it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.nccl.hit import Hit
from pipeline.nccl.report import Report


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A serious error that the driver reported of a GPU while the job was stalled
    still, or shortly before.
    """

    uuid: str
    text: str


@dataclass(frozen=True, slots=True)
class PortFault:
    """A network port that went down, or whose error counters moved, in that time."""

    host: str
    port: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A process of the job that ended, as the node itself saw it, while others of the job ran.

    ``rank`` is -1 where its launcher did not set it. ``seen_ns`` is the unix time of the look at
    the node that no longer found it; ``last``: nor any other process of the job on that node.
    """

    host: str
    pid: int
    rank: int = -1
    uuid: str = ""
    seen_ns: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """What is known about one job: reports in any order, lines in the order of their logs, and
    hardware that failed meanwhile.

    ``live``: the job runs, and may not be stalled; of saved files that is assumed.
    """

    reports: Sequence[Report] = ()
    hits: Sequence[Hit] = ()
    gpus: Sequence[GpuFault] = ()
    ports: Sequence[PortFault] = ()
    ended: Sequence[Ended] = ()
    job: str = ""
    live: bool = False

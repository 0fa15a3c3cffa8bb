"""Report: what one source reported at one time about the communicators of one job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.nccl.member import Member, State

Teller = Literal["ras", "flight_recorder", "inspector", "log"]


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Ranks that a text report counts but does not name: so many are in ``state``, or have launched
    ``launched`` of ``operation``.
    """

    ranks: int
    operation: str = ""
    launched: int = -1
    state: State = "unknown"
    error: int = 0


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator.

    ``id``: of RAS and Inspector the hash as 16 hexadecimal digits, of the Flight Recorder the name
    of the group (``process_group[0]``). ``second``: RAS's secondary hash (host and process of rank
    0): the same hash in a restarted job has another one. ``ranks`` are the world ranks that belong
    to it, in the order of their rank in it, where the source says so.
    """

    id: str
    size: int
    members: tuple[Member, ...] = ()
    second: str = ""
    name: str = ""
    ranks: tuple[int, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What distinguishes it from all others."""
        return self.id, self.second


@dataclass(frozen=True, slots=True)
class Group:
    """One row of RAS's text table: communicators of one shape.

    ``ranks_in_group`` answered; ``nodes`` and ``size`` are per communicator.
    """

    communicators: int
    nodes: int
    size: int
    ranks_in_group: int
    state: State
    errors: tuple[str, ...] = ()  # INCOMPLETE, ERROR, MISMATCH


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the job. ``address`` where RAS knows no more than the socket."""

    host: str = ""
    pid: int = -1
    gpus: tuple[int, ...] = ()
    address: str = ""


@dataclass(frozen=True, slots=True)
class PeerEvent:
    """One line of RAS's MONITOR stream.

    Those of group ``lifecycle`` are facts; ``trace`` also names healthy peers: a hint.
    """

    time_ns: int
    group: str
    event: str
    peer: Process = Process()
    details: str = ""


@dataclass(frozen=True, slots=True)
class Discard:
    """Something that was not taken: ``what`` (a line, an entry, the whole
    file), ``why``, and how often.
    """

    what: str
    why: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Report:
    """What one source reported at one time about one job.

    ``origin`` is the file or address it came from; ``host``, ``pid`` and ``world_rank`` those of
    the process that wrote it, where known. ``time_ns`` is the unix time of the look, 0 where the
    source does not tell. ``distrust`` says why nothing may be concluded from it; empty: trusted.
    """

    teller: Teller
    origin: str = ""
    time_ns: int = 0
    job: str = ""
    host: str = ""
    pid: int = -1
    world_rank: int = -1
    nccl: str = ""  # its version
    distrust: str = ""
    communicators: tuple[Communicator, ...] = ()
    groups: tuple[Group, ...] = ()  # RAS text only
    missing: tuple[Process, ...] = ()  # processes without data, not yet called dead
    dead: tuple[Process, ...] = ()
    peers: tuple[PeerEvent, ...] = ()
    processes: int = -1  # of the whole job, dead ones included
    nodes: int = -1
    timeouts: int = 0
    collection_seconds: float | None = None
    parsed: tuple[
        tuple[str, int], ...
    ] = ()  # what was understood, and how much: ("entry", 2000), ("line", 31)
    discarded: tuple[Discard, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether anything may be concluded from it."""
        return not self.distrust

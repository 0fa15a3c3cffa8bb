"""Member: one rank of a communicator, as one source saw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

State = Literal["unknown", "ok", "init", "finalize", "abort", "left", "unresponsive", "dead"]
"""RAS: RUNNING is ``ok``, NOCOMM (the process answers but has given up the
communicator) is ``left``.
"""

Counts = tuple[tuple[str, int], ...]
"""How many collectives, by operation.

RAS and Inspector count each operation by itself (``AllReduce``, ...); the Flight Recorder and job
logs know one sequence per group, which stands under ``WHOLE``. An operation that is not named was
not told.
"""

WHOLE = "*"

# Result codes of nccl.h (ncclResult_t) that are not errors: success, and in progress.
NO_ERROR = (0, 7)


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective that a rank called, as its Flight Recorder kept it.

    ``seq`` counts from 1 in its group. ``name`` is without the library (``all_reduce``). ``sizes``
    and ``dtypes`` are those of the inputs. ``created_ns`` is the caller's unix time, 0 where not
    told.
    """

    seq: int
    name: str
    dtypes: tuple[str, ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ()
    started: bool = False
    completed: bool = False
    created_ns: int = 0
    frame: str = ""  # the innermost line of the user's code, ``file:line function``


@dataclass(frozen=True, slots=True)
class Transfer:
    """A send or receive that has not ended. ``peer`` is the other rank, as counted in the group."""

    kind: str  # send or recv
    peer: int
    created_ns: int = 0  # the caller's unix time, 0 where it is not known


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one completed collective took on one rank, from the Inspector.

    ``seq`` counts from 0, per operation.
    """

    operation: str
    seq: int
    bytes: int
    microseconds: float
    busbw_gbs: float | None = None  # bus bandwidth, 10^9 bytes/s


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of one communicator. Whatever a source did not tell is -1, empty or ``unknown``.

    ``rank`` counts in the communicator, ``world_rank`` in the job. ``host`` is what the source
    calls the node: RAS gives an address, others a name. ``gpu`` is the CUDA device in the process,
    ``nvml`` its NVML index. ``error`` is the rank's own result code (ncclResult_t of nccl.h).
    """

    rank: int
    world_rank: int = -1
    host: str = ""
    pid: int = -1
    gpu: int = -1
    nvml: int = -1
    uuid: str = ""
    state: State = "unknown"
    error: int = 0
    launched: Counts = ()
    started: Counts = ()
    completed: Counts = ()
    operations: tuple[
        Operation, ...
    ] = ()  # the latest, oldest first: at most KEPT_OPERATIONS of a parser
    transfers: tuple[Transfer, ...] = ()  # unfinished, oldest first: at most KEPT_TRANSFERS
    timings: tuple[Timing, ...] = ()  # the latest, oldest first: at most KEPT_TIMINGS of a parser

    @property
    def gone(self) -> bool:
        """Whether its process does not answer any more."""
        return self.state in ("unresponsive", "dead")

    @property
    def failed(self) -> bool:
        """Whether the rank reports an error of its own."""
        return self.error not in NO_ERROR


class Sharing:
    """Lets members have texts and counts in common, where they are equal: ranks are many, and hosts
    and counts of a communicator's ranks mostly the same.
    """

    def __init__(self) -> None:
        self._known: dict[str | Counts, Any] = {}

    def member(self, member: Member) -> Member:
        """An equal member, with what earlier ones have."""
        known = self._known
        return Member(
            member.rank,
            member.world_rank,
            known.setdefault(member.host, member.host),
            member.pid,
            member.gpu,
            member.nvml,
            member.uuid,
            known.setdefault(member.state, member.state),
            member.error,
            self._counts(member.launched),
            self._counts(member.started),
            self._counts(member.completed),
            member.operations,
            member.transfers,
            member.timings,
        )

    def _counts(self, counts: Counts) -> Counts:
        found: Counts | None = self._known.get(counts)
        if found is None:
            known = self._known
            found = tuple((known.setdefault(name, name), count) for name, count in counts)
            known[found] = found
        return found


# of one rank in one group: what is unfinished, and enough of the past to compare
# with a rank that is ahead
KEPT_OPERATIONS = 64
KEPT_TRANSFERS = 64  # of one rank in one group
KEPT_TIMINGS = 512  # of one rank in one communicator

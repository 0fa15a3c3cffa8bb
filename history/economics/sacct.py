"""What Slurm's accounting says of jobs and nodes: text of `sacct` and `sacctmgr show event`.

Read so that its traps cost nothing: the last task of an array keeps the array's raw id, parts of a
heterogeneous job are jobs, a requeued run keeps its row (-D), Reason is the last reason for waiting
and no end, and rows arrive piecemeal while slurmdbd catches up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

FIELDS = (
    *("JobIDRaw", "JobID", "DBIndex", "Cluster", "State", "ExitCode"),
    *("DerivedExitCode", "Submit", "Start", "End", "Suspended", "NodeList", "AllocTRES"),
    *("User", "Account", "Partition", "QOS", "FailedNode", "Restarts"),
)
NEEDED = ("JobIDRaw", "State", "Start", "End", "NodeList", "AllocTRES")
UNKNOWN = ("", "Unknown", "None", "N/A")
# Base states of job_state_string (slurm.h), and what may stand in their place (flags).
ENDED = frozenset(
    (
        *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"),
        *("PREEMPTED", "BOOT_FAIL", "DEADLINE"),
        *("REQUEUED", "LAUNCH_FAILED", "SPECIAL_EXIT", "REQUEUE_HOLD"),
    )
)
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_RANGE = re.compile(r"([^\[,]+)(?:\[([^\]]+)\])?")


class Run(NamedTuple):
    """One run of a job; a requeued job has several. ``key`` distinguishes them, ``job`` is the id
    that users know (``3_2`` of an array, ``6+1`` of a heterogeneous job).
    """

    key: tuple[str, str, str]
    job: str
    state: str
    begin_s: float | None
    end_s: float | None
    nodes: tuple[str, ...]
    gpus: int
    user: str
    account: str
    exit_code: str
    derived_exit_code: str

    @property
    def has_ended(self) -> bool:
        """Whether its state is an end, and the end is known."""
        return self.state in ENDED and self.end_s is not None


class SacctError(ValueError):
    """The text is none of sacct's."""


def fields_for(helpformat: str) -> tuple[str, ...]:
    """The fields to ask for: an unknown one is a hard error, so what ``sacct --helpformat`` lists.

    SacctError where one that is needed is missing.
    """
    known = set(helpformat.split())
    missing = [name for name in NEEDED if name not in known]
    if missing:
        raise SacctError(f"sacct has no field {', '.join(missing)}")
    return tuple(name for name in FIELDS if name in known)


def runs(text: str) -> list[Run]:
    """Rows of ``sacct -a -D -P --noconvert -o FIELDS`` with its header; steps are left out.
    Times are UTC (``TZ=UTC``, ``SLURM_TIME_FORMAT=standard``). SacctError.
    """
    found = list(_rows(text, NEEDED))
    return [
        Run(
            (row.get("Cluster", ""), row["JobIDRaw"], row.get("DBIndex", "")),
            row.get("JobID") or row["JobIDRaw"],
            row["State"].partition(" ")[0].rstrip("+"),
            _time(row["Start"]),
            _time(row["End"]),
            tuple(hosts(row["NodeList"])),
            int(match[1]) if (match := _GPUS.search(row["AllocTRES"])) else 0,
            row.get("User", ""),
            row.get("Account", ""),
            row.get("ExitCode", ""),
            row.get("DerivedExitCode", ""),
        )
        for row in found
        if "." not in row["JobIDRaw"]
    ]


class NodeEvent(NamedTuple):
    """A node that was drained or down; an open one has no end."""

    node: str
    begin_s: float
    end_s: float | None
    state: str
    reason: str
    user: str

    @property
    def is_down(self) -> bool:
        """Down, rather than drained."""
        return self.state.startswith(("DOWN", "FAIL", "POWER"))


def node_events(text: str) -> list[NodeEvent]:
    """Rows of ``sacctmgr -P show event format=nodename,start,end,state,reason,user``; those of the
    cluster (no node) are left out. SacctError.
    """
    names = ("NodeName", "TimeStart", "TimeEnd", "State")
    return [
        NodeEvent(
            row["NodeName"],
            begin,
            _time(row["TimeEnd"]),
            row["State"],
            row.get("Reason", ""),
            row.get("User", ""),
        )
        for row in _rows(text, names)
        if row["NodeName"] and (begin := _time(row["TimeStart"])) is not None
    ]


def hosts(text: str) -> Iterator[str]:
    """Names of a host list.

    >>> list(hosts("gpu[01-03,07],login1"))
    ['gpu01', 'gpu02', 'gpu03', 'gpu07', 'login1']
    """
    for prefix, ranges in _RANGE.findall("" if text in UNKNOWN or "assigned" in text else text):
        if not ranges:
            yield prefix
        for part in ranges.split(",") if ranges else ():
            low, _, high = part.partition("-")
            for number in range(int(low), int(high or low) + 1):
                yield f"{prefix}{number:0{len(low)}}"


def _rows(text: str, needed: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """A row with another number of cells is left out: a comment may hold the bar."""
    head, *lines = text.splitlines() or [""]
    names = head.split("|")
    missing = [name for name in needed if name not in names]
    if missing:
        raise SacctError(f"no column {', '.join(missing)} in {head[:200]!r}")
    for line in lines:
        cells = line.split("|")
        if len(cells) == len(names):
            yield dict(zip(names, cells, strict=True))


def _time(text: str) -> float | None:
    if text in UNKNOWN:
        return None
    try:
        return datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError as error:
        raise SacctError(f"{text!r} is no time such as 2026-11-24T06:00:00") from error

"""What Slurm's accounting says of jobs and nodes: text of `sacct` and `sacctmgr show event`.

Read so that its traps cost nothing: the last task of an array keeps the array's raw id, parts of a
heterogeneous job are jobs, a requeued run keeps its row (-D), Reason is the last reason for waiting
and no end, and rows arrive piecemeal while slurmdbd catches up.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from history.economics.event_rows import event_rows
from history.economics.host_lists import hosts

log = logging.getLogger("tocsin.report")

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
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d+)")


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
    names, rest = _head(text, NEEDED)
    bar = "|" if text.partition("\n")[0].rstrip("\r").endswith("|") else ""  # sacct -p
    lines = (line.removesuffix("\r").removesuffix(bar) for line in rest.split("\n"))
    found = _whole("sacct", names, (line.split("|") for line in lines if line.strip()))
    return [
        Run(
            (row.get("Cluster", ""), row["JobIDRaw"], row.get("DBIndex", "")),
            row.get("JobID") or row["JobIDRaw"],
            row["State"].partition(" ")[0].rstrip("+"),
            _time(row["Start"]),
            _time(row["End"]),
            tuple(_hosts(row["NodeList"])),
            _gpus(row["AllocTRES"]),
            row.get("User", ""),
            row.get("Account", ""),
            row.get("ExitCode", ""),
            row.get("DerivedExitCode", ""),
        )
        for row in found
        if "." not in row["JobIDRaw"]
    ]


def _gpus(allocated: str) -> int:
    """Those of all types, which a cluster may track beside their types, or not at all
    (AccountingStorageTRES).

    >>> _gpus("cpu=8,gres/gpu=4,gres/gpu:h100=4"), _gpus("gres/gpu:a100=2,gres/gpu:h100=4")
    (4, 6)
    """
    found = [(kind, int(count)) for kind, count in _GPUS.findall(allocated)]
    in_all = [count for kind, count in found if not kind]
    return sum(in_all or (count for _, count in found))


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

    @property
    def is_drained(self) -> bool:
        """Drained or cordoned, and in no maintenance: its jobs may run on."""
        return not self.is_down and "DRAIN" in self.state and "MAINT" not in self.state


def node_events(text: str) -> list[NodeEvent]:
    """Rows of ``sacctmgr -P show event format=nodename,start,end,state,reason,user``; those of the
    cluster (no node) are left out. SacctError.
    """
    names, rest = _head(text, ("NodeName", "TimeStart", "TimeEnd", "State"))
    rows = _whole("sacctmgr", names, (row.cells for row in event_rows(rest, names)))
    return [
        NodeEvent(
            row["NodeName"],
            begin,
            _time(row["TimeEnd"]),
            row["State"],
            row.get("Reason", ""),
            row.get("User", ""),
        )
        for row in rows
        if row["NodeName"] and (begin := _time(row["TimeStart"])) is not None
    ]


def _hosts(text: str) -> Iterator[str]:
    return hosts("" if text in UNKNOWN or "assigned" in text else text)


def _head(text: str, needed: Sequence[str]) -> tuple[list[str], str]:
    """The names of the columns, and what follows. SacctError."""
    head, _, rest = text.partition("\n")
    names = head.removesuffix("\r").removesuffix("|").split("|")
    missing = [name for name in needed if name not in names]
    if missing:
        raise SacctError(f"no column {', '.join(missing)} in {head[:200]!r}")
    return names, rest


def _whole(
    program: str, names: Sequence[str], rows: Iterable[Sequence[str]]
) -> list[Mapping[str, str]]:
    """Rows by name; those with another number of cells are left out, and counted."""
    every = list(rows)
    found: list[Mapping[str, str]] = [
        dict(zip(names, cells, strict=True)) for cells in every if len(cells) == len(names)
    ]
    if len(found) < len(every):
        log.warning("%d rows of %s have other columns: left out", len(every) - len(found), program)
    return found


def _time(text: str) -> float | None:
    if text in UNKNOWN:
        return None
    try:
        return datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError as error:
        raise SacctError(f"{text!r} is no time such as 2026-11-24T06:00:00") from error

"""The terms of NCCL's RAS reports, and what they are called here.

Source: src/ras/client_support.cc and collectives.cc of NCCL, tags v2.24.3-1 to
v2.30.7-1; ncclResult_t of nccl.h.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from collector.sources.bounds import unix_time
from pipeline.clock import SECOND_NS
from pipeline.nccl.member import State

OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")

STATES: dict[str, State] = {
    "RUNNING": "ok",
    "INIT": "init",
    "FINALIZE": "finalize",
    "ABORT": "abort",
    "NOCOMM": "left",
    "UNKNOWN": "left",  # 2.24 and 2.25
}

# Codes from 7 on are printed as "Unexpected error"; 7 itself is "in progress" and never printed.
RESULTS = {
    "Unhandled CUDA error": 1,
    "System error": 2,
    "Internal error": 3,
    "Invalid argument": 4,
    "Invalid usage": 5,
    "Remote process error": 6,
    "Unexpected error": 8,
}
TIMED_OUT = 8  # ncclTimeout, since 2.30: counted in a headline, without a line of its own

ADDRESS_UNKNOWN = "unknown"


def local_time_ns(text: str, zone: tzinfo | None = None) -> int:
    """Unix time of a ``YYYY-mm-dd HH:MM:SS`` that was local where it was
    written; 0 where it is none, or beyond ``bounds.unix_time``.

    ``zone`` is that place's; None is this machine's.

    >>> from datetime import UTC
    >>> local_time_ns("1970-01-01 00:00:02", UTC)
    2000000000
    """
    try:
        moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=zone)
        return unix_time(int(moment.timestamp()) * SECOND_NS)
    except (ValueError, OverflowError, OSError):
        return 0

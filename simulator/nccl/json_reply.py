"""A job as NCCL's JSON report (2.28.7 and later), byte for byte: src/ras/client_support.cc."""

from __future__ import annotations

import json
from typing import Any

from simulator.nccl.job import OPERATIONS, Comm, Job, Seat

NO_COMMA = ((2, 28, 7), (2, 28, 9))  # the releases, first and last, that leave one comma out


def render_json(job: Job, timestamp: str) -> str:
    """The whole reply; ``timestamp`` is local time, ``YYYY-mm-dd HH:MM:SS``."""
    comms = sorted(job.comms, key=lambda c: c.hash)
    ras = (
        f'  "ras": {{\n    "collection_time_sec": {job.collection_s:.3f},\n    "timeouts_count": '
        f"{job.timeouts}\n  }}\n"
    )
    return (
        (
            f'{{\n  "nccl_version": "{job.nccl}",\n  "cuda_runtime_version": {job.cuda},\n  '
            f'"cuda_driver_version": {job.cuda},\n'
            f'  "timestamp": "{timestamp}",\n  "communicators_count": {len(comms)},\n  '
            '"communicators": [\n'
        )
        + ",\n".join(_comm(comm, job) for comm in comms)
        + f"\n  ],\n{ras}}}\n"
    )


def _comm(comm: Comm, job: Job) -> str:
    ranks = [_rank(rank, seat) for rank, seat in comm.present]
    missing = [_missing(rank, seat) for rank, seat in enumerate(comm.seats) if not seat.present]
    text = json.dumps(
        {
            "hash": f"{comm.hash:#x}",
            "secondary_hash": f"{comm.secondary[0]:#x}:{comm.secondary[1]:#x}",
            "size": len(comm.seats),
            "ranks_count": len(ranks),
            "missing_ranks_count": len(missing),
            "ranks": ranks,
            "missing_ranks": missing,
        },
        indent=2,
    ).replace("[]", "[\n\n  ]")
    if NO_COMMA[0] <= job.version <= NO_COMMA[1]:
        head, key, tail = text.partition('"missing_ranks": ')
        text = head + key + "\n".join(_without_comma(line) for line in tail.split("\n"))
    return "\n".join(f"    {line}" if line else line for line in text.split("\n"))


def _without_comma(line: str) -> str:
    return line.removesuffix(",") if '"nvml_dev"' in line else line


def _place(rank: int, seat: Seat) -> dict[str, Any]:
    peer = seat.peer
    return {
        "rank": rank,
        "host": peer.host,
        "pid": peer.pid,
        "cuda_dev": seat.gpu,
        "nvml_dev": peer.nvml_of(seat.gpu),
    }


def _rank(rank: int, seat: Seat) -> dict[str, Any]:
    status = {
        "init_state": seat.init_state,
        "async_error": seat.async_error,
        "finalize_called": seat.finalize,
        "destroy_flag": seat.destroy,
        "abort_flag": seat.abort,
    }
    counts = dict(zip(OPERATIONS, seat.counts, strict=True))
    return {**_place(rank, seat), "status": status, "collective_counts": counts}


def _missing(rank: int, seat: Seat) -> dict[str, Any]:
    life = seat.peer.life
    return {
        **_place(rank, seat),
        "status": {
            "unresponsive": life in {"unresponsive", "dead"},
            "considered_dead": life == "dead",
        },
    }

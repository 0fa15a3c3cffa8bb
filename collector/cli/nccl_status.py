"""``tocsin nccl status``: which processes of this node use NCCL, what each would report when its
job stalls, and which of their settings do not fit the node.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.agent.environment import host_name
from collector.facts.node import node_facts
from collector.nccl_settings.model import Problem
from collector.nccl_settings.ranks import ranks_by_job
from collector.nccl_settings.table import problems
from collector.nccl_settings.words import document, lines
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.library import Versions, version_of
from collector.sources.nccl.discovery.scan import Scan, Scanner
from collector.sources.nccl.discovery.sockets import Listener, port_holders, ras_clients
from collector.sources.nccl.ras.policy import FIRST_SAFE
from collector.sources.nccl.reader import NcclReader

# Settings of a job that let more be known, and what each gives; docs/nccl.md says what they cost.
SETTINGS = {
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "dumps on demand",
    "TORCH_WORKER_SERVER_SOCKET": "dumps over HTTP",
    "NCCL_INSPECTOR_DUMP_DIR": "timings",
    "NCCL_DEBUG_FILE": "log",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One process. ``ras`` says whether the agent may ask its job, and if not why."""

    found: Found
    version: str
    listening: str
    ras: str
    settings: tuple[str, ...]


def rows(proc: Path, scan: Scan) -> Iterator[Row]:
    """What is known of each process, without touching it.

    A library that cannot be read has no version.
    """
    speaking = list(versioned(proc, scan.processes))
    listeners = ras_clients(
        proc, ((f.pid, f.network, f.environment.get("NCCL_RAS_ADDR", "")) for f, _ in speaking)
    )
    others = (
        (f.pid, f.network, f.environment.get("NCCL_RAS_ADDR", ""), f.user)
        for f, _ in speaking
        if f.pid not in listeners
    )
    holders = port_holders(proc, others)
    for found, version in speaking:
        sockets = listeners.get(found.pid, ())
        listening = ", ".join(
            f"[{s.host}]:{s.port}" if ":" in s.host else f"{s.host}:{s.port}" for s in sockets
        )
        settings = tuple(words for name, words in SETTINGS.items() if name in found.environment)
        ras = _ras(found, version, holders.get(found.pid), listening=bool(sockets))
        yield Row(found, version, listening, ras, settings)


def versioned(proc: Path, processes: Iterable[Found]) -> Iterator[tuple[Found, str]]:
    """Those that use NCCL, with its version; "" for a library that cannot be read."""
    versions = Versions(NcclReader(proc).version)
    for found in processes:
        if found.library is not None:
            tenant = found.owner.tenant
            known = versions.known(found.library, tenant)
            yield found, known or versions.look(found.library, tenant, found.pid)


def _ras(found: Found, version: str, holder: Listener | None, *, listening: bool) -> str:
    if found.environment.get("NCCL_RAS_ENABLE") == "0":
        return "switched off in the job"
    if not version:
        return "not asked: version unknown"
    if version_of(version) < FIRST_SAFE:
        return f"not asked: may crash the job before {'.'.join(map(str, FIRST_SAFE))}"
    if holder is not None:
        return f"no socket: port {holder.port} is held by uid {holder.user} (NCCL_RAS_ADDR per job)"
    return "asked on suspicion" if listening else "no socket"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What is wrong with the settings of a job: ``job`` its name, ``ranks`` those on this node."""

    job: str
    ranks: int
    problems: Sequence[Problem]


def run(form: str, proc: Path, sysfs: Path) -> int:
    """Print; 1 where /proc cannot be read."""
    try:
        scan = Scanner(proc).scan(0.0)
    except OSError as error:
        print(f"tocsin: {proc}: {error.strerror}", file=sys.stderr)
        return 1
    found = list(rows(proc, scan))
    node = node_facts(host_name(os.environ), proc, sysfs)
    jobs = ranks_by_job(proc, node, ((row.found, row.version) for row in found))
    settings = [JobSettings(job, len(ranks), problems(ranks)) for job, ranks in jobs.items()]
    write: dict[str, Callable[[Sequence[Row], Sequence[JobSettings], Scan], Iterator[str]]] = {
        "text": _text,
        "json": _json,
    }
    sys.stdout.writelines(write[form](found, settings, scan))
    return 0


def _text(found: Sequence[Row], settings: Sequence[JobSettings], scan: Scan) -> Iterator[str]:
    for row in sorted(found, key=lambda r: (r.found.job, r.found.rank, r.found.pid)):
        who = row.found
        rank = f" rank {who.rank}" if who.rank >= 0 else ""
        yield (
            f"{who.job or 'a job without a name'}{rank}: process {who.pid} ({who.comm}), NCCL "
            f"{row.version or 'of unknown version'}\n"
        )
        yield f"  GPUs: {', '.join(who.uuids) or 'unknown'}\n"
        yield f"  RAS: {row.ras}{f' ({row.listening})' if row.listening else ''}\n"
        yield (
            "  also gives: "
            f"{', '.join(row.settings) or 'nothing more; docs/nccl.md says what a job may set'}\n"
        )
    for one in settings:
        if one.problems:
            yield f"Settings of {one.job}:\n"
            yield from (f"  {line}\n" for line in lines(one.problems, one.ranks))
    silent = len(scan.processes) - len(found)
    yield (
        f"{len(found)} process(es) use NCCL, {silent} hold GPUs without it, {scan.hidden} "
        "could not be inspected.\n"
    )


def _json(found: Sequence[Row], settings: Sequence[JobSettings], scan: Scan) -> Iterator[str]:
    whole = {
        "processes": [_document(row) for row in found],
        "settings": [
            {"job": one.job, "ranks": one.ranks, "problems": [*map(document, one.problems)]}
            for one in settings
        ],
        "hold_gpus": len(scan.processes),
        "hidden": scan.hidden,
    }
    yield json.dumps(whole, indent=2) + "\n"


def _document(row: Row) -> dict[str, Any]:
    who = row.found
    return {
        "pid": who.pid,
        "name": who.comm,
        "job": who.job,
        "rank": who.rank if who.rank >= 0 else None,
        "gpu_uuids": list(who.uuids),
        "nccl": row.version,
        "ras": row.ras,
        "listening": row.listening,
        "also": list(row.settings),
    }

"""Settings of all jobs of this node that do not fit it, looked at in a child: what tenants wrote is
read on the way. ``main(proc, sysfs, host)`` prints ``{job: {"ranks": n, "problems": [...]}}``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.facts.node import node_facts
from collector.nccl_settings.ranks import ranks_by_job
from collector.nccl_settings.table import problems
from collector.nccl_settings.words import document
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.library import Versions, search
from collector.sources.nccl.discovery.scan import Scanner
from collector.sources.nccl.settings_watch import MAX_DOCUMENT, fitting
from collector.sources.tenants.limits import ONE_THREAD, SETTINGS_BYTES, confine
from pipeline import child

TIMEOUT_S = 20.0
MAX_JOBS = 64
MAX_BYTES = 2 * MAX_JOBS * MAX_DOCUMENT  # of an answer: none of its jobs takes another's room
Triage = Callable[[], Mapping[str, Any]]


def main(argv: Sequence[str]) -> None:
    """Exit code 1 where /proc cannot be listed."""
    confine(SETTINGS_BYTES)
    proc, sysfs, host = Path(argv[0]), Path(argv[1]), argv[2]
    try:
        found = Scanner(proc).scan(0.0).processes
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    jobs = ranks_by_job(proc, node_facts(host, proc, sysfs), versioned(proc, found))
    listed = list(jobs.items())[:MAX_JOBS]
    whole = {
        job: {"ranks": len(ranks), "problems": fitting([*map(document, problems(ranks))])}
        for job, ranks in listed
    }
    sys.stdout.write(json.dumps(whole))


def versioned(proc: Path, processes: Iterable[Found]) -> Iterator[tuple[Found, str]]:
    """Those that speak NCCL, with its version; "" for a library that cannot be read."""
    versions = Versions(proc, _version_inside)
    for found in processes:
        if found.library is not None:
            known = versions.known(found.library)
            yield found, known or versions.look(found.library, found.pid)


def triage(proc: Path, sysfs: Path, host: str) -> Triage:
    """How an agent looks: in a child, with a deadline. OSError, ValueError or TypeError where that
    gave nothing.
    """

    def look() -> Mapping[str, Any]:
        argv = child.python("collector.nccl_settings.look", str(proc), str(sysfs), host)
        done = child.run(
            argv, timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES, env=os.environ | ONE_THREAD
        )
        if done.returncode != 0:
            raise OSError(done.stderr.decode(errors="replace")[:200] or "no answer in time")
        found = json.loads(done.stdout)
        if not isinstance(found, dict) or not all(map(_is_of_job, found.values())):
            raise TypeError("no mapping of jobs")
        return found

    return look


def _is_of_job(about: Any) -> bool:
    """What tenants wrote may have made the child say anything."""
    return (
        isinstance(about, dict)
        and isinstance(about.get("ranks"), int)
        and isinstance(about.get("problems"), list)
    )


def _version_inside(root: Path, path: str) -> str:
    try:
        return search(path, root)
    except OSError:
        return ""

"""The ranks of jobs that run on this node, with what each set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from collector.facts.model import NodeFacts
from collector.facts.processes import process_facts
from collector.foreign_text import printable
from collector.nccl_settings.model import Rank
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.library import version_of
from collector.sources.nccl.discovery.mounts import is_local
from collector.sources.nccl.discovery.setting_names import KEPT
from collector.sources.nccl.jobs import Jobs, hosts_of
from collector.sources.untrusted import read_regular
from pipeline.clock import Instant

FILE = "/etc/nccl.conf"  # for all processes; what the environment has goes first (env.rst)
MAX_BYTES, MAX_VALUE = 1 << 16, 512
# Blanks, but no ends of lines: an empty value is not the next line, and a file of blank lines
# takes no longer than any other.
_LINE = re.compile(r"^[ \t]*(\w{1,64})[ \t]*=(.*)$", re.MULTILINE)


def ranks_by_job(
    proc: Path, node: NodeFacts, processes: Iterable[tuple[Found, str]]
) -> dict[str, list[Rank]]:
    """Of processes with their NCCL version ("" is unknown), by the name of their job. Who claims
    the job of others is a job apart, as everywhere.
    """
    members = list(processes)
    jobs, versions = Jobs(node.host), {found.pid: version for found, version in members}
    jobs.update((found for found, _ in members), 0.0, Instant(0, 0))
    return {
        name: ranks_of(proc, node, [(found, versions[found.pid]) for found in job.present])
        for name, job in sorted(jobs.now.items())
    }


def ranks_of(proc: Path, node: NodeFacts, members: Sequence[tuple[Found, str]]) -> list[Rank]:
    """The ranks of one job: its processes with their NCCL version."""
    here = _namespace(proc / "1") or _namespace(proc / "self")
    hosts = hosts_of([found for found, _ in members]).get("hosts", 0)
    return [
        Rank(
            found.pid,
            found.rank,
            node.host,
            settings_of(found.environment, proc / str(found.pid)),
            version_of(version),
            found.uuids,
            process_facts(
                proc / str(found.pid), foreign=bool(here and found.network not in (0, here))
            ),
            node,
            hosts=hosts,
        )
        for found, version in sorted(members, key=lambda one: (one[0].rank, one[0].pid))
    ]


def settings_of(environment: Mapping[str, str], process: Path) -> dict[str, str]:
    """What a process set: its environment, and the file that the image or the node has for all."""
    return file_settings(process) | {k: v for k, v in environment.items() if k in KEPT}


def file_settings(process: Path) -> dict[str, str]:
    """Settings in /etc/nccl.conf as the process sees it; none where it may not be read."""
    if not is_local(process, FILE):
        return {}
    try:
        data = read_regular(FILE, root=process / "root", max_bytes=MAX_BYTES)
    except OSError:
        return {}
    pairs = _LINE.findall(data.decode(errors="replace"))
    return {name: printable(value.strip(), MAX_VALUE) for name, value in pairs if name in KEPT}


def _namespace(process: Path) -> int:
    try:
        return (process / "ns/net").stat().st_ino
    except OSError:
        return 0

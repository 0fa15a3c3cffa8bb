"""Which reports and lines belong to one job, where it is not stated: RAS reports by their
processes, dumps by their file names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePath

from detectors.nccl.case import Case
from pipeline.nccl.hit import Hit
from pipeline.nccl.report import Report

_RANK = re.compile(r"\d{1,7}(?=(?:\.[A-Za-z]{1,12})*$)")


def cases(reports: Iterable[Report], hits: Sequence[Hit] = ()) -> list[Case]:
    """One case per job.

    What cannot be separated is one job: one file too many is better than a missing rank.
    """
    named: dict[str, list[Report]] = {}
    for report in reports:
        named.setdefault(report.job, []).append(report)
    found = [
        Case(group, job=job)
        for job, its_reports in named.items()
        for group in ([its_reports] if job else _grouped(its_reports))
    ]
    if len(found) < 2:
        return [Case(found[0].reports if found else (), hits, job=found[0].job if found else "")]
    lines: dict[int, list[Hit]] = {}
    processes = [_pids(case.reports) for case in found]
    for hit in hits:
        owner = next((i for i, pids in enumerate(processes) if hit.pid in pids), -1)
        lines.setdefault(owner, []).append(hit)
    out = [Case(case.reports, lines.get(i, ()), job=case.job) for i, case in enumerate(found)]
    return [*out, *([Case((), lines[-1])] if -1 in lines else [])]


def _grouped(reports: Sequence[Report]) -> list[list[Report]]:
    network = [r for r in reports if r.teller in ("ras", "inspector")]
    dumps = [r for r in reports if r.teller not in ("ras", "inspector")]
    parts = [*_connected(network), *_sets(dumps)]
    return (
        [[r for part in parts for r in part]]
        if len(_connected(network)) <= 1 and len(_sets(dumps)) <= 1 and parts
        else parts
    )


def _connected(reports: Sequence[Report]) -> list[list[Report]]:
    """RAS reports that share a process or a communicator; one that names none (a healthy text
    report) goes with the first.
    """
    groups: list[tuple[set[Hashable], list[Report]]] = []
    silent: list[Report] = []
    for report in reports:
        signs = _signs(report)
        if not signs:
            silent.append(report)
            continue
        mine = [group for group in groups if group[0] & signs]
        joined = (
            signs.union(*(s for s, _ in mine)),
            [*(r for _, others in mine for r in others), report],
        )
        groups = [*(group for group in groups if group not in mine), joined]
    if silent and not groups:
        return [silent]
    return [[*of, *(silent if i == 0 else ())] for i, (_, of) in enumerate(groups)]


def _signs(report: Report) -> set[Hashable]:
    members = ((m.host, m.pid) for c in report.communicators for m in c.members if m.pid >= 0)
    others = (
        (p.host, p.pid)
        for p in (*report.missing, *report.dead, *(e.peer for e in report.peers))
        if p.pid >= 0
    )
    return {*members, *others, *(c.id for c in report.communicators)}


def _sets(dumps: Sequence[Report]) -> list[list[Report]]:
    """Dumps of one job have each rank once, or again under the same file name; a rank that comes
    under two names is of two jobs.
    """
    names = {(r.world_rank, _stem(r.origin)) for r in dumps if r.teller == "flight_recorder"}
    twice = any(n > 1 for rank, n in Counter(rank for rank, _ in names).items() if rank >= 0)
    if not dumps:
        return []
    if not twice:
        return [list(dumps)]
    sets: dict[str, list[Report]] = {}
    for dump in dumps:
        sets.setdefault(_stem(dump.origin), []).append(dump)
    return list(sets.values())


def _stem(origin: str) -> str:
    """The name of a dump without its rank and its extension.

    >>> (
    ...     _stem("/tmp/a/fr_rank12.json") == _stem("/tmp/a/fr_rank3.pickle"),
    ...     _stem("/tmp/b/fr_rank3") == _stem("/tmp/a/fr_rank3"),
    ... )
    (True, False)
    """
    path = PurePath(origin)
    bare = path.name
    while re.search(r"\.[A-Za-z]{1,12}$", bare):
        bare = bare.rpartition(".")[0]
    return str(path.with_name(_RANK.sub("", bare) or "_"))


def _pids(reports: Sequence[Report]) -> set[int]:
    return {m.pid for r in reports for c in r.communicators for m in c.members if m.pid >= 0}

"""Whose a stored run is, and who else used its nodes: by the allocations that agents stored, which
are the scheduler's word. A process that claims a job's id is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from collector.config.owners import agreed, of_allocation
from pipeline.clock import SECOND_NS
from pipeline.job_names import base
from pipeline.store.query.job_allocations import allocations_of
from pipeline.store.query.job_runs import HostSpan, JobRun, all_runs
from pipeline.store.query.store import Store, Window

MARGIN_NS = 60 * SECOND_NS  # between what a source lists and the event that is made of it
# Allocations are stored again with each file, at least once a day: a holder that no event ends, as
# a pod without a training, was there until then.
UNENDED = timedelta(days=2)
MAX_AGE = timedelta(days=30)  # a job that began before that is not known beside another


class Held(NamedTuple):
    """An allocation as it was first stored, or stored again. ``holder`` is the job, or namespace
    and pod.
    """

    time_ns: int
    host: str
    holder: str
    uuid: str
    is_part: bool  # of a divided GPU
    owners: frozenset[str]


class OwnedRun(NamedTuple):
    """``owner`` is as in ``web.tenants``, "" where nobody says, or nodes differ."""

    run: JobRun
    owner: str


def owned_runs(store: Store, window: Window, job: str = "") -> Iterator[OwnedRun]:
    """All runs of a window, or those of one job."""
    runs = all_runs(store, window)
    if job:
        runs = {job: runs.get(job, [])}
    held: defaultdict[str, list[Held]] = defaultdict(list)
    for one in allocations(store, window):
        held[one.holder].append(one)
    for name, its in runs.items():
        for run in its:
            yield OwnedRun(run, _owner(run, held.get(name, ())))


def own_part(store: Store, run: JobRun) -> tuple[JobRun, bool]:
    """The run with the GPUs that it had to itself, and whether nobody else used its nodes."""
    hosts = sorted({span.host for span in run.spans})
    begin, end = _time(run.begin_ns), _time(run.end_ns)
    others = [
        one
        for one in allocations(store, Window(begin - UNENDED, end), hosts)
        if one.holder != run.job
    ]
    runs = all_runs(store, Window(begin - MAX_AGE, end), hosts)
    spans = [
        span for job, its in runs.items() if job != run.job for one in its for span in one.spans
    ]
    beside = [span for span in spans if _overlap(run, span)]
    unended = [one for one in others if one.holder not in runs]
    own = [one for one in allocations(store, _around(run), hosts) if one.holder == run.job]
    while_it_ran = range(run.begin_ns + MARGIN_NS, run.end_ns - MARGIN_NS)
    shared = {one.uuid for one in others if one in unended or one.time_ns in while_it_ran}
    shared.update(gpu for span in beside for gpu in span.gpus)
    shared.update(one.uuid for one in own if one.is_part)
    mine = {(one.host, one.uuid) for one in own if one.uuid not in shared}
    narrowed = tuple(
        replace(span, gpus={gpu for gpu in span.gpus if (span.host, gpu) in mine})
        for span in run.spans
    )
    return replace(run, spans=narrowed), not (beside or unended)


def allocations(store: Store, window: Window, hosts: Collection[str] = ()) -> Iterator[Held]:
    """What the agents stored of who holds which GPU, in no order."""
    for time_ns, host, facts in allocations_of(store, window, hosts):
        pod = f"{facts.get('namespace', '')}/{facts.get('pod', '')}"
        yield Held(
            time_ns,
            host,
            base(facts.get("job", "")) or pod,
            facts.get("uuid", ""),
            bool(facts.get("gpu_instance")),
            frozenset(of_allocation(facts)),
        )


def _owner(run: JobRun, held: Sequence[Held]) -> str:
    """The one whom the allocations on each of its hosts name while it ran. A host without any is
    known from processes alone.
    """
    first, last = run.begin_ns - MARGIN_NS, _last_ns(run) + MARGIN_NS
    by_host: dict[str, set[str]] = {}
    for one in held:
        if first <= one.time_ns <= last:
            by_host.setdefault(one.host, set()).update(one.owners)
    said: Iterable[set[str]] = (by_host.get(span.host, {""}) for span in run.spans)
    return agreed(owner for owners in said for owner in owners)


def _overlap(run: JobRun, span: HostSpan) -> bool:
    """For longer than the end of the one before is noticed late."""
    both = min(span.end_ns, run.end_ns) - max(span.begin_ns, run.begin_ns)
    return both > MARGIN_NS


def _last_ns(run: JobRun) -> int:
    return max(span.end_ns for span in run.spans)


def _around(run: JobRun) -> Window:
    return Window(_time(run.begin_ns - MARGIN_NS), _time(_last_ns(run) + MARGIN_NS))


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)

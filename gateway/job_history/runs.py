"""Runs that the store knows, by owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

MAX_OF_OWNER = 1000  # the newest of each: no owner takes the place of another
MAX_RUNS = 20_000  # about 10 MiB


class StoredRun(NamedTuple):
    """One run of a job. ``owner`` is as in ``web.tenants``; ``nodes`` and ``gpus`` are numbers;
    ``end_ns`` of a run that is ``running`` is when its nodes were read last.
    """

    job: str
    owner: str
    name: str
    scheduler: str
    begin_ns: int
    end_ns: int
    running: bool
    nodes: int
    gpus: int


class Runs:
    """Those of a reader, the newest end first. ``read_ns``: when the store was read, 0 not yet."""

    def __init__(self, runs: Iterable[StoredRun] = (), read_ns: int = 0) -> None:
        self.read_ns = read_ns
        self.every = tuple(sorted(runs, key=lambda run: (-run.end_ns, run.job, run.begin_ns)))
        self._by_owner: defaultdict[str, list[StoredRun]] = defaultdict(list)
        self._by_job: defaultdict[str, list[StoredRun]] = defaultdict(list)
        for run in reversed(self.every):
            self._by_owner[run.owner].append(run)
            self._by_job[run.job].append(run)

    def of(self, owners: Collection[str] | None) -> Runs:
        """Those of some owners, None for all. It takes no longer where others have more."""
        if owners is None:
            return self
        named = (self._by_owner.get(owner, ()) for owner in owners if owner)
        return Runs((run for its in named for run in its), self.read_ns)

    def number(self, run: StoredRun) -> int:
        """Which of its job's runs it is, from 1. Only the reader's own count: an id may have been
        another's before.
        """
        return self._by_job[run.job].index(run) + 1

    def find(self, job: str, number: int = 0) -> StoredRun | None:
        """A run of a job: the newest, or the ``number``-th."""
        its = self._by_job.get(job, ())
        return its[number - 1] if its and number <= len(its) else None


def bounded(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """The newest of each owner, and of these the newest."""
    by_owner: defaultdict[str, list[StoredRun]] = defaultdict(list)
    for run in runs:
        by_owner[run.owner].append(run)
    kept = [run for its in by_owner.values() for run in _newest(its, MAX_OF_OWNER)]
    return _newest(kept, MAX_RUNS)


def _newest(runs: Iterable[StoredRun], most: int) -> list[StoredRun]:
    return sorted(runs, key=lambda run: -run.end_ns)[:most]

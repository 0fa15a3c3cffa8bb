"""One run of a job, put together from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from collector.job_page.ending import STALL_DETECTORS, Ending, ending
from collector.job_page.evidence import AFTER_NS, BEFORE_NS, KINDS, Clue, clues
from collector.job_page.losses import losses
from collector.job_page.phases import Phase, activities, phases
from collector.job_page.reader import Reader
from pipeline.store.query.canned.question import names
from pipeline.store.query.events_of import events_of
from pipeline.store.query.job_cases import findings_of, incidents_of
from pipeline.store.query.job_minutes import Minute, job_minutes
from pipeline.store.query.job_runs import JobRun, runs_of
from pipeline.store.query.store import Store, Window

MARGIN = timedelta(minutes=10)


@dataclass(frozen=True)
class Life:
    """``others`` are the job's earlier and later runs; ``activity`` is that of each of ``minutes``,
    1 the job's usual; ``hours`` are GPU-hours by cause; ``called`` names GPUs by UUID.
    """

    run: JobRun
    others: Sequence[JobRun]
    minutes: Sequence[Minute]
    activity: Sequence[float]
    phases: Sequence[Phase]
    ending: Ending
    clues: Sequence[Clue]
    incidents: Sequence[Mapping[str, Any]]
    hours: Mapping[str, float]
    called: Mapping[str, str]

    @property
    def seconds(self) -> float:
        """How long the run lasted."""
        return (self.run.end_ns - self.run.begin_ns) / 1e9


def life_of(store: Store, text: str, window: Window, number: int = 0) -> Life:
    """A run of the job: the last, or the ``number``-th from 1. UnknownIdError where there is
    none.
    """
    runs = runs_of(store, text, window)
    run = runs[number - 1] if 0 < number <= len(runs) else runs[-1]
    return life_of_run(store, run, [one for one in runs if one is not run])


def life_of_run(
    store: Store, run: JobRun, others: Sequence[JobRun] = (), reader: Reader | None = None
) -> Life:
    """The life of one run, as far as the reader may see it: all of it without one."""
    reader = reader or Reader()
    begin, end = _time(run.begin_ns), _time(run.end_ns)
    whole = Window(begin - MARGIN, end + MARGIN)
    minutes = job_minutes(store, Window(begin, end), run.gpus)
    shown = phases(minutes, run.begin_ns, run.end_ns, over=not run.running)
    near = Window(_time(run.end_ns - BEFORE_NS), _time(run.end_ns + AFTER_NS))
    hosts = [span.host for span in run.spans]
    found = clues(reader.events(events_of(store, near, KINDS, hosts)), run)
    incidents = reader.incidents(incidents_of(store, whole, run))
    stalls = reader.findings(findings_of(store, whole, run, STALL_DETECTORS))
    over = ending(run, found, shown, stalls, incidents)
    return Life(
        run,
        others,
        minutes,
        activities(minutes),
        shown,
        over,
        found,
        incidents,
        losses(shown, len(run.gpus), over),
        _called(store, whole, run),
    )


def _called(store: Store, window: Window, run: JobRun) -> dict[str, str]:
    known = names(store, window).facts
    return {
        device: f"GPU {facts.get('index', '?')} on {host}"
        for (host, device), facts in known.items()
        if device in run.gpus
    }


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)

"""What is wrong with the settings of the NCCL jobs of this node, for the pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.documents import printable
from pipeline.finding import Finding, Incident
from pipeline.job_names import base
from pipeline.observation import Event, Observation

MAX_JOBS, MAX_PROBLEMS = 128, 16
KEYS = ("level", "why", "change", "reference")
Row = dict[str, Any]


class JobSettings:
    """The sink that keeps them. One thread writes, any may look."""

    name = "job_settings"

    def __init__(self) -> None:
        self._jobs: Mapping[str, Sequence[Row]] = {}

    def write(
        self,
        observation: Observation,
        _findings: Sequence[Finding] = (),
        _incidents: Sequence[Incident] = (),
    ) -> None:
        """Take over the events of an observation."""
        for event in observation.events:
            job = str(event.attributes.get("job", ""))
            if event.kind == "nccl_settings":
                others = {name: rows for name, rows in self._jobs.items() if name != job}
                kept = dict(list(others.items())[1 - MAX_JOBS :])
                self._jobs = kept | {job: list(_rows(event, job))}
            elif event.kind == "job_ended" and job in self._jobs:
                self._jobs = {name: rows for name, rows in self._jobs.items() if name != job}

    def rows(self, jobs: Sequence[str] | None = None) -> list[Row]:
        """One for each problem, of all jobs or of some, by their names with or without a step."""
        wanted = None if jobs is None else {base(job) for job in jobs}
        return [
            row
            for job, rows in sorted(self._jobs.items())
            if wanted is None or base(job) in wanted
            for row in rows
        ]


def _rows(event: Event, job: str) -> Iterator[Row]:
    """Texts of jobs are made printable; a document that is none gives nothing."""
    try:
        found = json.loads(str(event.attributes.get("document", "")))
    except ValueError:
        return
    for one in found[:MAX_PROBLEMS] if isinstance(found, list) else ():
        if isinstance(one, dict):
            texts = {key: printable(str(one.get(key, ""))) for key in KEYS}
            ranks = one.get("ranks")
            names = [printable(str(r)) for r in ranks] if isinstance(ranks, list) else []
            yield {"job": printable(job), **texts, "ranks": names}

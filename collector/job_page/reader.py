"""What a reader of a run's page may see of what the store has: everything, or what is surely about
the run alone (for its owner, who shares nodes and switches with others).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pipeline.clock import SECOND_NS
from pipeline.gpu_parts import gpu_id
from pipeline.job_names import base
from pipeline.observation import Event
from pipeline.store.query.job_runs import JobRun

Row = Mapping[str, Any]
GRACE_NS = 60 * SECOND_NS  # a node that goes down ends the job and is noticed a little later
WITHHELD = "it may concern others too"


class Reader:
    """One who sees everything."""

    def events(self, events: Iterable[Event]) -> Iterable[Event]:
        """Events of the run's nodes around its end."""
        return events

    def incidents(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Incidents that touched the run."""
        return rows

    def findings(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Findings about the run or its parts."""
        return rows


class OwnerReader(Reader):
    """The owner of a run. ``alone``: nobody else used its nodes while it ran, so that words about
    its devices are about it. What began after its end is another's.
    """

    def __init__(self, run: JobRun, *, alone: bool) -> None:
        self._run, self._alone = run, alone

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        """Those that name the job, and those of its own GPUs and processes while it ran."""
        for event in events:
            if event.kind == "kernel_panic":
                if event.time_ns <= self._run.end_ns + GRACE_NS:  # the line names any process
                    yield replace(event, attributes={})
            elif self._names(event) or ("job" not in event.attributes and self._own_part(event)):
                yield event

    def _names(self, event: Event) -> bool:
        return base(str(event.attributes.get("job", ""))) == self._run.job

    def _own_part(self, event: Event) -> bool:
        if not self._run.begin_ns <= event.time_ns <= self._run.end_ns:
            return False  # numbers of processes are used again, and GPUs given to others
        if event.kind == "xid":
            return event.device.id.partition("/")[0] in self._run.gpus
        pid = event.attributes.get("pid")
        return event.kind in ("oom_kill", "segfault") and (
            (event.device.host, pid) in self._run.pids
        )

    def incidents(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Of devices that others use too, or that began before the run: the class alone."""
        return [
            row if self._readable(row) else {**row, "summary": f"{row['fault']} ({WITHHELD})"}
            for row in rows
            if _ns(row["opened"]) <= self._run.end_ns
        ]

    def _readable(self, row: Row) -> bool:
        named = {base(job) for job in row["jobs"] or ()}
        began = self._run.begin_ns <= _ns(row["opened"])
        return self._alone and began and named == {self._run.job} and self._own(row)

    def findings(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those of the job, and of its GPUs where nobody else used its nodes."""
        return [
            row
            for row in rows
            if self._run.begin_ns <= _ns(row["onset"]) <= self._run.end_ns
            and (self._is_job(row) or (self._alone and self._own(row)))
        ]

    def _own(self, row: Row) -> bool:
        """Whether its device is the job, a rank of it, or one of its GPUs."""
        return self._is_job(row) or (gpu_id(row["device_kind"], row["device"]) in self._run.gpus)

    def _is_job(self, row: Row) -> bool:
        if row["device_kind"] == "job":
            return base(row["device"]) == self._run.job
        if row["device_kind"] != "rank" or not row.get("device_attributes"):
            return False
        facts = json.loads(row["device_attributes"])[1]
        return base(str(facts.get("job", ""))) == self._run.job


def _ns(time: datetime) -> int:
    return round(time.timestamp() * 1e6) * 1000

"""Runs in a store that is not read: what the reading child would answer is the test's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from gateway.job_history.ask import GONE, Ask
from gateway.job_history.history import JobHistory
from gateway.job_history.runs import StoredRun
from pipeline.child import Finished
from pipeline.clock import SECOND_NS
from pipeline.store.remote.upload_plan import Target
from tests.fakes import START_NS, FakeClock


def ended(job: str, owner: str, ago_s: float = 3600, **more: object) -> StoredRun:
    """An hour of a job on two nodes, which ended some time ago."""
    end_ns = START_NS - round(ago_s * SECOND_NS)
    run = StoredRun(
        job, owner, f"name of {job}", "slurm", end_ns - 3600 * SECOND_NS, end_ns, False, 2, 16
    )
    return run._replace(**more)  # type: ignore[arg-type]


class FakeStore:
    """Answers as the reading child does; ``asked`` has its questions."""

    def __init__(self, runs: Sequence[StoredRun]) -> None:
        self.runs, self.asked = list(runs), list[Ask]()
        self.gone = False

    def work(self, ask: Ask, timeout_s: float, max_bytes: int) -> Finished:
        """The answer to a question."""
        self.asked.append(ask)
        if not ask.job:
            return Finished(0, json.dumps(self.runs).encode(), b"")
        if self.gone:
            return Finished(GONE, b"", b"")
        text = json.dumps(PAGE) if ask.form == "json" else f"{ask.form} of {ask.job}"
        return Finished(0, text.encode(), b"")

    def history(self) -> JobHistory:
        """What reads it; it has read nothing yet."""
        return JobHistory(Target("/nowhere"), FakeClock(), self.work)


def history_of(runs: Sequence[StoredRun]) -> JobHistory:
    """Which has read these runs."""
    history = FakeStore(runs).history()
    asyncio.run(history.refresh())
    return history


PAGE = {
    "job": "60",
    "name": "llm",
    "user": "ada",
    "scheduler": "slurm",
    "begin": "2027-01-15T08:00:00.000+00:00",
    "end": None,
    "seconds": 60.0,
    "hosts": ["n1"],
    "gpus": ["GPU-1"],
    "ended_by": {
        "cause": "running",
        "who": "",
        "detail": "",
        "time": None,
        "sentence": "It is still running.",
        "next_step": "",
    },
    "phases": [],
    "throughput": [],
    "gpu_hours": {"steps": 1.0},
    "incidents": [],
    "clues": [],
    "other_runs": [],
}

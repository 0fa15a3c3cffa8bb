"""Jobs over processes of this machine or over a Ray cluster: each result becomes a file."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.runs.dump import Dump
from evaluation.runs.run import Job, run_job
from pipeline.observation import Observation
from pipeline.pieces.interface import Executor, Piece

# Objects made before the youngest are looked through for cycles: of the default, 700, a run spends
# a tenth of its time in looking.
COLLECT_AFTER = 100_000


@dataclass(frozen=True, slots=True)
class Done:
    """How a job ended: ``error`` is empty, or the worker's last line."""

    job: Job
    error: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A job, and the folder in which its frames are kept, if they are."""

    job: Job
    dumps: Path | None = None


def run_jobs(
    jobs: Sequence[Job], folder: Path, code: str, executor: Executor, dumps: Path | None = None
) -> Generator[Done, None, None]:
    """Run jobs, each result a file in ``folder``; what is done, as it gets done.

    A job that fails costs itself only: its error is a file next to the results. When the iterator
    is closed (or interrupted) all that runs is stopped.
    """
    pieces = [Piece(job.name, Task(job, dumps)) for job in jobs]
    with closing(executor.run(run_task, pieces)) as ended:
        for done in ended:
            job = jobs[done.number]
            errors = folder / f"{job.name}.err"
            if done.result is None:
                errors.write_text(f"{done.error}\n", encoding="utf-8")
            else:
                _write(folder / f"{job.name}.json", {"code": code, **done.result})
                errors.unlink(missing_ok=True)  # of an earlier attempt
            yield Done(job, done.reason)


def run_task(task: Task) -> dict[str, Any]:
    """In a worker: the result of a job, and what it cost."""
    gc.set_threshold(COLLECT_AFTER)
    began_s = time.process_time()
    result = _run(task.job, task.dumps)
    return {"cpu_s": round(time.process_time() - began_s, 1), **result}


def _run(job: Job, dumps: Path | None) -> dict[str, Any]:
    if dumps is None:
        return run_job(job)
    with Dump(dumps / job.name) as dump:
        watch: Callable[[Observation], None] = dump.observation
        result = run_job(job, watch, dump.results)
        dump.truth(result["truth"])
        return result


def _write(path: Path, document: object) -> None:
    """All of it or nothing: a result that is there is complete."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
    part.replace(path)

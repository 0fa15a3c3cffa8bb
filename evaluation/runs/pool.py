"""Jobs over all cores: workers that may die without taking the suite with them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluation.runs.run import Job
from pipeline.child import Child, python

POLL_S = 0.05  # how long one worker is listened to before the next
KILLED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a job ended: ``error`` is empty, or the worker's standard error."""

    job: Job
    error: str = ""


@dataclass(slots=True)
class _Worker:
    child: Child
    job: Job | None = None


def run_jobs(
    jobs: Sequence[Job], folder: Path, code: str, workers: int, dumps: Path | None = None
) -> Generator[Done, None, None]:
    """Run jobs in so many processes, each result a file in ``folder``; what
    is done, as it gets done.

    A worker that dies costs its job only: another takes its place. When the iterator is closed (or
    interrupted) all are killed.
    """
    waiting = deque(jobs)
    start: Callable[[], _Worker] = lambda: _Worker(  # noqa: E731 - one expression, used twice
        Child(python("evaluation.runs.worker", str(folder), code, *([str(dumps)] if dumps else [])))
    )
    crew = [start() for _ in range(min(workers, len(jobs)))]
    try:
        while waiting or any(worker.job for worker in crew):
            for place, worker in enumerate(crew):
                if worker.job is None:
                    _give(worker, waiting)
                    continue
                answer = worker.child.receive(POLL_S)
                if answer is None:
                    continue
                done, worker.job = worker.job, None
                if answer:
                    yield Done(done)
                else:
                    _end(worker)
                    crew[place] = start()
                    yield Done(done, _last_words(folder, done))
    finally:
        for worker in crew:
            _end(worker)


def _end(worker: _Worker) -> None:
    worker.child.kill()
    worker.child.wait(KILLED_WITHIN_S)


def _give(worker: _Worker, waiting: deque[Job]) -> None:
    if waiting:
        worker.job = waiting.popleft()
        worker.child.send(json.dumps(asdict(worker.job)).encode() + b"\n")


def _last_words(folder: Path, job: Job) -> str:
    file = folder / f"{job.name}.err"
    lines = file.read_text(errors="replace").strip().splitlines() if file.is_file() else []
    return lines[-1] if lines else "the worker was killed"

"""The child that runs jobs: one JSON line in, one result file and one line out.

An error ends it; its standard error is then in a file next to the result.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.runs.dump import Dump
from evaluation.runs.run import Job, run_job
from pipeline.child import end_with_parent
from pipeline.observation import Observation


def main(arguments: Sequence[str]) -> None:
    """Serve until standard input ends.

    ``arguments``: folder of results, hash of the code, folder of dumps or nothing.
    """
    end_with_parent()  # a run takes minutes, and is of no use once the suite has ended
    folder, code, dumps = (
        Path(arguments[0]),
        arguments[1],
        Path(arguments[2]) if arguments[2:] else None,
    )
    for line in sys.stdin:
        job = Job.from_json(line)
        errors = folder / f"{job.name}.err"
        with errors.open("wb") as file:
            os.dup2(file.fileno(), 2)
        began_s = time.process_time()
        result = _run(job, dumps)
        spent = {"cpu_s": round(time.process_time() - began_s, 1)}
        _write(folder / f"{job.name}.json", {"code": code, **spent, **result})
        errors.unlink()
        sys.stdout.write(f"{job.name}\n")
        sys.stdout.flush()


def _run(job: Job, dumps: Path | None) -> dict[str, object]:
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

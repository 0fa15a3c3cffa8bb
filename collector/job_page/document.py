"""The life of a job as plain values, for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from collector.job_page.life import Life


def document(life: Life) -> dict[str, Any]:
    """Times are ISO 8601 in UTC, durations seconds, activities ratios of the job's usual."""
    run, over = life.run, life.ending
    return {
        "job": run.job,
        "name": run.job_name,
        "user": run.user,
        "scheduler": run.scheduler,
        "begin": _time(run.begin_ns),
        "end": None if run.running else _time(run.end_ns),
        "seconds": round(life.seconds, 3),
        "hosts": sorted({span.host for span in run.spans}),
        "gpus": sorted(run.gpus),
        "ended_by": {
            "cause": over.cause,
            "who": over.who,
            "detail": over.detail,
            "time": _time(over.time_ns) if over.time_ns else None,
            "sentence": over.sentence,
            "next_step": over.next_step,
        },
        "phases": [
            {
                "kind": one.kind,
                "begin": _time(one.begin_ns),
                "end": _time(one.end_ns),
                "activity": round(one.activity, 4),
            }
            for one in life.phases
        ],
        "throughput": [
            {"time": _time(minute.begin_ns), "activity": round(value, 4), "gpus": minute.gpus}
            for minute, value in zip(life.minutes, life.activity, strict=True)
        ],
        "gpu_hours": {cause: round(value, 4) for cause, value in life.hours.items()},
        "incidents": [
            {
                "id": row["id"],
                "severity": row["severity"],
                "class": row["fault"],
                "opened": row["opened"].astimezone(UTC).isoformat(),
                "summary": row["summary"],
                "action": row["action"],
            }
            for row in life.incidents
        ],
        "clues": [
            {
                "sort": clue.sort,
                "time": _time(clue.time_ns),
                "host": clue.host,
                "who": clue.who,
                "text": clue.text,
            }
            for clue in life.clues
        ],
        "other_runs": [
            {"begin": _time(other.begin_ns), "end": _time(other.end_ns)} for other in life.others
        ],
    }


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds")

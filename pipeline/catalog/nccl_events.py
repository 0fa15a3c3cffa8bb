"""Events about NCCL: what a source told of a job's communicators, and lines of job logs (pipeline/nccl/wire.py reads and writes them)."""

from __future__ import annotations

from pipeline.catalog.fields import EventKind

_REPORT = ("report", "joins the events of one report: host, time, teller, origin")
_DOCUMENT = ("document", "the whole as JSON: the fields of pipeline/nccl, names as there")
_JOB = ("job", "the scheduler's id of the job")

EVENTS = (
    EventKind(
        "nccl_report",
        "A source told about the communicators of a job: RAS, the Flight Recorder, the Inspector or a log.",
        (
            _REPORT,
            ("teller", "ras, flight_recorder, inspector or log"),
            _JOB,
            ("communicators", "how many nccl_communicator events belong to it"),
            ("distrust", "why nothing may be concluded from it; absent: trusted"),
            ("nccl", "NCCL's version"),
            _DOCUMENT,
        ),
    ),
    EventKind(
        "nccl_communicator",
        "One communicator of a report, with what is known of its ranks.",
        (
            _REPORT,
            ("communicator", "RAS and Inspector: hash as 16 hexadecimal digits; Flight Recorder: name of the group"),
            ("size", "ranks that belong to it"),
            _DOCUMENT,
        ),
    ),
    EventKind(
        "nccl_line",
        "A line of a job's log says something about a stall.",
        (
            ("pattern", "name of the pattern that took it (docs/nccl.md)"),
            ("layer", "where the cause would lie: link, adapter, fabric, gpu, process, ..."),
            ("blame", "whom it speaks against: reporter, peer, named or nobody"),
            _JOB,
            ("rank", "the reporter's rank in the job"),
            ("pid", "process id in the host's namespace"),
            ("text", "the line, at most 512 characters"),
            _DOCUMENT,
        ),
    ),
)

"""Events about NCCL: what a source reported of a job's communicators, and lines of job logs
(pipeline/nccl/wire.py reads and writes them).
"""

from __future__ import annotations

from pipeline.catalog.fields import EventKind

_REPORT = ("report", "joins the events of one report: host, time, reporter, origin")
_DOCUMENT = ("document", "the complete report as JSON: the fields of pipeline/nccl, names as there")
_JOB = ("job", "the scheduler's id of the job")

EVENTS = (
    EventKind(
        "nccl_report",
        (
            "A report on the communicators of a job: from RAS, the Flight Recorder, the "
            "Inspector or a log."
        ),
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
            (
                "communicator",
                (
                    "RAS and Inspector: hash as 16 hexadecimal digits; Flight "
                    "Recorder: name of the group"
                ),
            ),
            ("size", "ranks that belong to it"),
            _DOCUMENT,
        ),
    ),
    EventKind(
        "nccl_line",
        "A line of a job's log that is evidence of a stall.",
        (
            ("pattern", "name of the pattern that took it (docs/nccl.md)"),
            ("layer", "likely location of the cause: link, adapter, fabric, gpu, process, ..."),
            ("blame", "what it implicates: reporter, peer, named or nobody"),
            _JOB,
            ("rank", "the reporter's rank in the job"),
            ("pid", "process id in the host's namespace"),
            ("text", "the line, at most 512 characters"),
            _DOCUMENT,
        ),
    ),
)

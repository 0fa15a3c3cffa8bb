"""Asks Slurm's accounting itself: sacct for jobs, sacctmgr for nodes that were drained or down."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime

from history.economics.sacct import NodeEvent, Run, SacctError, fields_for, node_events, runs
from pipeline import child

MAX_BYTES = 1 << 30  # of a quarter's jobs; a row has about 300 bytes
MAX_WORDS = 300  # characters of a complaint
DEADLINE_S = 600.0  # a slurmdbd that is busy; one that is away refuses at once
EVENT_FIELDS = "nodename,start,end,state,reason,user"


class AwayError(Exception):
    """The command is missing, or slurmdbd does not answer."""


def read_runs(since: datetime, until: datetime) -> list[Run]:
    """Every run that was there between two times, requeued ones and those of all users included.
    AwayError, SacctError.
    """
    fields = fields_for(_output("sacct", "--helpformat"))
    asked = ("sacct", "-a", "-D", "-P", "-X", "--noconvert", "-o", ",".join(fields))
    return runs(_output(*asked, "-S", _time(since), "-E", _time(until)))


def read_node_events(since: datetime, until: datetime) -> list[NodeEvent]:
    """Nodes that were drained or down between two times. AwayError, SacctError."""
    span = f"start={_time(since)}", f"end={_time(until)}"
    asked = ("sacctmgr", "-P", "show", "event", "event=node", *span, f"format={EVENT_FIELDS}")
    return node_events(_output(*asked))


def _output(*argv: str) -> str:
    program, shown = shutil.which(argv[0]), shlex.join(argv)
    if program is None:
        raise AwayError(f"{argv[0]} is not installed")
    try:
        done = child.run(
            [program, *argv[1:]], timeout_s=DEADLINE_S, max_bytes=MAX_BYTES, env=_environ()
        )
    except OSError as error:
        raise AwayError(f"{shown}: {error.strerror}") from error
    if done.timed_out:
        raise AwayError(f"{shown} took longer than {DEADLINE_S:g} s")
    if done.truncated:
        raise SacctError(f"{shown}: more than {MAX_BYTES >> 20} MiB; ask for a shorter time")
    if done.returncode:
        errors = " ".join(done.stderr.decode(errors="replace").split())[-MAX_WORDS:]
        raise AwayError(f"{argv[0]} exited with {done.returncode}: {errors}")
    return done.stdout.decode(errors="replace")


def _environ() -> Mapping[str, str]:
    """Times in UTC, in the form without a zone."""
    return {**os.environ, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}


def _time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")

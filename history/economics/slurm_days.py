"""Slurm's accounting day by day: while slurmdbd is away, or answers half, a report says which hours
it lacks of whom, and has the others.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from history.economics.gather import Accounting
from history.economics.sacct import Run, SacctError
from history.economics.slurm import AwayError, read_node_events, read_runs

DAY = timedelta(days=1)
TOTAL_S = 1800.0  # of all days; each command has its own limit


def ask(since: datetime, until: datetime) -> Accounting:
    """Runs and node events between two times; ``notes`` say what is lacking. A run of several days
    counts once, as the last of them has it: rows change while slurmdbd catches up.
    """
    runs: dict[tuple[str, str, str], Run] = {}
    notes: list[str] = []
    begin, deadline_s = since, time.monotonic() + TOTAL_S
    try:
        while begin < until:
            if time.monotonic() > deadline_s:
                raise AwayError(f"sacct took longer than {TOTAL_S:g} s for the days before")
            end = min(begin + DAY, until)
            runs.update((run.key, run) for run in read_runs(begin, end))
            begin = end
    except (AwayError, SacctError) as error:
        hours = f"{_hour(begin)} to {_hour(until)} UTC ({(until - begin) / DAY * 24:.0f} h)"
        notes.append(f"Without Slurm's accounting of jobs from {hours}: {error}")
    try:
        nodes = read_node_events(since, until)
    except (AwayError, SacctError) as error:
        nodes = []
        notes.append(f"Without Slurm's accounting of nodes: {error}")
    return Accounting(tuple(runs.values()), tuple(nodes), tuple(notes))


def _hour(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"

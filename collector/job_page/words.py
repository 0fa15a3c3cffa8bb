"""The life of a job as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from collector.durations import span
from collector.job_page.ending import survived
from collector.job_page.evidence import Clue
from collector.job_page.life import Life
from collector.job_page.phases import Phase
from pipeline.severities import shown_severity
from pipeline.short_ids import short

WIDTH, BLOCKS, COLUMNS = 110, " ▁▂▃▄▅▆▇█", 72
MAX_PHASES, MAX_CLUES, MAX_HOSTS = 24, 12, 12
PHASES = {
    "load": "start-up",
    "steps": "steps",
    "pause": "pause",
    "stall": "stalled",
    "unobserved": "not observed",
}


def lines(life: Life) -> Iterator[str]:
    """The page, the end first: it is what is asked."""
    name = f" ({life.run.job_name})" if life.run.job_name else ""
    yield named(life, f"Job {life.run.job}{name}")
    yield from _field("end", named(life, life.ending.sentence))
    yield from _field("next", life.ending.next_step)
    yield from _field("ran", ran(life))
    yield from _field("on", places(life))
    yield from _field("hours", hours(life))
    yield from _field("runs", other_runs(life))
    yield ""
    yield (
        f"Throughput, 1 is its usual  {life.activity and max(life.activity):.2f} at most"
        if life.activity
        else "No readings of its GPUs"
    )
    yield f"  {curve(life.activity)}"
    yield from (f"  {line}" for line in phase_lines(life.phases))
    if life.incidents:
        yield ""
        yield "Incidents that touched it"
        yield from (f"  {line}" for line in incident_lines(life))
    if life.clues:
        yield ""
        yield "Around its end"
        yield from (f"  {line}" for line in clue_lines(life))


def ran(life: Life) -> str:
    """From when to when, and that all times are UTC."""
    begin = clock(life.run.begin_ns)
    if life.run.running:
        return f"{begin} UTC to now, {span(life.seconds)}"
    return f"{begin} to {clock(life.run.end_ns)} UTC, {span(life.seconds)}"


def places(life: Life) -> str:
    """Nodes and GPUs."""
    hosts = sorted({one.host for one in life.run.spans})
    more = f" and {len(hosts) - MAX_HOSTS} more" if len(hosts) > MAX_HOSTS else ""
    known = f"; {life.run.hosts} nodes in all" if life.run.hosts > len(hosts) else ""
    gpus = f"{len(life.run.gpus)} GPU{'s' if len(life.run.gpus) != 1 else ''}"
    return f"{gpus} on {', '.join(hosts[:MAX_HOSTS])}{more}{known}"


def hours(life: Life) -> str:
    """GPU-hours by cause, the most first."""
    parts = sorted(life.hours.items(), key=lambda item: -item[1])
    total = sum(life.hours.values())
    listed = ", ".join(f"{value:.1f} {cause}" for cause, value in parts)
    return f"{total:.1f} GPU-hours: {listed}" if parts else ""


def other_runs(life: Life) -> str:
    """The job's other runs."""
    shown = [f"{clock(run.begin_ns)} to {clock(run.end_ns)}" for run in life.others]
    return f"{len(shown)} more: {'; '.join(shown[-4:])} (--run N)" if shown else ""


def curve(values: Sequence[float], columns: int = COLUMNS) -> str:
    """Values as blocks, averaged to a width.

    >>> curve([0.0, 0.5, 1.0])
    ' ▄█'
    """
    if not values:
        return ""
    size = max(1, -(-len(values) // columns))
    means = [
        sum(part) / len(part) for i in range(0, len(values), size) if (part := values[i : i + size])
    ]
    top = max(*means, 1e-9, 1.0)
    return "".join(BLOCKS[round(min(value / top, 1.0) * (len(BLOCKS) - 1))] for value in means)


def phase_lines(phases: Sequence[Phase]) -> Iterator[str]:
    """Each phase; of many the first and the last."""
    half = MAX_PHASES // 2
    cut = len(phases) - MAX_PHASES
    for number, one in enumerate(phases):
        if cut > 0 and number == half:
            yield f"... {cut} more ..."
        if cut <= 0 or number < half or number >= len(phases) - half:
            lasted = span((one.end_ns - one.begin_ns) / 1e9)
            at = f" at {one.activity:.0%} of its usual" if one.kind == "steps" else ""
            yield f"{clock(one.begin_ns)}  {PHASES[one.kind]:12} {lasted}{at}"


def incident_lines(life: Life) -> Iterator[str]:
    """Each incident: when, what, its id."""
    for row in life.incidents:
        at = f"{row['opened'].astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        level = shown_severity(row["severity"])
        yield f"{at}  {level:6} {named(life, row['summary'])} [{short(row['id'])}]"


def clue_lines(life: Life) -> Iterator[str]:
    """The first clues."""
    for clue in life.clues[:MAX_CLUES]:
        head = f"{clock(clue.time_ns)}  {clue.sort.replace('_', ' '):14} "
        text = f"{head}{clue.host}: {clue_text(life, clue)}"
        yield from textwrap.wrap(
            text, WIDTH - 2, subsequent_indent=" " * len(head), max_lines=3, placeholder=" ..."
        )
    if len(life.clues) > MAX_CLUES:
        yield f"... {len(life.clues) - MAX_CLUES} more"


def clue_text(life: Life, clue: Clue) -> str:
    """What a clue says, and whether the job went on after it."""
    went_on = "the job went on after it: " if survived(clue, life.phases) else ""
    return f"{went_on}{named(life, clue.text)}"


def named(life: Life, text: str) -> str:
    """With GPUs by their index and node; the UUID behind it where nothing else is known."""
    for uuid, name in life.called.items():
        text = text.replace(f"GPU {uuid}", f"{name} ({uuid})")
    return "".join(c if c.isprintable() else "?" for c in text)


def clock(ns: int) -> str:
    """UTC, to the second."""
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _field(name: str, text: str) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(text, WIDTH, initial_indent=f"  {name:6}", subsequent_indent=" " * 8)

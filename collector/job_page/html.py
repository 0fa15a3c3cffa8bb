"""The life of a job as one HTML page that needs nothing else: for a mail, a ticket, a browser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC

from collector.durations import span
from collector.job_page.life import Life
from collector.job_page.phases import Phase
from collector.job_page.style import COLOURS, STYLE
from collector.job_page.words import (
    PHASES,
    clock,
    clue_text,
    hours,
    named,
    other_runs,
    places,
    ran,
)
from collector.web.page.markup import Html, Node, el, join
from pipeline.severities import shown_severity
from pipeline.short_ids import short

WIDTH, HEIGHT, BAND = 900, 160, 14
MAX_ROWS = 500


def page(life: Life) -> str:
    """The complete document."""
    title = f"Job {life.run.job}"
    good = life.ending.cause in ("completed", "running")
    body = el(
        "main",
        el("h1", f"{title}{f' ({life.run.job_name})' if life.run.job_name else ''}"),
        el(
            "div",
            el("p", el("b", named(life, life.ending.sentence))),
            el("p", f"Next step: {life.ending.next_step}") if life.ending.next_step else None,
            class_="end good" if good else "end",
        ),
        _facts(life),
        el("h2", "Throughput"),
        picture(life),
        _table(("From (UTC)", "Phase", "Lasted", "Of its usual"), map(_phase, life.phases)),
        *_section(
            "Incidents that touched it",
            ("Opened (UTC)", "Severity", "What", "Id"),
            _incidents(life),
        ),
        *_section("Around its end", ("Time (UTC)", "Node", "What", "Line"), _clues(life)),
    )
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width"),
        el("title", f"{title} - Tocsin"),
        el("style", Html(STYLE)),
    )
    return f"<!doctype html>{el('html', head, el('body', body), lang='en')}\n"


def picture(life: Life) -> Html:
    """Throughput over time, with the phases as a band below."""
    begin, end = life.run.begin_ns, max(life.run.end_ns, life.run.begin_ns + 1)

    def x(ns: int) -> float:
        return round((min(max(ns, begin), end) - begin) / (end - begin) * WIDTH, 1)

    top = max([*life.activity, 1.0])
    points = " ".join(
        f"{x(minute.begin_ns)},{round(HEIGHT * (1 - value / top), 1)}"
        for minute, value in zip(life.minutes, life.activity, strict=True)
    )
    bands = "".join(
        f'<rect x="{x(one.begin_ns)}" y="{HEIGHT + 4}" height="{BAND}" '
        f'width="{max(x(one.end_ns) - x(one.begin_ns), 0.5):.1f}" fill="{COLOURS[one.kind]}"/>'
        for one in life.phases
    )
    return Html(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + BAND + 4}" role="img" '
        'aria-label="Throughput over time, 1 is usual; phases below">'
        f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT * (1 - 1 / top):.1f}" '
        f'y2="{HEIGHT * (1 - 1 / top):.1f}" stroke="#999" stroke-dasharray="4 4"/>'
        f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="1.5"/>'
        f"{bands}</svg>"
    )


def _facts(life: Life) -> Html:
    rows = {
        "Ran": ran(life),
        "On": places(life),
        "GPU-hours": hours(life),
        "Owner": life.run.user,
        "Other runs": other_runs(life),
    }
    return el("dl", *(join(el("dt", k), el("dd", v)) for k, v in rows.items() if v))


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[Node]]) -> list[Node]:
    listed = list(rows)
    return [el("h2", title), _table(head, listed)] if listed else []


def _table(head: Sequence[str], rows: Iterable[Sequence[Node]]) -> Html:
    body = [el("tr", *(el("td", cell) for cell in row)) for row in list(rows)[:MAX_ROWS]]
    top = el("tr", *(el("th", name, scope="col") for name in head))
    return el("table", el("thead", top), el("tbody", *body))


def _phase(one: Phase) -> tuple[Node, ...]:
    mark = Html(f'<span class="{one.kind}" aria-hidden="true">■</span> ')
    usual = f"{one.activity:.0%}" if one.kind == "steps" else ""
    lasted = span((one.end_ns - one.begin_ns) / 1e9)
    return clock(one.begin_ns), join(mark, PHASES[one.kind]), lasted, usual


def _incidents(life: Life) -> list[tuple[Node, ...]]:
    return [
        (
            f"{row['opened'].astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            shown_severity(row["severity"]),
            named(life, row["summary"]),
            short(row["id"]),
        )
        for row in life.incidents
    ]


def _clues(life: Life) -> list[tuple[Node, ...]]:
    return [
        (clock(c.time_ns), c.host, c.sort.replace("_", " "), clue_text(life, c)) for c in life.clues
    ]

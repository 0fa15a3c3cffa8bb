"""The report as text, CSV and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from history.economics.evidence import CAUSES, MEANING
from history.economics.report import GROUPS, Report

NONE = {"team": "(no job)", "model": "(unknown)", "rack": "(unknown)", "fault": "(no fault)"}
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes these for formulas
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0 2rem; }
th, td { padding: 0.25rem 0.75rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
.bar { display: flex; height: 1.5rem; margin: 1rem 0; }
.bar span { display: block; }
.used { background: #2a7f62; } .idle { background: #b9c0c7; } .unknown { background: #e3e3e3; }
.start_up { background: #7fb3d5; } .checkpoint { background: #4a90c2; }
.stalled { background: #e0a030; } .lost { background: #c0392b; } .repair { background: #8e5ea2; }
.down { background: #4d4d4d; }
"""

Table = tuple[str, Sequence[str], list[Sequence[str]]]


def tables(report: Report) -> Iterator[Table]:
    """Title, heads and rows of each table."""
    total = report.total or 1.0
    yield (
        "GPU-hours by cause",
        ("cause", "GPU-hours", "share", "meaning"),
        [
            (cause, f"{hours:,.1f}", f"{hours / total:.2%}", MEANING[cause])
            for cause, hours in report.hours.items()
        ],
    )
    for name in GROUPS:
        rows = report.groups[name]
        yield (
            f"GPU-hours by {name}",
            (name, *CAUSES),
            [
                (key or NONE[name], *(f"{row.get(cause, 0.0):,.1f}" for cause in CAUSES))
                for key, row in rows.items()
            ],
        )
    yield (
        "GPU-hours in service per failure",
        ("fault", "failures", "estimate", "95 % interval"),
        [
            (fault, str(found.failures), _hours(found.estimate), _interval(found.low, found.high))
            for fault, found in report.reliability.items()
        ],
    )
    yield (
        "Nodes that fail more often than chance",
        ("node", "failures", "expected", "chance"),
        [
            (one.host, str(one.failures), f"{one.expected:.2f}", f"{one.chance:.1e}")
            for one in report.lemons
        ],
    )
    yield (
        "Repairs that helped",
        ("act", "helped", "of"),
        [(what, str(helped), str(of)) for what, (helped, of) in report.helped.items()],
    )


def lines(report: Report) -> list[str]:
    """What the tables do not have, a sentence each."""
    kept = "met" if report.availability >= report.target else "missed"
    span = f"{report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC"
    what = f"{report.nodes} nodes, {report.gpus} GPUs, {report.total:,.1f} GPU-hours"
    median = _hours(report.repair_hours)
    return [
        f"{span}: {what}.",
        f"Availability {report.availability:.3%}, target {report.target:.3%}: {kept}.",
        f"{report.repairs} repairs, median {median} (those that still last included).",
    ]


def as_text(report: Report) -> str:
    """Aligned columns."""
    parts = [*lines(report), ""]
    for title, heads, rows in tables(report):
        if rows:
            parts += [title, *_aligned([heads, *rows]), ""]
    return "\n".join(parts)


def as_csv(report: Report) -> str:
    """One table: what is grouped by, its value, cause, GPU-hours."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(("by", "value", "cause", "gpu_hours"))
    groups: Mapping[str, Mapping[str, Mapping[str, float]]] = {
        "all": {"": report.hours},
        **report.groups,
    }
    for name, rows in groups.items():
        for key, row in rows.items():
            for cause in CAUSES:
                write((name, _cell(key), cause, f"{row.get(cause, 0.0):.6f}"))
    return out.getvalue()


def as_html(report: Report) -> str:
    """One page without anything from elsewhere."""
    total = report.total or 1.0
    bar = "".join(
        f'<span class="{cause}" style="width:{hours / total:.4%}" '
        f'title="{cause} {hours / total:.1%}"></span>'
        for cause, hours in report.hours.items()
    )
    body = "".join(f"<p>{escape(line)}</p>" for line in lines(report))
    for title, heads, rows in tables(report):
        if rows:
            body += f"<h2>{escape(title)}</h2>{_table(heads, rows)}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>GPU time</title>'
        f'<style>{STYLE}</style></head><body><h1>GPU time</h1><div class="bar">{bar}</div>'
        f"{body}</body></html>\n"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *rest = widths
    return [
        "  ".join((row[0].ljust(first), *(c.rjust(w) for c, w in zip(row[1:], rest, strict=True))))
        for row in rows
    ]


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(DANGEROUS) else text


def _hours(value: float) -> str:
    return "none seen" if value == float("inf") else f"{value:,.1f} h"


def _interval(low: float, high: float) -> str:
    return f"{low:,.0f} to {'infinite' if high == float('inf') else f'{high:,.0f}'} h"

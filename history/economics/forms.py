"""The report as text, CSV and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from history.economics.evidence import CAUSES, MEANING
from history.economics.reliability import Median, Mtbf
from history.economics.report import GROUPS, Report

NONE = {"team": "(no job)", "model": "(unknown)", "rack": "(unknown)", "fault": "(no fault)"}
NOTHING, NOT_SEEN = "-", "not reached"
ABSENT = ("", NOTHING, NOT_SEEN)
DANGEROUS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes these for formulas
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 0.25rem; }
p { margin: 0.25rem 0; max-width: 46rem; }
table { border-collapse: collapse; margin: 0.5rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem; text-align: right; border-bottom: 1px solid #8884; }
th { font-weight: 600; vertical-align: bottom; }
.words { text-align: left; }
.wide { overflow-x: auto; }
td, th { white-space: nowrap; }
.bar { display: flex; height: 1.5rem; margin: 1rem 0 0.5rem; }
.bar span { display: block; }
.key { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; list-style: none; padding: 0; }
.key span { display: inline-block; width: 0.8rem; height: 0.8rem; margin-right: 0.4rem; }
.used { background: #2a7f62; } .idle { background: #b9c0c7; } .unknown { background: #8a6d3b; }
.start_up { background: #7fb3d5; } .checkpoint { background: #2c6fa6; }
.stalled { background: #e0a030; } .lost { background: #c0392b; } .repair { background: #8e5ea2; }
.down { background: #4d4d4d; }
"""
MAX_NODES = 40  # rows of nodes for people; JSON has all


class Table(NamedTuple):
    """``note`` stands above it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables(report: Report) -> Iterator[Table]:
    """Those that have rows."""
    every = (
        _causes(report),
        *(_grouped(report, name) for name in GROUPS),
        *_reliability(report),
        _lemons(report),
        Table(
            "Repairs that helped",
            ("act", "helped", "of"),
            [(what, str(helped), str(of)) for what, (helped, of) in report.helped.items()],
        ),
        *_accounting(report),
    )
    return (table for table in every if table.rows)


def _causes(report: Report) -> Table:
    total = report.total or 1.0
    rows = [
        (cause, f"{hours:,.1f}", f"{hours / total:.2%}", MEANING[cause])
        for cause, hours in report.hours.items()
    ]
    rows.append(
        ("total", f"{report.total:,.1f}", f"{report.total / total:.2%}", "wall time x GPUs")
    )
    return Table("GPU-hours by cause", ("cause", "GPU-hours", "share", "meaning"), rows)


def _grouped(report: Report, name: str) -> Table:
    """Causes that nobody had any time of are left out."""
    groups = report.groups[name]
    causes = [cause for cause in CAUSES if any(row.get(cause) for row in groups.values())]
    rows = [
        (
            key or NONE[name],
            *(f"{row.get(cause, 0.0):,.1f}" for cause in causes),
            f"{sum(row.values()):,.1f}",
        )
        for key, row in groups.items()
    ]
    return Table(f"GPU-hours by {name}", (name, *causes, "total"), rows)


def _reliability(report: Report) -> Iterator[Table]:
    yield Table(
        "GPU-hours in service per failure",
        ("fault", "failures", "estimate", "95 % interval"),
        [(fault, *_failures(found)) for fault, found in report.reliability.items()],
    )
    heads = ("failures", "GPU-hours each", "95 % interval", "repairs", "median", "95 % interval")
    yield Table(
        "Failures and repairs by part",
        ("part", *heads),
        [
            (part, *_failures(found.failures), *_repairs(found.repairs))
            for part, found in report.parts.items()
        ],
        "Failures are incidents that page, about this kind of device. A repair that still lasts "
        "counts for as long as it has.",
    )
    rows = [
        (node, f"{one.availability:.2%}", *_failures(one.failures), *_repairs(one.repairs))
        for node, one in report.by_node.items()
    ]
    more = f"{len(rows)} nodes, the {MAX_NODES} least available; the JSON form has all."
    yield Table(
        "Failures and repairs by node",
        ("node", "available", *heads),
        rows[:MAX_NODES],
        more if len(rows) > MAX_NODES else "",
    )


def _lemons(report: Report) -> Table:
    return Table(
        "Nodes that fail more often than chance",
        ("node", "failures", "expected", "probability"),
        [
            (one.host, str(one.failures), f"{one.expected:.2f}", f"{one.chance:.1e}")
            for one in report.lemons
        ],
    )


def _accounting(report: Report) -> Iterator[Table]:
    """Beside the accounting what agents saw of the same teams: where they differ much, jobs have no
    agent, or the accounting lacks their ends.
    """
    seen = {team: sum(row.values()) for team, row in report.groups["team"].items()}
    yield Table(
        "GPU-hours as Slurm accounts for them",
        ("account", "runs", "accounted", "seen by agents"),
        [
            (name, str(one.runs), f"{one.gpu_hours:,.1f}", f"{seen.get(name, 0.0):,.1f}")
            for name, one in report.accounts.items()
        ],
    )
    yield Table(
        "How runs of jobs ended",
        ("state", "runs", "GPU-hours"),
        [(name, str(one.runs), f"{one.gpu_hours:,.1f}") for name, one in report.ends.items()],
    )


def lines(report: Report) -> list[str]:
    """What the tables do not have, a sentence each."""
    kept = "met" if report.availability >= report.target else "missed"
    span = f"{report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC"
    what = f"{report.nodes} nodes, {report.gpus} GPUs, {report.total:,.1f} GPU-hours"
    total, used = report.total or 1.0, report.hours["used"]
    count, estimate, low_high = _repairs(report.repairs)
    allocated = f"{report.allocated:,.1f} GPU-hours ({report.allocated / total:.1%})"
    return [
        f"{span}: {what}.",
        f"Allocated to jobs {allocated}, used {used:,.1f} ({used / total:.1%}).",
        f"Availability {report.availability:.3%}, target {report.target:.3%}: {kept}.",
        f"Repairs: {count}, median {estimate} (95 % interval {low_high}).",
        *report.notes,
    ]


def as_text(report: Report) -> str:
    """Aligned columns."""
    parts = [*lines(report), ""]
    for table in tables(report):
        note = [table.note] if table.note else []
        parts += [table.title, *_aligned([table.heads, *table.rows]), *note, ""]
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
    shares = [(cause, hours / total) for cause, hours in report.hours.items() if hours > 0]
    bar = "".join(
        f'<span class="{cause}" style="width:{share:.4%}" title="{cause} {share:.1%}"></span>'
        for cause, share in shares
    )
    key = "".join(
        f'<li><span class="{cause}"></span>{cause.replace("_", " ")} {share:.1%}</li>'
        for cause, share in shares
    )
    body = "".join(f"<p>{escape(line)}</p>" for line in lines(report))
    for table in tables(report):
        note = f"<p>{escape(table.note)}</p>" if table.note else ""
        body += f"<h2>{escape(table.title)}</h2>{note}{_table(table.heads, table.rows)}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>GPU time</title>'
        f'<style>{STYLE}</style></head><body><h1>GPU time</h1><div class="bar">{bar}</div>'
        f'<ul class="key">{key}</ul>{body}</body></html>\n'
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Words are on the left, numbers on the right."""
    words = [
        all(not cell[:1].isdigit() for cell in column if cell not in ABSENT)
        for column in zip(*rows, strict=True)
    ]
    names = ["words" if of_words else "" for of_words in words]
    head = "".join(
        f'<th class="{name}">{escape(one.replace("_", " "))}</th>'
        for one, name in zip(heads, names, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{name}">{escape(cell)}</td>' for cell, name in zip(row, names, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inside}</table></div>'


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *rest = widths
    return [
        "  ".join((row[0].ljust(first), *(c.rjust(w) for c, w in zip(row[1:], rest, strict=True))))
        for row in rows
    ]


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(DANGEROUS) else text


def _failures(found: Mtbf) -> tuple[str, str, str]:
    return str(found.failures), _hours(found.estimate), _interval(found.low, found.high)


def _repairs(found: Median) -> tuple[str, str, str]:
    """Of none there is no median."""
    if not found.of:
        return "0", NOTHING, NOTHING
    return str(found.of), _hours(found.estimate), _interval(found.low, found.high)


def _hours(value: float) -> str:
    return NOT_SEEN if value == float("inf") else f"{value:,.1f} h"


def _interval(low: float, high: float) -> str:
    """To three digits: a repair takes hours, a failure thousands.

    >>> _interval(0.5, 1234.5), _interval(12.25, float("inf"))
    ('0.50 to 1,234 h', '12.2 h or more')
    """
    if low == float("inf"):
        return NOT_SEEN
    return (
        f"{_digits(low)} h or more"
        if high == float("inf")
        else f"{_digits(low)} to {_digits(high)} h"
    )


def _digits(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"

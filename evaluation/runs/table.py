"""The report as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collector.cli.terminal import table
from pipeline.text_table import Row


def tables(report: Mapping[str, Any]) -> Iterator[str]:
    """Lines: faults, healthy months, classes side by side, summary."""
    yield from _grid(
        (
            "scope",
            "candidate",
            "scenario",
            "magnitude",
            "cases",
            "recall",
            "95 %",
            "p50",
            "p90",
            "p99",
            "top-1",
            "class",
            "dup",
            "flaps",
            "stray pages+tickets",
        ),
        [_fault(row) for row in report["scenarios"]],
    )
    yield "\n"
    yield from _grid(
        (
            "scope",
            "candidate",
            "healthy",
            "GPU-months",
            "pages",
            "per GPU-month",
            "95 %",
            "tickets",
            "per GPU-month",
            "95 %",
        ),
        [
            _healthy(row["scope"], row["contestant"], row["scenario"], row)
            for row in report["healthy"]
        ],
    )
    for scope, summary in report["summary"].items():
        yield "\n"
        yield from side_by_side(scope, summary)


def side_by_side(scope: str, summary: Mapping[str, Any]) -> Iterator[str]:
    """One table of all classes: recall of each candidate, and its false alarms in all."""
    who = {**({"ours": summary} if "recall_by_class" in summary else {}), **summary["baselines"]}
    classes = sorted({fault for figures in who.values() for fault in figures["recall_by_class"]})
    rows = []
    for name, figures in who.items():
        false = figures["false_alarms"]
        cells = [_share(figures["recall_by_class"].get(fault)) for fault in classes]
        rates = [_rate(false[severity]["of_all"]) for severity in ("pages", "tickets")]
        rows.append((scope, name, *rates, *cells))
    yield from _grid(
        ("scope", "candidate", "false pages per GPU-month", "false tickets", *classes), rows
    )


def _fault(row: Mapping[str, Any]) -> Row:
    recall, delay, attribution = row["recall"], row["delay_s"], row["attribution"]
    return (
        row["scope"],
        row["contestant"],
        row["scenario"],
        row["magnitude"],
        str(row["cases"]),
        _number(recall["value"]),
        f"{recall['low95']:.2f}-{recall['high95']:.2f}",
        *(_seconds(delay[name]) for name in ("p50", "p90", "p99")),
        _number(attribution["top1"]["value"]),
        _number(row["class"]["value"]),
        _number(row["duplicates_per_incident"]),
        _number(row["flaps_per_incident"]),
        f"{row['stray_pages']}+{row['stray_tickets']}",
    )


def _healthy(scope: str, candidate: str, scenario: str, row: Mapping[str, Any]) -> Row:
    cells = []
    for severity in ("pages", "tickets"):
        rate = row[severity]["per_gpu_month"]
        cells += [
            str(rate["count"]),
            _small(rate["rate"]),
            f"{_small(rate['low95'])}-{_small(rate['high95'])}",
        ]
    return (scope, candidate, scenario, f"{row['gpu_months']:.1f}", *cells)


def _grid(head: Row, rows: Sequence[Row]) -> Iterator[str]:
    """The first four columns are names, the others numbers."""
    return table(head, rows, [i >= 4 for i in range(len(head))]) if rows else iter(())


def _share(share: Mapping[str, Any] | None) -> str:
    return (
        "-"
        if share is None or share["value"] is None
        else f"{share['value']:.2f} ({share['low95']:.2f}-{share['high95']:.2f})"
    )


def _rate(rate: Mapping[str, Any]) -> str:
    return (
        "-"
        if rate["rate"] is None
        else f"{_small(rate['rate'])} ({_small(rate['low95'])}-{_small(rate['high95'])})"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"

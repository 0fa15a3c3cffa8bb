"""A backtest as a document: sections of words and tables, for JSON, Markdown and HTML alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from history.backtest.figures import BUDGET, OfDetector, by_detector, candidates, figures, proves
from history.backtest.judged import Alert, History
from history.backtest.known import Known, explained, matches
from pipeline.clock import SECOND_NS
from pipeline.documents import printable

COUNTED = (
    "Counted is the detector with the first evidence of an alert. The interval is of pages per "
    "GPU-month, 95 %, whether they were right or not."
)
LACKING = (
    "Columns and sources of detectors that the history does not have: those find less, or nothing. "
    "Logs, processes and NCCL's state are in no exporter's history, and states shorter than a "
    "scrape's interval are not seen."
)
MAX_ALERTS = 500  # shown; all of them are in the JSON form
Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its heads. ``alerts`` are those of the rows, in their order, where a row is
    about one.
    """

    heads: Cells
    rows: tuple[Cells, ...]
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: its title, sentences, and a table."""

    title: str
    sentences: tuple[str, ...]
    table: Table | None = None


def sections(history: History, known: Sequence[Known] | None) -> list[Section]:
    """The report of a history; ``known`` is None where nothing is known of the site."""
    found = by_detector(history, known)
    parts = [
        Section("What would have alerted", tuple(_summary(history, known))),
        Section(
            "By detector",
            (COUNTED,),
            _detectors(found, known is not None),
        ),
    ]
    if known is not None:
        parts.append(_known(history, known))
    parts.append(_alerts(history, known))
    parts.append(_not_judged(found))
    parts.append(Section("Configuration", tuple(_configuration(history, found))))
    return parts


def _summary(history: History, known: Sequence[Known] | None) -> Iterator[str]:
    yield (
        f"{len(history.nodes)} nodes and {len(history.gpus)} GPUs, from {_time(history.begin_ns)} "
        f"to {_time(history.end_ns)}: {history.gpu_months:.2f} GPU-months watched."
    )
    for words, alerts in (
        ("As installed", [alert for alert in history.alerts if alert.installed]),
        ("With every detector allowed to alert", history.alerts),
    ):
        all_of_it = figures(alerts, history.gpu_months, known, history.end_ns)
        line = f"{words}: {_count(all_of_it.pages, 'page')}, {_count(all_of_it.tickets, 'ticket')}"
        if all_of_it.known is not None and alerts:
            low, high = all_of_it.share_interval
            line += (
                f"; the site knew a fault of the node for {all_of_it.known} of {len(alerts)} "
                f"({low:.0%} to {high:.0%})"
            )
        yield line + "."
    yield (
        f"So much history without a page would rule out more than {proves(history.gpu_months):.4f} "
        f"pages per GPU-month; the budget of false pages is {BUDGET}."
    )


def _detectors(found: Sequence[OfDetector], is_known: bool) -> Table:
    heads = ("detector", "as installed", "pages", "tickets", "pages per GPU-month, 95 %")
    rows = []
    for one in found:
        if not one.is_judged:
            continue
        low, high = one.figures.rate_interval
        cells = (
            one.name,
            "alerts" if one.installed else "shadow",
            str(one.figures.pages),
            str(one.figures.tickets),
            f"{low:.4f} to {high:.4f}",
        )
        rows.append((*cells, str(one.figures.known)) if is_known else cells)
    return Table((*heads, "known to the site") if is_known else heads, tuple(rows))


def _known(history: History, known: Sequence[Known]) -> Section:
    within = [
        one
        for one in known
        if history.begin_ns <= one.opened_ns <= history.end_ns and one.node in history.nodes
    ]
    found = matches(within, history.alerts, history.end_ns)
    first = [one for one in found if one.alert is not None]
    sentence = (
        f"An alert is there for {len(first)} of {len(found)} faults that the site knew on these "
        f"nodes in this time; {len(known) - len(within)} others lie outside."
    )
    rows = tuple(
        (
            _time(one.known.opened_ns),
            printable(one.known.node),
            printable(one.known.cause),
            printable(one.alert.incident.fault) if one.alert else "none",
            "" if one.lead_s is None else _lead(one.lead_s),
        )
        for one in found
    )
    heads = ("opened by the site", "node", "cause", "alert", "lead")
    return Section("Faults that the site knew", (sentence,), Table(heads, rows))


def _alerts(history: History, known: Sequence[Known] | None) -> Section:
    order = {"page": 0, "ticket": 1}
    alerts = sorted(history.alerts, key=lambda one: (order[one.severity], one.incident.opened_ns))
    shown = tuple(alerts[:MAX_ALERTS])
    classes = Counter(alert.incident.fault for alert in alerts)
    sentences = [f"{printable(fault)}: {count}" for fault, count in classes.most_common()]
    if len(alerts) > len(shown):
        sentences.append(f"The first {len(shown)} of {len(alerts)}; all are in the JSON form.")
    rows = tuple(
        (
            _time(one.incident.opened_ns),
            f"{one.severity}{'' if one.installed else ' (shadow)'}",
            printable(one.incident.root.host),
            printable(f"{one.incident.root.kind} {one.incident.root.id}"),
            printable(one.incident.fault),
            ", ".join(one.detectors),
            printable(one.incident.summary),
            *(() if known is None else ("yes" if explained(one, known, history.end_ns) else "no",)),
        )
        for one in shown
    )
    heads: Cells = ("opened", "severity", "node", "device", "class", "detectors", "summary")
    heads += () if known is None else ("known",)
    return Section("Alerts", tuple(sentences), Table(heads, rows, shown))


def _not_judged(found: Sequence[OfDetector]) -> Section:
    rows = tuple(
        (one.name, "yes" if one.is_judged else "no", ", ".join(one.lacks))
        for one in found
        if one.lacks
    )
    return Section(
        "What the history lacks",
        (LACKING,),
        Table(("detector", "counted", "lacks"), rows),
    )


def _configuration(history: History, found: Sequence[OfDetector]) -> Iterator[str]:
    names = candidates(found)
    if names:
        yield (
            f"{', '.join(names)}: in shadow mode, and on this history within the budget of pages. "
            f"To let them alert: detectors.off_trial: [{', '.join(names)}]"
        )
    elif proves(history.gpu_months) > BUDGET:
        yield (
            "This history is too short to show that any detector meets the budget: it takes "
            f"{proves(1.0) / BUDGET:.0f} GPU-months without a page."
        )
    else:
        yield "No detector in shadow mode is shown to be within the budget of pages."


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns // SECOND_NS, UTC).strftime("%Y-%m-%d %H:%M")


def _lead(seconds: float) -> str:
    hours = abs(seconds) / 3600
    size = f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"
    return f"{size} {'before' if seconds >= 0 else 'after'}"


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"

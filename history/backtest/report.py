"""A backtest as a document: sections of words and tables, for JSON, Markdown and HTML alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import floor

from history.backtest.configuration import Proposal
from history.backtest.figures import (
    BUDGET,
    Figures,
    OfDetector,
    by_detector,
    figures,
    proves,
    recall,
    unplanned,
)
from history.backtest.judged import Alert, History
from history.backtest.known import EARLY_NS, Known
from history.backtest.truths import Fault, is_explained
from history.backtest.words import count, day, device_name, duration, interval, lead, moment, rate
from history.backtest.words import time_of as at
from history.importing import Imported
from pipeline.documents import printable

COUNTED = (
    "An alert counts for the detector with the first evidence. Shadow: recorded, not sent, as "
    "installed. Unknown pages are those of which the site knew no fault; their rate per GPU-month "
    "and all shares have exact 95 % intervals. What the site knew is of nodes: precision is that "
    "of alerts about a node or its devices."
)
NOT_JUDGED = (
    "These detectors need readings that the history does not have, at least on some nodes or for "
    "a part of what they judge. They found nothing there because they were not asked. Kernel logs "
    "are read where they are given (--kernel-log, --loki); NCCL and processes are in no exporter's "
    "series, and what is shorter than the time between two scrapes is not seen."
)
MATCHED = (
    "An alert belongs to a fault of its node from a day before the site's first entry to its end. "
    "Entries of a node within a day are one fault. Lead: from the alert to the site's first entry; "
    "entries are made late and name a first guess."
)
RULES = (
    "What the site's own rules alerted on, beside what the site then did. A rule is no truth: a "
    "drain that follows it is."
)
MAX_ROWS = 500  # shown; all alerts are in the JSON form
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
    """A part of a report: its title, sentences, and a table; ``tiles`` are figures to be seen
    first, each with its words; ``code`` is a file's text.
    """

    title: str
    sentences: tuple[str, ...]
    table: Table | None = None
    tiles: tuple[tuple[str, str], ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Backtest:
    """A judged history, what the site knew of it (None: nothing was given), what its own rules
    alerted on, the configuration that follows, and what the import asked for.
    """

    history: History
    faults: list[Fault] | None
    rules: list[Known] = field(default_factory=list)
    proposal: Proposal | None = None
    imported: Imported | None = None


def sections(made: Backtest) -> list[Section]:
    """The report of a history."""
    history, known = made.history, made.faults
    if not history.nodes:
        return [_nothing(made), _not_judged(by_detector(history, known))]
    found = by_detector(history, known)
    parts = [_summary(made), Section("By detector", (COUNTED,), _detectors(found, known))]
    if known is not None:
        parts.append(_known(history, known))
    if made.rules:
        parts.append(_rules(made))
    parts += [_alerts(history, known), _not_judged(found)]
    if made.proposal:
        parts.append(_configuration(made, made.proposal))
    return parts


def _nothing(made: Backtest) -> Section:
    return Section("Summary", ("Nothing could be judged.", *_covered(made)))


def _covered(made: Backtest) -> Iterator[str]:
    """How much of what was asked for has readings."""
    history, asked = made.history, made.imported
    if asked is None:
        return
    span_ns = (asked.end_ns - asked.begin_ns) * len(history.gpus)
    share = floor(100 * min(history.gpu_ns / span_ns, 1.0)) if span_ns else 0
    yield (
        f"The import covers {at(asked.begin_ns)} to {at(asked.end_ns)} UTC. The GPUs that it found "
        f"have readings for {share} % of that; the rest was not judged."
    )
    if asked.blanks:
        yield (
            f"{asked.blanks:,} samples had no value (NaN or stale markers). What they are of was "
            "not judged then."
        )


def _summary(made: Backtest) -> Section:
    history, known = made.history, made.faults
    installed = [alert for alert in history.alerts if alert.installed]
    shipped = figures(installed, history.gpu_months, known, history.end_ns)
    every = figures(history.alerts, history.gpu_months, known, history.end_ns)
    tiles = [
        (f"{shipped.pages}", f"pages in {day(history.days)} as installed"),
        (f"{shipped.unknown}", "of them without a fault that the site knew"),
    ]
    fleet = f"{count(len(history.nodes), 'node')} with {count(len(history.gpus), 'GPU')}"
    watched = (
        f"{fleet}, {at(history.begin_ns)} to {at(history.end_ns)} UTC: "
        f"{history.gpu_months:.1f} GPU-months."
    )
    sentences = [
        watched,
        f"As installed Tocsin would have sent {_sent(shipped)}.",
        f"With every detector allowed to alert: {_sent(every)}.",
    ]
    sentences[1:1] = _covered(made)
    if history.judgeable:
        able = sum(one.is_judged for one in history.judgeable)
        sentences.insert(
            1,
            f"{able} of {count(len(history.judgeable), 'detector')} could judge it; what the "
            "others need is under Not judged.",
        )
    if known is not None:
        found = unplanned(known, history.alerts, history.end_ns)
        of_faults = recall(found)
        tiles.insert(0, (f"{of_faults.found} of {of_faults.faults}", "faults had an alert"))
        if of_faults.leads_s:
            tiles.insert(1, (duration(of_faults.leads_s[1]), _before(of_faults.leads_s[1])))
        sentences += _beside(history, known, every)
    sentences += _proof(history, shipped, known is not None)
    return Section("Summary", tuple(sentences), tiles=tuple(tiles))


def _sent(one: Figures) -> str:
    return f"{count(one.pages, 'page')} and {count(one.tickets, 'ticket')}"


def _before(seconds: float) -> str:
    return f"median lead {'before' if seconds >= 0 else 'behind'} the site's own entry"


def _beside(history: History, known: Sequence[Fault], every: Figures) -> Iterator[str]:
    of_faults = recall(unplanned(known, history.alerts, history.end_ns))
    planned = len(known) - of_faults.faults
    yield (
        f"The site knew {count(of_faults.faults, 'fault')} ({planned} more were planned work and "
        f"are left out), and {of_faults.found} of them had an alert: a recall of "
        f"{interval(of_faults.interval)}, with 95 % confidence."
    )
    if every.right is not None and every.comparable:
        yield (
            f"Of {count(every.comparable, 'alert')} about nodes, {every.right} are about a fault "
            f"that the site knew: a precision of {interval(every.precision_interval)}, if it knew "
            "them all."
        )
    if jobs := len(history.alerts) - every.comparable:
        yield (
            f"{count(jobs, 'alert')} about a job alone cannot be held against that: what the site "
            "knew is of nodes."
        )


def _proof(history: History, shipped: Figures, is_known: bool) -> Iterator[str]:
    low, high = shipped.rate_interval
    which = "Pages of which the site knew no fault" if is_known else "Pages"
    yield (
        f"{which}: {shipped.unknown}, which is {rate(low)} to {rate(high)} per GPU-month. The "
        f"budget of false pages is {BUDGET} for all detectors together."
    )
    least = proves(history.gpu_months)
    wanted = proves(1.0) / BUDGET
    if least > BUDGET:
        yield (
            f"This history cannot prove that budget: without a single false page it would show at "
            f"most {rate(least)} per GPU-month. It takes {wanted:.0f} GPU-months without one, "
            f"{wanted / max(len(history.gpus), 1):.1f} months of these GPUs."
        )
    else:
        yield (
            f"This history is long enough to prove that budget: without a false page it shows at "
            f"most {rate(least)} per GPU-month."
        )


def _detectors(found: Sequence[OfDetector], known: Sequence[Fault] | None) -> Table:
    heads: Cells = (
        "detector",
        "mode",
        "pages",
        "tickets",
        "unknown pages",
        "unknown per GPU-month",
    )
    rows = []
    for one in found:
        if not one.judgeable.is_judged and not (one.figures.pages or one.figures.tickets):
            continue
        low, high = one.figures.rate_interval
        cells: Cells = (
            one.name,
            "alerts" if one.installed else "shadow",
            str(one.figures.pages),
            str(one.figures.tickets),
            str(one.figures.unknown),
            f"{rate(low)} to {rate(high)}",
        )
        if known is not None:
            comparable = one.figures.comparable
            share = interval(one.figures.precision_interval) if comparable else "no data"
            cells += (f"{one.figures.right} of {comparable}", share)
        rows.append(cells)
    heads += ("known to the site", "precision") if known is not None else ()
    return Table(heads, tuple(rows))


def _known(history: History, known: Sequence[Fault]) -> Section:
    found = unplanned(known, history.alerts, history.end_ns)
    of_faults = recall(found)
    sentences = [MATCHED]
    if of_faults.leads_s:
        low, middle, high = of_faults.leads_s
        sentences.append(
            f"Lead: half of the alerts came {lead(middle)} or earlier; a quarter {lead(high)} or "
            f"earlier, a quarter {lead(low)} or later."
        )
    rows = tuple(
        (
            at(one.fault.opened_ns),
            printable(one.fault.node),
            ", ".join(one.fault.sources),
            printable(one.fault.cause),
            printable(one.alert.incident.fault) if one.alert else "no alert",
            "" if one.lead_s is None else lead(one.lead_s),
        )
        for one in found[:MAX_ROWS]
    )
    heads = ("known since", "node", "from", "cause", "alert", "lead")
    return Section("Faults that the site knew", tuple(sentences), Table(heads, rows))


def _rules(made: Backtest) -> Section:
    history, known = made.history, made.faults or []
    by_name: dict[str, list[Known]] = {}
    for one in made.rules:
        by_name.setdefault(one.cause, []).append(one)
    rows = []
    for name, fired in sorted(by_name.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        right = sum(_near(one, known, history) for one in fired)
        ours = sum(_had_ours(one, history) for one in fired)
        nodes = len({one.node for one in fired})
        rows.append((printable(name), *map(str, (len(fired), nodes, right, ours))))
    heads = ("rule", "fired", "nodes", "beside a fault that the site knew", "beside an alert here")
    return Section("The site's own rules", (RULES,), Table(heads, tuple(rows)))


def _near(one: Known, known: Sequence[Fault], history: History) -> bool:
    return any(
        fault.node == one.node
        and fault.opened_ns - EARLY_NS
        <= one.opened_ns
        <= max(entry.closed_ns or history.end_ns for entry in fault.entries)
        for fault in known
    )


def _had_ours(one: Known, history: History) -> bool:
    until = one.closed_ns or history.end_ns
    return any(
        alert.incident.root.host == one.node
        and one.opened_ns - EARLY_NS <= alert.incident.opened_ns <= until
        for alert in history.alerts
    )


def _alerts(history: History, known: Sequence[Fault] | None) -> Section:
    order = {"page": 0, "ticket": 1}
    alerts = sorted(history.alerts, key=lambda one: (order[one.severity], one.incident.opened_ns))
    shown = tuple(alerts[:MAX_ROWS])
    classes = Counter(alert.incident.fault for alert in alerts)
    named = ", ".join(f"{printable(fault)} {number}" for fault, number in classes.most_common())
    sentences = [f"By class: {named}."] if named else ["None."]
    if len(alerts) > len(shown):
        sentences.append(f"The first {len(shown)} of {len(alerts)}; all are in the JSON form.")
    rows = tuple(
        (
            at(one.incident.opened_ns),
            f"{one.severity}{'' if one.installed else ' (shadow)'}",
            printable(one.incident.root.host),
            printable(device_name(one.incident.root)),
            printable(one.incident.summary),
            ", ".join(one.detectors),
            *(() if known is None else (_is_known(one, known, history.end_ns),)),
        )
        for one in shown
    )
    heads: Cells = ("opened", "severity", "node", "device", "what", "detectors")
    heads += () if known is None else ("known",)
    return Section("Alerts", tuple(sentences), Table(heads, rows, shown))


def _is_known(alert: Alert, known: Sequence[Fault], end_ns: int) -> str:
    if not alert.incident.root.host:
        return "of no node"
    return "yes" if is_explained(alert, known, end_ns) else "no"


def _not_judged(found: Sequence[OfDetector]) -> Section:
    rows = tuple(
        (one.name, one.judgeable.words)
        for one in found
        if one.judgeable.lacks or one.judgeable.unseen
    )
    return Section("Not judged", (NOT_JUDGED,), Table(("detector", "why"), rows))


def _configuration(made: Backtest, proposal: Proposal) -> Section:
    split = moment(proposal.split_ns)
    sentences = [f"Chosen on the time up to {split}; what is said of later was not used to choose."]
    if proposal.enable:
        sentences.append(
            f"{_listed(proposal.enable)}: within the budget of {BUDGET} false pages per GPU-month, "
            f"by the upper 95 % bound; enable them. Since {split} they would have sent "
            f"{count(proposal.pages, 'page')}, {proposal.unknown} of them without a fault that "
            "the site knew."
        )
    elif proves(made.history.gpu_months * 2 / 3) > BUDGET:
        sentences.append(
            "No detector can be shown to be within the budget on so short a history: leave those "
            "in shadow mode there, and label their findings (tocsin label)."
        )
    else:
        sentences.append("No detector in shadow mode is shown to be within the budget.")
    if proposal.disable:
        sentences.append(
            f"{_listed(proposal.disable)}: beyond the budget by the lower 95 % bound, as far as "
            "the site knows; disable paging until the cause is found."
        )
    changes = proposal.enable or proposal.disable
    text = proposal.text("From tocsin backtest; see the report for the reasons.")
    return Section("Configuration", tuple(sentences), code=text if changes else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))

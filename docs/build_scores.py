"""Writes the tables of docs/scores.md from docs/scores.json (`make docs`). The text stays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import floor
from pathlib import Path
from typing import Any

from detectors.paging import PROVED
from evaluation.runs.by_detector import ALERTS, SHADOW
from evaluation.runs.report import SAME_RUNS
from evaluation.runs.run import OURS, SHIPPED

DOCS = Path(__file__).resolve().parent
TARGET, SCORES = DOCS / "scores.md", DOCS / "scores.json"
LEARNT = DOCS / "learning.json"
INSTALLED = DOCS / "installed.json"  # horizon node, which ships
# Faults that a driver, a register or a counter reports; the others show in statistics.
DETERMINISTIC = (
    "F02",
    "F03",
    "F04",
    "F05",
    "F06",
    "F07",
    "F08",
    "F09",
    "F13",
    "F14",
    "F15",
    "F18",
    "F22",
    "F23",
    "F28",
    "F29",
    *(f"F{number}" for number in range(33, 47)),
)
CASES, MIN_RECALL = 200, 0.9
BUDGET = 0.02  # false tickets per GPU-month: what the design allows
FLEETS = {"infinite_hbd": "InfiniteHBD", "llama_3": "Llama 3"}
# Causes of misses in results that were saved with older texts, and as the page shows them.
CAUSES = {
    "told within another's incident": "merged into another incident",
    "all of it had been told before": "already open before the fault",
    "its signs had been told, and it was not told apart": "its early signs only",
    "a neighbour was blamed": "wrong device",
    "told under another class": "wrong class",
    "only its symptoms were told": "its symptoms only",
    "nothing was said, or not loudly enough": "no finding, or severity too low",
}
Row = Sequence[object]


def scores() -> str:
    """The page with its tables written again."""
    learnt = json.loads(LEARNT.read_bytes()) if LEARNT.exists() else {}
    report = json.loads(SCORES.read_bytes()) | {"learning": learnt}
    report |= {"installed": json.loads(INSTALLED.read_bytes())}
    text = TARGET.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        head, _, rest = text.partition(begin)
        text = (
            head
            + begin
            + "".join(f"{line}\n" for line in make(report))
            + end
            + rest.partition(end)[2]
        )
    return text


def _installed(report: Mapping[str, Any]) -> Iterator[str]:
    """Agents alone, as they are installed, and with all detectors paging: what ships."""
    node = report["installed"]["summary"].get("node")
    if node is None:
        yield "No results of agents alone."
        return
    yield from _run_of(report["installed"]["about"])
    installed = node["as_shipped"]
    yield from _table(
        ("Figure", "Default configuration", "All detectors page"),
        [
            (
                "healthy GPU-months",
                *(f"{part['healthy_gpu_months']:,.1f}" for part in (installed, node)),
            ),
            *(
                (f"false {what} per GPU-month", *(_false(part, what) for part in (installed, node)))
                for what in ("pages", "tickets")
            ),
            *(
                (f"{name}, in time", *(_in_time(part, name) for part in (installed, node)))
                for name in node["recall_by_class"]
            ),
        ],
    )


def _run_of(about: Mapping[str, Any]) -> Iterator[str]:
    """Which runs the figures are of, where they are of one call."""
    if "runs" in about:
        yield (
            f"{about['runs']['in_all']} runs of commit {about['commit']}, seeds "
            f"{about['seeds'][0]} to {about['seeds'][-1]} of {about['suite']}, "
            f"{about['cpu_hours']:g} CPU hours."
        )
        yield ""


def _released(report: Mapping[str, Any]) -> Iterator[str]:
    """Which detectors the result lets alert, beside what ships."""
    rows = report["installed"].get("detectors", ())
    if not rows:
        yield "Not scored yet."
        return
    yield from _table(
        ("Detector", "Scenarios", "In time", "At least", "False pages, at most a GPU-month",
         "False tickets, at most a GPU-month", "Decision", "Lacking", "Default"),
        (
            (row["detector"], ", ".join(row["scenarios"]) or "-",
             f"{row['recall']['hits']}/{row['recall']['of']}",
             _down(row["recall"]["low95"]) if row["recall"]["of"] else "-",
             _false_of(row["false_pages"]), _false_of(row["false_tickets"]), row["decision"],
             "; ".join(row["lacking"]) or "-",
             ALERTS if row["detector"] in PROVED else SHADOW)
            for row in rows
        ),
    )  # fmt: skip


def _false_of(rate: Mapping[str, Any]) -> str:
    return f"{rate['count']}; {rate['high95']:.2g}" if rate["rate"] is not None else "-"


def _false(part: Mapping[str, Any], what: str) -> str:
    rate = part["false_alarms"][what]["of_all"]
    return f"{rate['count']}; at most {rate['high95']:.2g}" if rate["rate"] is not None else "-"


def _in_time(part: Mapping[str, Any], name: str) -> str:
    found = part["recall_by_class"].get(name)
    return f"{found['hits']}/{found['of']}, at least {_down(found['low95'])}" if found else "-"


def _goals(report: Mapping[str, Any]) -> Iterator[str]:
    """The goals set before the detectors were written, and the results: all paging, and default."""
    fleet = report["summary"]["fleet"]
    better = ", ".join(f"{one['baseline']} in {one['class']}" for one in fleet["better_baselines"])
    wanted = (
        "no false page in 2,000 healthy GPU-months",
        "all deterministic faults found by their deadline",
        f"recall of each class at least {MIN_RECALL} (lower 95 % bound)",
        f"at least {CASES} cases of each class",
        "stragglers of 10 % within 6 min, p90 (F16)",
        "hangs from telemetry alone within 5 min, p99 (F25)",
        "correct device first in 0.95 of the faults found in time",
        "a restart does not change the findings",
        "page-level faults found in time",
        (
            "precision of pages at the fault rates of published fleets (at the upper "
            "bound of false pages)"
        ),
        "no baseline has more recall and fewer false alarms in any class",
    )
    ours = [*_answers(report, fleet, OURS), better or "none has, in the same runs"]
    shipped = [*_answers(report, fleet["as_shipped"], SHIPPED), "-"]
    yield from _table(
        ("Goal", "All detectors page", "Default configuration"),
        zip(wanted, ours, shipped, strict=True),
    )


def _answers(report: Mapping[str, Any], part: Mapping[str, Any], who: str) -> Iterator[str]:
    rows = [
        row
        for row in report["scenarios"]
        if _run(row)[1:] == ("nominal", "fleet") and row["contestant"] == who
    ]
    nominal = {row["scenario"]: row["recall"] for row in rows}
    pages, months, classes = (
        part["false_alarms"]["pages"]["of_all"],
        part["healthy_gpu_months"],
        part["recall_by_class"],
    )
    short = {name: found for name, found in classes.items() if found["of"] < CASES}
    weak = {name: found for name, found in classes.items() if found["low95"] < MIN_RECALL}
    blame, all_faults = part["intervals"]["attribution_top1"], part["intervals"]["recall_critical"]
    yield f"{part['false_pages']} in {months:,.0f}" + (
        f"; at most {pages['high95']:.2g} per GPU-month (exact, 95 %)" if months else ""
    )
    yield _all_but({name: nominal[name] for name in DETERMINISTIC if name in nominal})
    yield f"all but {_counts(weak)}" if weak else "all scored classes"
    yield f"fewer for {_counts(short)}" if short else "all classes"
    others = part["delay_by_class"].get("straggler", {}).get("p90_s")
    more = (
        f"; with F17, F27 and F32 (deadlines of 10 min to 3 h) {_seconds(others)}"
        if others is not None
        else ""
    )
    yield f"{_seconds(part['straggler_delay_p90_s'])}{more}"
    hang = part["delay_by_class"].get("hang", {})
    yield (
        f"{_seconds(part['hang_delay_p99_s'])}; with F26 (deadline 10 min) "
        f"{_seconds(hang.get('p99_s'))}"
    )
    yield f"{blame['hits']}/{blame['of']}, {_three(blame['value'])}"
    yield (
        f"{'no change' if part['restart_equivalent'] else 'changes'} in "
        f"{part['restarts']['runs']} runs"
    )
    yield f"{all_faults['hits']}/{all_faults['of']}, {_three(part['recall_critical'])}"
    fleets = part["precision"] if months else {}
    yield (
        ", ".join(
            f"{_part(fleets[name]['precision_at_high95'])} ({words})"
            for name, words in FLEETS.items()
            if name in fleets
        )
        or "-"
    )


def _all_but(found: Mapping[str, Mapping[str, Any]]) -> str:
    missed = {name: share for name, share in found.items() if share["hits"] < share["of"]}
    return f"{len(found) - len(missed)} of {len(found)} scenarios" + (
        f"; missed: {_counts(missed)}" if missed else ""
    )


def _counts(found: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name} ({share['hits']}/{share['of']})" for name, share in found.items())


FAULT_COLUMNS = (
    "Scenario", "Class", "Magnitude", "Scope", "In time", "Lower bound", "Default",
    "Correct device", "Delay p50, p90, p99", "Cleared after, p50", "Not cleared", "Duplicates",
    "Too severe", "GPU-months", "False pages", "False tickets",
)  # fmt: skip


def _faults(report: Mapping[str, Any]) -> Iterator[str]:
    yield from _table(FAULT_COLUMNS, _fault_rows(report))


def _fault_rows(report: Mapping[str, Any]) -> Iterator[Row]:
    shipped = {
        _run(row): row["recall"] for row in report["scenarios"] if row["contestant"] == SHIPPED
    }
    for scope, row in product(("node", "fleet"), report["scenarios"]):
        if row["contestant"] == OURS and row["scope"] == scope:
            yield _fault(row, shipped.get(_run(row)))


def _run(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["scenario"], row["magnitude"], row["scope"]


def _fault(row: Mapping[str, Any], shipped: Mapping[str, Any] | None) -> Row:
    found, blame, delay, clear = (
        row["recall"],
        row["attribution"]["top1"],
        row["delay_s"],
        row["clear_s"],
    )
    return (
        row["scenario"],  ", ".join(row["faults"]), row["magnitude"], row["scope"],
        f"{found['hits']}/{found['of']}", _down(found["low95"]), (
            f"{shipped['hits']}/{shipped['of']}"
        ) if shipped else "-",
        (
            f"{blame['hits']}/{blame['of']}"
        ), ", ".join(_seconds(delay[name]) for name in ("p50", "p90", "p99")),
        _seconds(clear["p50"]), row["not_cleared"], _part(row[(
            "duplicates_per_incident"
        )]), row["too_loud"],
        f"{row['gpu_months']:.0f}", row["stray_pages"], row["stray_tickets"],
    )  # fmt: skip


def _strata(report: Mapping[str, Any]) -> Iterator[str]:
    """Stalls by the duration of the job's checkpoints, which resemble stalls."""
    rows = [row for row in report["strata"] if row["contestant"] == OURS]
    cells = [(row["recall"], row["delay_s"]) for row in rows]
    yield from _table(
        ("Scenario", "Magnitude", "Scope", (
            "Checkpoints up to"
        ), "In time", "Lower bound", "Delay p50, p90"),
        (
            (
                row["scenario"], row["magnitude"], row["scope"], _seconds(row[(
                    "checkpoint_s_at_most"
                )]),
                f"{found['hits']}/{found['of']}", _down(found["low95"]), (
                    f"{_seconds(delay['p50'])}, {_seconds(delay['p90'])}"
                ),
            )
            for row, (found, delay) in zip(rows, cells, strict=True)
        ),
    )  # fmt: skip


def _healthy(report: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        row for row in report["healthy"] if (row["contestant"], row["scope"]) == (OURS, "fleet")
    ]
    counts = [
        (row["gpu_months"], *(row[name]["of_all"]["count"] for name in ("pages", "tickets")))
        for row in rows
    ]
    causes = [
        ", ".join(f"{n} {name}" for name, n in row["tickets"]["by_detector"].items())
        for row in rows
    ]
    lines = [
        (row["scenario"], f"{m:.0f}", p, t, why)
        for row, (m, p, t), why in zip(rows, counts, causes, strict=True)
    ]
    months, pages, tickets = (sum(row[at] for row in counts) for at in range(3))
    yield from _table(
        ("Healthy scenario", "GPU-months", "False pages", "False tickets", "By detector"),
        [*lines, ("total", f"{months:.0f}", pages, tickets, "")],
    )


def _classes(report: Mapping[str, Any]) -> Iterator[str]:
    """Tocsin and every baseline: recall per class, false alarms per class and in total."""
    summary = report["summary"]["fleet"]
    own = {
        "Tocsin, default configuration": summary.get("as_shipped"),
        "Tocsin, in the baselines' runs": summary.get("same_runs"),
    }
    own["Tocsin, each agent alone"] = report["summary"].get("node")
    who = {
        "Tocsin": summary,
        **{name: figures for name, figures in own.items() if figures},
        **summary["baselines"],
    }
    classes = sorted(summary["recall_by_class"])
    rows = []
    for name, figures in who.items():
        false = [
            _rate(figures["false_alarms"][severity]["of_all"]) for severity in ("pages", "tickets")
        ]
        cells = [
            _cell(figures["recall_by_class"].get(c), figures["false_alarms_by_class"].get(c))
            for c in classes
        ]
        rows.append((name, f"{figures['healthy_gpu_months']:.0f}", *false, *cells))
    yield from _table(
        (
            "Candidate",
            "healthy GPU-months",
            "false pages per month",
            "false tickets per month",
            *classes,
        ),
        rows,
    )


def _cell(found: Mapping[str, Any] | None, false: Mapping[str, Any] | None) -> str:
    if found is None or false is None or not found["of"]:
        return "-"
    return (
        f"{found['hits']}/{found['of']} "
        f"({_down(found['low95'])}-{found['high95']:.2f}); {_rate(false)}"
    )


def _budgets(report: Mapping[str, Any]) -> Iterator[str]:
    """Recall of Tocsin and the best baseline at one budget of false alarms,
    each at its best limits.
    """
    curves = [row for row in report["curves"] if row["scope"] == "fleet"]
    found: dict[tuple[str, str], Mapping[str, Any]] = {
        (row["class"], row["contestant"]): point["recall"]
        for row in curves
        for point in row["points"]
        if point["budget_per_month"] == BUDGET
    }
    rows = []
    for fault in sorted({fault for fault, _ in found}):
        theirs = {
            who: share
            for (of, who), share in found.items()
            if of == fault and who not in (OURS, SAME_RUNS)
        }
        best = max(theirs, key=lambda who: theirs[who]["value"] or 0.0, default=None)
        rows.append(
            (
                fault,
                _found(found.get((fault, SAME_RUNS))),
                _found(theirs[best]) if best else "-",
                best if best and theirs[best]["hits"] else "-",
            )
        )
    yield from _table(("Class", "Tocsin, in the baselines' runs", "best baseline", "which"), rows)


def _found(share: Mapping[str, Any] | None) -> str:
    return (
        f"{share['hits']}/{share['of']} ({_down(share['low95'])}-{share['high95']:.2f})"
        if share and share["of"]
        else "-"
    )


def _misses(report: Mapping[str, Any]) -> Iterator[str]:
    """The number of missed cases by scenario and cause."""
    count: dict[tuple[str, ...], int] = {}
    for miss in report["misses"]:
        how = (
            "late" if miss["cause"].startswith("late") else CAUSES.get(miss["cause"], miss["cause"])
        )
        key = miss["scenario"], miss["magnitude"], miss["scope"], how
        count[key] = count.get(key, 0) + 1
    yield from _table(
        ("Scenario", "Magnitude", "Scope", "Cause", "Cases"),
        ((*key, n) for key, n in sorted(count.items())),
    )


def _later(report: Mapping[str, Any]) -> Iterator[str]:
    """Sums over all runs of later revisions."""
    runs = report.get("later", ())
    ours = [row for run in runs for row in run["scenarios"] if row["contestant"] == OURS]
    healthy = [row for run in runs for row in run["healthy"] if row["contestant"] == OURS]
    found = [(row["recall"]["hits"], row["recall"]["of"]) for row in ours]
    first = [(row["attribution"]["top1"]["hits"], row["attribution"]["top1"]["of"]) for row in ours]
    months = sum(row["gpu_months"] for row in healthy)
    pages, tickets = (
        sum(row[name]["of_all"]["count"] for row in healthy) for name in ("pages", "tickets")
    )
    faulty = sum(row["gpu_months"] for row in ours)
    strays = sum(row["stray_pages"] for row in ours)
    yield from _table(
        ("Figure", "Value"),
        (
            ("faults found in time", _of(found)),
            ("correct device first, of those found in time", _of(first)),
            ("false pages in healthy runs", f"{pages} in {months:,.0f} GPU-months"),
            ("false tickets in healthy runs", f"{tickets}"),
            ("false pages in runs with faults", f"{strays} in {faulty:,.0f} GPU-months"),
        ),
    )


def _of(pairs: Sequence[tuple[int, int]]) -> str:
    hits, of = (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0)
    return f"{hits}/{of}" + (f", {hits / of:.3f}" if of else "")


def _later_faults(report: Mapping[str, Any]) -> Iterator[str]:
    rows: list[Row] = [
        (run["commit"], _seeds(run, str(row[0])), *row)
        for run in report.get("later", ())
        for row in _fault_rows(run)
    ]
    yield from _table(
        ("Commit", "Seeds", *FAULT_COLUMNS), sorted(rows, key=lambda row: str(row[2]))
    )


def _later_healthy(report: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            run["commit"],
            _seeds(run, row["scenario"]),
            row["scenario"],
            f"{row['gpu_months']:.0f}",
            row["pages"]["of_all"]["count"],
            row["tickets"]["of_all"]["count"],
            ", ".join(
                f"{n} {name}"
                for part in ("pages", "tickets")
                for name, n in row[part]["by_detector"].items()
            ),
        )
        for run in report.get("later", ())
        for row in run["healthy"]
        if row["contestant"] == OURS
    ]
    head = (
        "Commit", "Seeds", "Healthy scenario", "GPU-months", "False pages", "False tickets",
        "By detector",
    )  # fmt: skip
    yield from _table(head, sorted(rows, key=lambda row: str(row[2])))


def _later_misses(report: Mapping[str, Any]) -> Iterator[str]:
    count: dict[tuple[str, str, str], int] = {}
    for run in report.get("later", ()):
        for miss in run["misses"]:
            late = miss["cause"].startswith("late")
            key = run["commit"], miss["scenario"], "late" if late else miss["cause"]
            count[key] = count.get(key, 0) + 1
    yield from _table(
        ("Commit", "Scenario", "Cause", "Cases"),
        ((*key, n) for key, n in sorted(count.items(), key=lambda one: one[0][1:])),
    )


def _seeds(run: Mapping[str, Any], scenario: str) -> str:
    return ", ".join(map(str, run["seeds"][scenario]))


def _learnt_calibration(report: Mapping[str, Any]) -> Iterator[str]:
    """What a calibration avoids and loses, by the number of labels."""
    found = report["learning"].get("calibration")
    if found is None:
        yield "Not measured yet."
        return
    rows = [row for row in found["rows"] if row["draws"]]
    yield from _table(
        ("Labelled incidents", "False tickets", "Avoided", "Real tickets", "Still tickets",
         "Brier score with", "without", "Draws with too few of one verdict"),
        (
            (row["labels"], f"{row['false_tickets']:.0f}", _of_worlds(row["false_avoided"]),
             f"{row['real_tickets']:.0f}", _exactly(row["real_kept"], row["real_kept_exact"]),
             f"{row['brier']['with']:.3f}", f"{row['brier']['without']:.3f}", row["refused"])
            for row in rows
        ),
    )  # fmt: skip
    yield ""
    yield (
        f"{found['gpu_months']:.1f} GPU-months of {len(found['held_out'])} held-out worlds: "
        f"{_worlds(found['held_out'])}. Labels from {_worlds(found['fitted_on'])}."
    )


def _learnt_ways(report: Mapping[str, Any]) -> Iterator[str]:
    """What each way to calibrate avoids and loses, by the number of labels and held-out worlds."""
    found = report["learning"].get("ways")
    if found is None:
        yield "Not measured yet."
        return
    rows = [row for row in found["rows"] if row["draws"]]
    yield from _table(
        ("Held-out worlds", "Labels", "Way", "False tickets", "Avoided", "Real tickets",
         "Still tickets", "Brier score with", "without", "Worlds with too few labels"),
        (
            (row["worlds"], row["labels"], row["way"], f"{row['false_tickets']:.0f}",
             _of_worlds(row["false_avoided"]), f"{row['real_tickets']:.0f}",
             _exactly(row["real_kept"], row["real_kept_exact"]),
             f"{row['brier']['with']:.3f}", f"{row['brier']['without']:.3f}",
             f"{row['refused']:.1f}")
            for row in rows
        ),
    )  # fmt: skip
    yield ""
    held_out = "; ".join(
        f"{name}: {found['gpu_months'][name]:.1f} GPU-months of {', '.join(worlds)}"
        for name, worlds in found["held_out"].items()
    )
    yield f"{held_out}. Labels from {_worlds(found['fitted_on'])}."


def _learnt_fresh(report: Mapping[str, Any]) -> Iterator[str]:
    """The rule of faults that were never real, on worlds that nobody had looked at."""
    found = report["learning"].get("fresh")
    if found is None:
        yield "Not measured yet."
        return
    yield from _table(
        ("Labels", "Way", "False tickets", "Avoided", "Real tickets", "Still tickets",
         "Brier score with", "without"),
        (
            (row["labels"], row["way"], f"{row['false_tickets']:.0f}",
             _of_worlds(row["false_avoided"]), f"{row['real_tickets']:.0f}",
             _exactly(row["real_kept"], row["real_kept_exact"]),
             f"{row['brier']['with']:.3f}", f"{row['brier']['without']:.3f}")
            for row in found["rows"]
        ),
    )  # fmt: skip
    yield ""
    yield f"{found['gpu_months']:.1f} GPU-months of {_names(found['held_out'])}."


def _learnt_ranking(report: Mapping[str, Any]) -> Iterator[str]:
    """How often each way names the right device and action."""
    found = report["learning"].get("ranking")
    if found is None:
        yield "Not measured yet."
        return
    yield from _table(
        ("Of", "Held-out worlds", "Way", "Incidents fitted on", "First is right",
         "More than the rules"),
        (
            (row["of"], row["worlds"], row["way"], row["fitted_on"],
             _found_by({**row, "of": row["asked"]}), _signed(row["gain"]))
            for row in found["rows"]
        ),
    )  # fmt: skip
    yield ""
    yield f"Fitted on {_names(found['fitted_on'])}. Held out: {_names(found['held_out'])}."


def _learnt_usual(report: Mapping[str, Any], what: str = "usual") -> Iterator[str]:
    """What each way to go on after a roll-out alarms of, and finds."""
    found = report["learning"].get(what)
    if found is None:
        yield "Not measured yet."
        return
    yield from _table(
        ("Way", "False pages", "per GPU-month", "Days until quiet, at most", "Found in time",
         "More than with nothing", "Found at all"),
        (
            (row["way"], row["false"], f"{row['low95']:.3f}-{row['high95']:.3f}",
             f"{row['days_until_quiet']:.2f}",
             _found_by({"hits": row["in_time"], "of": row["faults"],
                        "low95": row["in_time_low95"], "high95": row["in_time_high95"]}),
             _signed(row["more_in_time"]), f"{row['found']}/{row['faults']}")
            for row in found["rows"]
        ),
    )  # fmt: skip
    yield ""
    seeds = f"{found['seeds'][0]} to {found['seeds'][-1]}"
    yield f"{found['scenario']}, split test, seeds {seeds}: {found['gpu_months']:.0f} GPU-months."


def _signed(gain: Sequence[float] | None) -> str:
    return "-" if gain is None else f"{gain[0]:+.2f} ({gain[1]:+.2f} to {gain[2]:+.2f})"


def _names(files: Iterable[str]) -> str:
    """Worlds as scenario and seed."""
    parts = (name.rpartition("/")[2].removesuffix(".json").split("-") for name in files)
    return ", ".join(f"{scenario} {seed}" for scenario, _, seed in parts)


def _learnt_nightly(report: Mapping[str, Any]) -> Iterator[str]:
    """Each way to rank, by scenario."""
    rows = report["learning"].get("nightly")
    if rows is None:
        yield "Not measured yet."
        return
    yield from _table(
        ("Scenario", "Ranked by", "Ill in the last list of each fleet", "At most",
         "Ill in lists a week before they are due", "Faults listed", "Listed before due, p50"),
        (
            (row["scenario"], row["way"], _found_by(row["last_night"]), row["last_night"]["best"],
             _found_by(row["week_before"]),
             f"{row['faults']['listed']}/{row['faults']['of']}",
             "-" if row["lead_days"] is None else f"{row['lead_days']:.1f} d")
            for row in rows
        ),
    )  # fmt: skip


def _found_by(share: Mapping[str, Any]) -> str:
    if not share["of"]:
        return "-"
    return f"{share['hits']}/{share['of']} ({share['low95']:.2f}-{share['high95']:.2f})"


def _exactly(share: Mapping[str, Any], exact: Sequence[float]) -> str:
    """With the exact interval: no real one lost in any world says nothing by worlds drawn again."""
    return f"{share['value']:.2f} ({_down(exact[0])}-{exact[1]:.2f})"


def _of_worlds(share: Mapping[str, Any]) -> str:
    if share["value"] is None:
        return "-"
    return f"{share['value']:.2f} ({share['low95']:.2f}-{share['high95']:.2f})"


def _worlds(files: Iterable[str]) -> str:
    return ", ".join(name.partition("-")[0] for name in files)


TABLES = {
    "learning_calibration": _learnt_calibration,
    "learning_ways": _learnt_ways,
    "learning_fresh": _learnt_fresh,
    "learning_nightly": _learnt_nightly,
    "learning_ranking": _learnt_ranking,
    "learning_usual": _learnt_usual,
    "learning_waves": lambda report: _learnt_usual(report, "waves"),
    "installed": _installed,
    "released": _released,
    "goals": _goals,
    "later": _later,
    "later_faults": _later_faults,
    "later_healthy": _later_healthy,
    "later_misses": _later_misses,
    "faults": _faults,
    "strata": _strata,
    "healthy": _healthy,
    "classes": _classes,
    "budgets": _budgets,
    "misses": _misses,
}


def _table(head: Row, rows: Iterable[Row]) -> Iterator[str]:
    yield "| " + " | ".join(map(str, head)) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"


def _down(share: float) -> str:
    """Two digits, never rounded up: a lower bound must stay one."""
    return f"{floor(share * 100) / 100:.2f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * seconds:
            return f"{value / seconds:.3g} {unit}"
    return f"{value:.0f} s"


def _three(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _rate(rate: Mapping[str, Any]) -> str:
    return (
        "-"
        if rate["rate"] is None
        else f"{rate['rate']:.2g} ({rate['low95']:.2g}-{rate['high95']:.2g})"
    )


if __name__ == "__main__":
    TARGET.write_text(scores(), encoding="utf-8")

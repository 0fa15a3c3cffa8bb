"""The goals that were set before the detectors were written, and the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.runs.run import OURS, SHIPPED
from score_tables.cells import counts_of, duration, table_of, three_digits, two_digits
from score_tables.faults import key_of

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
FLEETS = {"infinite_hbd": "InfiniteHBD", "llama_3": "Llama 3"}


def goals(report: Mapping[str, Any]) -> Iterator[str]:
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
    yield from table_of(
        ("Goal", "All detectors page", "Default configuration"),
        zip(wanted, ours, shipped, strict=True),
    )


def _answers(report: Mapping[str, Any], part: Mapping[str, Any], who: str) -> Iterator[str]:
    rows = [
        row
        for row in report["scenarios"]
        if key_of(row)[1:] == ("nominal", "fleet") and row["contestant"] == who
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
    yield f"all but {counts_of(weak)}" if weak else "all scored classes"
    yield f"fewer for {counts_of(short)}" if short else "all classes"
    others = part["delay_by_class"].get("straggler", {}).get("p90_s")
    more = (
        f"; with F17, F27 and F32 (deadlines of 10 min to 3 h) {duration(others)}"
        if others is not None
        else ""
    )
    yield f"{duration(part['straggler_delay_p90_s'])}{more}"
    hang = part["delay_by_class"].get("hang", {})
    yield (
        f"{duration(part['hang_delay_p99_s'])}; with F26 (deadline 10 min) "
        f"{duration(hang.get('p99_s'))}"
    )
    yield f"{blame['hits']}/{blame['of']}, {three_digits(blame['value'])}"
    yield (
        f"{'no change' if part['restart_equivalent'] else 'changes'} in "
        f"{part['restarts']['runs']} runs"
    )
    yield f"{all_faults['hits']}/{all_faults['of']}, {three_digits(part['recall_critical'])}"
    fleets = part["precision"] if months else {}
    yield (
        ", ".join(
            f"{two_digits(fleets[name]['precision_at_high95'])} ({words})"
            for name, words in FLEETS.items()
            if name in fleets
        )
        or "-"
    )


def _all_but(found: Mapping[str, Mapping[str, Any]]) -> str:
    missed = {name: share for name, share in found.items() if share["hits"] < share["of"]}
    return f"{len(found) - len(missed)} of {len(found)} scenarios" + (
        f"; missed: {counts_of(missed)}" if missed else ""
    )

"""What learning from a site's history gives: docs/learning.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from score_tables.cells import rounded_down, share_of, table_of


def calibration(report: Mapping[str, Any]) -> Iterator[str]:
    """What a calibration avoids and loses, by the number of labels."""
    found = report["learning"].get("calibration")
    if found is None:
        yield "Not measured yet."
        return
    rows = [row for row in found["rows"] if row["draws"]]
    yield from table_of(
        ("Labelled incidents", "False tickets", "Avoided", "Real tickets", "Still tickets",
         "Brier score with", "without", "Draws with too few of one verdict"),
        (
            (row["labels"], *_kept(row), row["refused"])
            for row in rows
        ),
    )  # fmt: skip
    yield ""
    yield (
        f"{found['gpu_months']:.1f} GPU-months of {len(found['held_out'])} held-out worlds: "
        f"{_worlds(found['held_out'])}. Labels from {_worlds(found['fitted_on'])}."
    )


def ways(report: Mapping[str, Any]) -> Iterator[str]:
    """What each way to calibrate avoids and loses, by the number of labels and held-out worlds."""
    found = report["learning"].get("ways")
    if found is None:
        yield "Not measured yet."
        return
    rows = [row for row in found["rows"] if row["draws"]]
    yield from table_of(
        ("Held-out worlds", "Labels", "Way", "False tickets", "Avoided", "Real tickets",
         "Still tickets", "Brier score with", "without", "Worlds with too few labels"),
        (
            (row["worlds"], row["labels"], row["way"], *_kept(row), f"{row['refused']:.1f}")
            for row in rows
        ),
    )  # fmt: skip
    yield ""
    held_out = "; ".join(
        f"{name}: {found['gpu_months'][name]:.1f} GPU-months of {', '.join(worlds)}"
        for name, worlds in found["held_out"].items()
    )
    yield f"{held_out}. Labels from {_worlds(found['fitted_on'])}."


def fresh(report: Mapping[str, Any]) -> Iterator[str]:
    """The rule of faults that were never real, on worlds that nobody had looked at."""
    found = report["learning"].get("fresh")
    if found is None:
        yield "Not measured yet."
        return
    yield from table_of(
        ("Labels", "Way", "False tickets", "Avoided", "Real tickets", "Still tickets",
         "Brier score with", "without"),
        (
            (row["labels"], row["way"], *_kept(row))
            for row in found["rows"]
        ),
    )  # fmt: skip
    yield ""
    yield f"{found['gpu_months']:.1f} GPU-months of {_names(found['held_out'])}."


def _kept(row: Mapping[str, Any]) -> Iterator[str]:
    """False tickets and how many are avoided, real ones and how many stay, and Brier scores."""
    yield f"{row['false_tickets']:.0f}"
    yield _of_worlds(row["false_avoided"])
    yield f"{row['real_tickets']:.0f}"
    yield _exactly(row["real_kept"], row["real_kept_exact"])
    yield f"{row['brier']['with']:.3f}"
    yield f"{row['brier']['without']:.3f}"


def ranking(report: Mapping[str, Any]) -> Iterator[str]:
    """How often each way names the right device and action."""
    found = report["learning"].get("ranking")
    if found is None:
        yield "Not measured yet."
        return
    yield from table_of(
        ("Of", "Held-out worlds", "Way", "Incidents fitted on", "First is right",
         "More than the rules"),
        (
            (row["of"], row["worlds"], row["way"], row["fitted_on"],
             share_of({**row, "of": row["asked"]}), _signed(row["gain"]))
            for row in found["rows"]
        ),
    )  # fmt: skip
    yield ""
    yield f"Fitted on {_names(found['fitted_on'])}. Held out: {_names(found['held_out'])}."


def usual(report: Mapping[str, Any], what: str = "usual") -> Iterator[str]:
    """What each way to go on after a roll-out alarms of, and finds."""
    found = report["learning"].get(what)
    if found is None:
        yield "Not measured yet."
        return
    yield from table_of(
        ("Way", "False pages", "per GPU-month", "Days until quiet, at most", "Found in time",
         "More than with nothing", "Found at all"),
        (
            (row["way"], row["false"], f"{row['low95']:.3f}-{row['high95']:.3f}",
             f"{row['days_until_quiet']:.2f}",
             share_of({"hits": row["in_time"], "of": row["faults"],
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


def nightly(report: Mapping[str, Any]) -> Iterator[str]:
    """Each way to rank, by scenario."""
    rows = report["learning"].get("nightly")
    if rows is None:
        yield "Not measured yet."
        return
    yield from table_of(
        ("Scenario", "Ranked by", "Ill in the last list of each fleet", "At most",
         "Ill in lists a week before they are due", "Faults listed", "Listed before due, p50"),
        (
            (row["scenario"], row["way"], share_of(row["last_night"]), row["last_night"]["best"],
             share_of(row["week_before"]),
             f"{row['faults']['listed']}/{row['faults']['of']}",
             "-" if row["lead_days"] is None else f"{row['lead_days']:.1f} d")
            for row in rows
        ),
    )  # fmt: skip


def _exactly(share: Mapping[str, Any], exact: Sequence[float]) -> str:
    """With the exact interval: no real one lost in any world says nothing by worlds drawn again."""
    return f"{share['value']:.2f} ({rounded_down(exact[0])}-{exact[1]:.2f})"


def _of_worlds(share: Mapping[str, Any]) -> str:
    if share["value"] is None:
        return "-"
    return f"{share['value']:.2f} ({share['low95']:.2f}-{share['high95']:.2f})"


def _worlds(files: Iterable[str]) -> str:
    return ", ".join(name.partition("-")[0] for name in files)

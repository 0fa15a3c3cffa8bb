"""``tocsin precision``: what the labels of a site's incidents prove of each detector."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from typing import Any

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import load
from collector.config.settings import Config
from detectors import DETECTORS
from detectors.paging import paging
from detectors.trust.ledger import Ledger, Tally
from evaluation.metrics.intervals import share_interval

NAME = "precision"
USAGE = "precision [--format table|json|csv] [options]"
HELP = "Show what the labels of incidents prove of each detector on this fleet."
EXAMPLE = """\
Examples:
  tocsin precision
  tocsin precision --storage.path s3://bucket/fleet
  tocsin precision --format csv > labels.csv      (every label, for another agent or a report)

exact: 95 % interval (Clopper-Pearson), for one look. any time: 95 % confidence sequence, right
however often it is looked at. evidence: for the next change, of what it takes. Of one device one
label a week counts. docs/labels.md has the rule."""
HEADS = ("detector", "mode", "real", "false", "unclear", "exact", "any time", "evidence")
LABEL_COLUMNS = (
    "incident",
    "verdict",
    "detectors",
    "device",
    "class",
    "opened_ns",
    "cause",
    "user",
)


def options(parser: Parser) -> None:
    """Of which store, in which form."""
    parser.add_argument(
        "--format",
        choices=("table", "json", "csv"),
        default="table",
        help="table (default), json, or csv: every label",
    )
    add_settings(parser, only=("storage", "detectors"))


def run(args: argparse.Namespace) -> int:
    """Print it; 0, or 1 where the store cannot be read."""
    from history.labels.stored import ledger_of, opened  # noqa: PLC0415 - they need polars
    from pipeline.store.query.file_store import ChangingError  # noqa: PLC0415
    from pipeline.store.remote.objects import RefusedError  # noqa: PLC0415

    config = load(inputs(args)).config
    try:
        ledger = ledger_of(opened(config))
    except (RefusedError, ChangingError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    if args.format == "csv":
        _csv(ledger)
        return 0
    tallies = dict(_tallies(ledger, config))
    if args.format == "json":
        print(json.dumps([_document(name, tally) for name, tally in tallies.items()], indent=1))
        return 0
    _table(tallies)
    return 0


def _tallies(ledger: Ledger, config: Config) -> Iterator[tuple[str, Tally]]:
    """Of detectors with labels, most labelled first."""
    section = config.detectors
    installed = paging(enabled=section.off_trial, disabled=section.on_trial)
    found = {name: ledger.tally(name, pages=name in installed) for name in DETECTORS}
    order = sorted(found, key=lambda name: (-found[name].incidents, name))
    return ((name, found[name]) for name in order if found[name].incidents)


def _document(name: str, tally: Tally) -> dict[str, Any]:
    state = tally.state
    return {
        "detector": name,
        "shadow": not state.pages,
        "real": tally.real,
        "false": tally.false,
        "unclear": tally.unclear,
        "incidents": tally.incidents,
        "exact": list(share_interval(tally.real, tally.real + tally.false)),
        "any_time": list(tally.interval),
        "evidence": state.evidence,
        "demanded": state.demanded,
        "entered": state.entered,
    }


def _table(tallies: dict[str, Tally]) -> None:
    if not tallies:
        print("no incident is labelled: tocsin label INCIDENT real|false|unclear")
        return
    rows = [HEADS, *(_row(name, tally) for name, tally in tallies.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _row(name: str, tally: Tally) -> tuple[str, ...]:
    state, judged = tally.state, tally.real + tally.false
    exact = share_interval(tally.real, judged)
    next_mode = "to enter shadow mode" if state.pages else "to leave it"
    return (
        name,
        "pages" if state.pages else "shadow",
        str(tally.real),
        str(tally.false),
        str(tally.unclear),
        f"{exact[0]:.2f} to {exact[1]:.2f}" if judged else "no data",
        "{:.2f} to {:.2f}".format(*tally.interval) if judged else "no data",
        f"{state.evidence:.3g} of {state.demanded:.0f} {next_mode}",
    )


def _csv(ledger: Ledger) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(LABEL_COLUMNS)
    for one in ledger.labels.values():
        names = " ".join(one.detectors)
        facts = (one.device, one.fault, one.opened_ns, one.cause, one.user)
        writer.writerow((one.incident, one.verdict, names, *facts))

"""``tocsin learn``: a model from the labels of a site, as a file for the gateway."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import load
from history.learning.extra import NotInstalledError

if TYPE_CHECKING:
    from history.learning.examples import Example

NAME = "learn"
USAGE = "learn calibration --out FILE [options]"
HELP = "Fit a model to the labels of incidents: the probability that a ticket is real."
EXAMPLE = """\
Examples:
  tocsin learn calibration --out calibration.json
  tocsin learn calibration --storage.path s3://bucket/fleet --out calibration.json

Then detectors.calibration: calibration.json in the configuration of each gateway. Tickets that are
hardly ever real on this fleet become info; pages stay. At least 15 incidents of gateways
labelled real and 15 labelled false are needed. With --never-real a fault of which 14 labels are
false and none is real alerts nobody, too. Needs the extra `learning`.
docs/learning.md has the rules, and what to expect."""


def options(parser: Parser) -> None:
    """Which model, and where it goes."""
    parser.add_argument("model", choices=("calibration",), help="what to learn")
    parser.add_argument("--out", required=True, metavar="FILE", help="file of the model")
    parser.add_argument(
        "--never-real",
        action="store_true",
        help="also lower faults with 14 labels that are all false",
    )
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Fit it and write it; 0, or 1 where the labels or the store do not suffice."""
    from history.labels.stored import ledger_of, opened  # noqa: PLC0415 - they need polars
    from history.learning.calibrate import TooFewLabelsError, calibrate  # noqa: PLC0415 - an extra
    from history.learning.examples import apart  # noqa: PLC0415
    from history.learning.labelled import labelled  # noqa: PLC0415
    from pipeline.store.files.layout import write_whole  # noqa: PLC0415
    from pipeline.store.query.file_store import ChangingError  # noqa: PLC0415
    from pipeline.store.query.labels import opening_rows  # noqa: PLC0415
    from pipeline.store.remote.objects import RefusedError  # noqa: PLC0415

    try:
        store = opened(load(inputs(args)).config)
        ledger = ledger_of(store)
        rows = opening_rows(store)
        found = apart(labelled(rows, ledger))
        model = calibrate(found, never_real=args.never_real)
        text = model.text() + "\n"
        write_whole(Path(args.out).absolute(), lambda path: path.write_text(text, encoding="utf-8"))
    except (RefusedError, ChangingError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    except NotInstalledError as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    except TooFewLabelsError as error:
        counts = f"{len(ledger.labels)} labels and {len(rows)} incidents of gateways in the store"
        print(f"tocsin: {error}; {counts}", file=sys.stderr)
        return 1
    lowered = [e for e in found if model.lowers(e.opening, model.probability(e.numbers))]
    print(f"{args.out}: of {_counts(found)}; sha256 {model.hash[:16]}")
    print(f"of these it would have lowered {_counts(lowered)} to info")
    for fault, (real, false) in model.faults.items():
        never = "; all become info" if fault in model.never else ""
        print(f"  {fault}: {real} real, {false} false{never}")
    return 0


def _counts(found: list[Example]) -> str:
    real = sum(one.real for one in found)
    return f"{real} real and {len(found) - real} false incidents"

"""``tocsin label``: was an incident real? By hand, or from a site's tickets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from collector.cli.agent_request import answered, tell
from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.terminal import plain
from collector.config.error import ConfigError
from collector.config.load import load
from detectors.trust.ledger import VERDICTS
from pipeline.short_ids import UnknownIdError, short

NAME = "label"
USAGE = "label (INCIDENT VERDICT [--cause TEXT] | --tickets FILE | --labels FILE) [options]"
HELP = "Label an incident as real, false or unclear; labels decide which detectors may page."
EXAMPLE = """\
Examples:
  tocsin label 8f14e45f real --cause "GPU replaced, RMA 4711"
  tocsin label latest false --cause "driver update"
  tocsin label --tickets tickets.csv --rest unclear
  tocsin label --labels labels.csv      (as tocsin precision --format csv writes them)

INCIDENT is the id of an incident or finding, its first characters (at least 4), or latest. A later
verdict replaces an earlier one. Label every incident, or a random share: labels of those alone that
were confirmed prove nothing. `tocsin precision` shows what labels prove.

--tickets is a CSV file with the columns node, opened, closed, cause and verdict (real where it is
missing). Incidents between its first and its last ticket that have none get the verdict --rest. The
command uses a socket in the agent's storage path, open to root and the agent's user only."""


def options(parser: Parser) -> None:
    """Which incident, and what it was."""
    parser.add_argument(
        "incident", nargs="?", default="", metavar="INCIDENT", help="id of an incident or finding"
    )
    parser.add_argument(
        "verdict", nargs="?", default="", metavar="VERDICT", help=", ".join(VERDICTS)
    )
    parser.add_argument("--cause", default="", metavar="TEXT", help="what was found")
    parser.add_argument("--tickets", default="", metavar="FILE", help="CSV file of tickets")
    parser.add_argument(
        "--labels", default="", metavar="FILE", help="CSV file of labels of other agents"
    )
    parser.add_argument(
        "--rest",
        choices=("unclear", "false", "none"),
        default="unclear",
        help="verdict on incidents without a ticket (default: unclear)",
    )
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Label one, or those that tickets name; 0, or 1 where the agent refuses."""
    if sum(map(bool, (args.tickets, args.labels, args.incident))) != 1:
        raise ConfigError("expected INCIDENT and VERDICT, --tickets FILE, or --labels FILE")
    if args.labels:
        from history.labels.tickets import labels  # noqa: PLC0415 - it needs polars

        return _label(args, list(labels(Path(args.labels))))
    if args.tickets:
        return _all(args)
    if args.verdict not in VERDICTS:
        raise ConfigError(f"VERDICT: expected {', '.join(VERDICTS)}, got {args.verdict!r}")
    return _one(args)


def _one(args: argparse.Namespace) -> int:
    wanted = {"incident": args.incident, "verdict": args.verdict, "cause": args.cause}
    done = _asked(args, wanted)
    if done is not None and not done["known"]:
        from history.labels.stored import described  # noqa: PLC0415 - it needs polars
        from pipeline.store.query.file_store import ChangingError  # noqa: PLC0415
        from pipeline.store.remote.objects import RefusedError  # noqa: PLC0415

        try:
            about = described(_store(args), args.incident)
        except (UnknownIdError, RefusedError, ChangingError, OSError) as error:
            print(f"tocsin: {error}", file=sys.stderr)
            return 1
        done = _asked(args, {**wanted, "about": about})
    if done is None:
        return 1
    _show(done, args.verdict)
    return 0


def _all(args: argparse.Namespace) -> int:
    from history.labels import tickets  # noqa: PLC0415 - it needs polars
    from history.labels.stored import ledger_of  # noqa: PLC0415
    from pipeline.store.query.file_store import ChangingError  # noqa: PLC0415
    from pipeline.store.query.labels import incident_rows  # noqa: PLC0415
    from pipeline.store.remote.objects import RefusedError  # noqa: PLC0415

    known = tickets.read(Path(args.tickets))
    try:
        store = _store(args)
        labelled, rows = frozenset(ledger_of(store).labels), incident_rows(store)
    except (RefusedError, ChangingError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    return _label(args, tickets.requests(known, rows, labelled, args.rest))


def _label(args: argparse.Namespace, wanted: Iterable[Mapping[str, Any]]) -> int:
    """One that is refused, such as of a detector that the agent's version does not have, keeps none
    of the others from being labelled.
    """
    root = Path(load(inputs(args)).config.storage.path)
    number = refused = 0
    for request in wanted:
        try:
            done = answered(root, {"command": "label", **request})
        except ValueError as error:
            incident = request["about"]["incident"]
            print(f"tocsin: {plain(f'{incident}: {error}')}", file=sys.stderr)
            refused += 1
            continue
        except OSError as error:
            print(f"tocsin: {plain(str(error))}", file=sys.stderr)
            return 1
        number += 1
        _show(done, request["verdict"])
    print(f"{number} incidents labelled" + (f", {refused} refused" if refused else ""))
    return int(refused > 0)


def _asked(args: argparse.Namespace, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    return tell(args, {"command": "label", **wanted})


def _show(done: Mapping[str, Any], verdict: str) -> None:
    whose = f" of {done['detector']}" if done["detector"] else ""
    print(f"incident {short(done['incident'])}{whose}: {verdict}")
    for kind, detector in done["changes"]:
        left = kind == "shadow_mode_left"
        print(f"{detector}: {'left' if left else 'entered'} shadow mode by its labels")


def _store(args: argparse.Namespace) -> Any:
    from history.labels.stored import opened  # noqa: PLC0415

    return opened(load(inputs(args)).config)

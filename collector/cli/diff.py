"""``tocsin diff``: what dashboards and rules would miss when a node changes from dcgm-exporter to Tocsin."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from collector import client
from collector.config.given import ConfigError

NAME = "diff"
USAGE = "diff THEIRS OURS [--ignore LABEL]... [--ca FILE] [--cert FILE --key FILE] [--password-file FILE]"
HELP = "Compare two pages of metrics: families, labels and units that the second lacks."
EXAMPLE = """\
Examples:
  tocsin diff http://127.0.0.1:9400/metrics http://127.0.0.1:19400/metrics
  tocsin diff saved-dcgm-exporter.prom http://127.0.0.1:9400/metrics --ignore pod --ignore namespace
  tocsin diff http://127.0.0.1:9400/metrics https://localhost:19400/metrics --ca ca.pem --cert me.pem --key me.key

Exit code 1 where the second page lacks something of the first."""

TIMEOUT_S = 20.0
MOST_BYTES = 64 << 20


def options(parser: argparse.ArgumentParser) -> None:
    """The two pages."""
    parser.add_argument("theirs", metavar="THEIRS", help="URL or file of dcgm-exporter's page")
    parser.add_argument("ours", metavar="OURS", help="URL or file of the page to compare with it")
    parser.add_argument("--ignore", action="append", default=[], metavar="LABEL", help="a label that may differ; repeatable")
    client.options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the differences; 1 where something is lacking."""
    from pipeline.exposition.compare import differences, parse  # noqa: PLC0415 - other commands need no parser

    theirs, ours = (parse(fetch(place, client.access(args))) for place in (args.theirs, args.ours))
    found = list(differences(theirs, ours, ignore=args.ignore))
    for one in found:
        print(f"{one.kind:8} {one.name}: {one.text}")
    for name, page in ((args.theirs, theirs), (args.ours, ours)):
        if page.unreadable:
            print(f"{name}: {len(page.unreadable)} lines cannot be read, such as {page.unreadable[0][:120]!r}", file=sys.stderr)
    if not found:
        print(f"{sum(map(len, theirs.samples.values()))} series of {len(theirs.samples)} families: nothing is lacking")
    return int(any(one.kind != "added" for one in found))


def fetch(place: str, who: client.Access = client.NOBODY) -> str:
    """Text of a page: a URL, asked as ``who``, or a file. ConfigError where it cannot be had."""
    try:
        if place.startswith(("http://", "https://")):
            body = client.get(place, who, timeout_s=TIMEOUT_S, most_bytes=MOST_BYTES)
        else:
            body = Path(place).read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from error
    return body.decode("utf-8", "replace")

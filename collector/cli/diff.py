"""``tocsin diff``: what dashboards and rules would miss when a node changes from
dcgm-exporter to Tocsin.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from collector import client
from collector.cli.terminal import plain
from collector.config.raw_setting import ConfigError

NAME = "diff"
USAGE = (
    "diff THEIRS OURS [--ignore LABEL]... [--ca FILE] [--cert FILE --key FILE] "
    "[--password-file FILE]"
)
HELP = "Compare two metrics pages: families, labels and units missing from the second."
EXAMPLE = """\
Examples:
  tocsin diff http://127.0.0.1:9400/metrics http://127.0.0.1:19400/metrics
  tocsin diff saved-dcgm-exporter.prom http://127.0.0.1:9400/metrics --ignore pod
  tocsin diff http://127.0.0.1:9400/metrics https://localhost:19400/metrics --ca ca.pem

Exit code 1 if something of the first page is missing from the second."""

TIMEOUT_S = 20.0
MAX_BYTES = 64 << 20


def options(parser: argparse.ArgumentParser) -> None:
    """The two pages."""
    parser.add_argument("theirs", metavar="THEIRS", help="URL or file of dcgm-exporter's page")
    parser.add_argument("ours", metavar="OURS", help="URL or file of the page to compare")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="LABEL",
        help="a label that may differ; repeatable",
    )
    client.options(parser)


def run(args: argparse.Namespace) -> int:
    """Print the differences; 1 where something is lacking."""
    from pipeline.exposition.compare import differences, not_an_exposition, parse  # noqa: PLC0415 - other commands need no parser

    who = client.access(args)
    texts = [(place, fetch(place, who)) for place in (args.theirs, args.ours)]
    theirs, ours = (parse(text) for _, text in texts)
    for page, (place, text) in zip((theirs, ours), texts, strict=True):
        if strange := not_an_exposition(page, text):
            raise ConfigError(f"{place}: {strange}, not metrics in the Prometheus text format")
    found = list(differences(theirs, ours, ignore=args.ignore))
    for one in found:
        print(plain(f"{one.kind:8} {one.name}: {one.text}"))
    for name, page in ((args.theirs, theirs), (args.ours, ours)):
        if page.unreadable:
            print(
                (
                    f"{name}: {len(page.unreadable)} lines cannot be read, such as "
                    f"{page.unreadable[0][:120]!r}"
                ),
                file=sys.stderr,
            )
    if not found:
        print(
            f"{sum(map(len, theirs.samples.values()))} series of {len(theirs.samples)} "
            "families: nothing is missing"
        )
    return int(any(one.kind != "added" for one in found))


def fetch(place: str, who: client.Access = client.NOBODY) -> str:
    """Text of a page: a URL, asked as ``who``, or a file. ConfigError where it cannot be had."""
    try:
        if place.startswith(("http://", "https://")):
            body = client.get(place, who, timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES)
        else:
            body = Path(place).read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(str(error)) from error
    return body.decode("utf-8", "replace")

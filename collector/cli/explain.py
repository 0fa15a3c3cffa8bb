"""``tocsin explain``: an incident or finding, from the store."""

from __future__ import annotations

import argparse

from collector import client
from collector.cli.options import add_settings
from collector.cli.parser import Parser
from collector.config.error import ConfigError

NAME = "explain"
USAGE = (
    "explain ID [--plot FILE.svg] | explain job JOB [--format text|html|json] [--output FILE] "
    "[--run N] [--storage.path DIR | --gateway URL]"
)
HELP = (
    "Explain an incident or finding: rule, numbers, reference and next step; or the life of a job: "
    "phases, incidents, what ended it, what it lost."
)
EXAMPLE = """\
Examples:
  tocsin explain latest                         (the incident that opened last)
  tocsin explain 8f14e45f
  tocsin explain 8f14e4 --plot evidence.svg
  tocsin explain 8f14e45f --storage.path s3://bucket/fleet
  tocsin explain job 71
  tocsin explain job 71 --format html --output job-71.html
  tocsin explain job 71 --gateway https://tocsin.example.com:9401 --password-file ~/.tocsin

Ids are in the log, on the status page and in `tocsin query "SELECT id, summary FROM incidents"`.
The first characters of an id are enough, if they are unambiguous."""


def options(parser: Parser) -> None:
    """Which case, and where to draw it."""
    parser.add_argument(
        "id",
        nargs="+",
        metavar="ID",
        help="incident or finding: id, its first characters, or latest; or `job` and a job's id",
    )
    parser.add_argument("--plot", default="", metavar="FILE.svg", help="also plot the evidence")
    parser.add_argument(
        "--format",
        choices=("text", "html", "json"),
        default="text",
        help="of a job: text (default), html or json",
    )
    parser.add_argument("--output", default="", metavar="FILE", help="of a job: write it to a file")
    parser.add_argument(
        "--run",
        dest="run_number",
        type=int,
        default=0,
        metavar="N",
        help="of a job with several runs: the N-th from 1 (default: the last)",
    )
    parser.add_argument(
        "--gateway", default="", metavar="URL", help="of a job: ask a gateway, not the store"
    )
    client.options(parser)
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Look it up, say it, draw it; 1 where it is not in the store."""
    if args.id[0] == "job" and len(args.id) == 2 and args.gateway:
        from collector.cli.explain_remote import explain_remote  # noqa: PLC0415

        return explain_remote(args, args.id[1])
    if args.gateway:
        raise ConfigError("--gateway: explains jobs; its page shows incidents")
    if args.id[0] == "job" and len(args.id) == 2:
        from collector.cli.explain_job import explain_job  # noqa: PLC0415 - it needs polars, the other commands do not

        return explain_job(args, args.id[1])
    if len(args.id) > 1 or args.id == ["job"]:
        raise ConfigError(f"explain: expected ID, or job JOB; got {' '.join(args.id)}")
    from collector.cli.explain_run import explain  # noqa: PLC0415

    return explain(args)

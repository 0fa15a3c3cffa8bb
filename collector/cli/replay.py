"""``tocsin replay``: the detectors over what was kept, to see what would have been found, how
early and how often falsely.
"""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings
from collector.cli.parser import Parser
from collector.cli.spread import spread_options

HORIZONS = ("node", "fleet")

NAME = "replay"
USAGE = "replay --from DIR [--detectors NAME,...] [--since TIME] [--until TIME] [options]"
HELP = "Run the detectors over stored data; findings and incidents as JSON lines."
EXAMPLE = """\
Examples:
  tocsin replay --from /var/lib/tocsin --since 1d
  tocsin replay --from s3://bucket/fleet --host node17 --detectors straggler,xid --warm-up 6h
  tocsin replay --from /var/lib/tocsin --off-trial | jq 'select(.severity == "page")'
  tocsin replay --from /var/lib/tocsin --compare
  tocsin replay --from s3://bucket/fleet --horizon fleet --since 2h
  tocsin replay --from s3://bucket/fleet --since 90d --ray ray://head:10001

With --horizon node each node is judged alone, as its agent does. With --horizon fleet all nodes are
judged together, as the gateway does; where its store is in the same place, exactly what it judged.
Detectors start without a baseline: --warm-up runs them on earlier data first, without output. Read
intervals and the XID table are those of the configuration (--config).

--workers and --ray judge some nodes in each process, with the same output. With --horizon fleet
all nodes are judged together in one process. A store must have the same path or URL on all machines
of a Ray cluster."""


def options(parser: Parser) -> None:
    """What to judge, by whom, of when."""
    parser.add_argument(
        "--from",
        dest="root",
        default="",
        metavar="DIR",
        help="folder or URL of a store (default: the setting storage.path)",
    )
    parser.add_argument(
        "--detectors", default="", metavar="NAME,...", help="only these (default: all)"
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help="begin: a time, or a time ago (default: the first row)",
    )
    parser.add_argument("--until", default="", metavar="TIME", help="end (default: the last row)")
    parser.add_argument(
        "--warm-up",
        default="0s",
        metavar="TIME",
        help="run detectors on this much earlier data first, without output",
    )
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="only this node; repeatable"
    )
    parser.add_argument(
        "--off-trial",
        action="store_true",
        help="as if paging were enabled for all detectors (no shadow mode)",
    )
    parser.add_argument(
        "--horizon",
        "--scope",
        dest="horizon",
        choices=HORIZONS,
        default="node",
        help="node: each node alone, as its agent; fleet: all together, as the gateway "
        "(--scope is the old name)",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="print only differences from the stored findings; exit 1 if there are any",
    )
    spread_options(parser)
    add_settings(parser, only=("storage", "sources", "detectors"))


def run(args: argparse.Namespace) -> int:
    """Judge again and print; 0, or 1 where nothing is there or a comparison differs."""
    from collector.cli.replay_run import replay  # noqa: PLC0415 - it needs pyarrow, the other commands do not

    return replay(args)

"""``tocsin replay``: the detectors over what was kept, to see what would have been found, how early and how often falsely."""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings

SCOPES = ("node", "fleet")

NAME = "replay"
USAGE = "replay --from DIR [--detectors NAME,...] [--since TIME] [--until TIME] [options]"
HELP = "Run the detectors over what the store has kept; findings and incidents as JSON lines."
EXAMPLE = """\
Examples:
  tocsin replay --from /var/lib/tocsin --since 1d
  tocsin replay --from s3://bucket/fleet --host node17 --detectors straggler,xid --since 2026-11-20T07:00 --warm-up 6h
  tocsin replay --from /var/lib/tocsin --off-trial | jq 'select(.severity == "page")'
  tocsin replay --from /var/lib/tocsin --compare
  tocsin replay --from s3://bucket/fleet --scope fleet --host node17 --host node18 --since 2h

Every node is judged by itself, as its agent does; with --scope fleet the detectors of jobs that can (nccl) judge all nodes as one, and hold
an hour of them in memory. Detectors begin without a memory at the begin of the replay: --warm-up lets them learn
from what lies before it. The settings in force (--config) say how often sources were read and which XID table counts."""


def options(parser: argparse.ArgumentParser) -> None:
    """What to judge, by whom, of when."""
    parser.add_argument(
        "--from", dest="root", default="", metavar="DIR", help="folder or URL of a store (default: the setting storage.path)"
    )
    parser.add_argument("--detectors", default="", metavar="NAME,...", help="only these (default: all)")
    parser.add_argument("--since", default="", metavar="TIME", help="begin: a time, or how long ago (default: what there is)")
    parser.add_argument("--until", default="", metavar="TIME", help="end (default: what there is)")
    parser.add_argument("--warm-up", default="0s", metavar="TIME", help="let detectors learn for so long before the begin")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="only this node; repeatable")
    parser.add_argument(
        "--off-trial", action="store_true", help="severities as detectors give them, also of those that are on trial in the agent"
    )
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default="node",
        help="node: each node by itself, as its agent; fleet: what all nodes together tell of a job",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="print only what is found now and was not, or the other way round; 1 if anything is",
    )
    add_settings(parser, only=("storage", "sources", "detectors"))


def run(args: argparse.Namespace) -> int:
    """Judge again and print; 0, or 1 where nothing is there or a comparison differs."""
    from collector.cli.replay_run import replay  # noqa: PLC0415 - it needs pyarrow, the other commands do not

    return replay(args)

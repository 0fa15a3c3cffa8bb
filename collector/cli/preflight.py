"""``tocsin preflight``: checks this node before a job starts."""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser

NAME = "preflight"
USAGE = (
    "preflight [--level quick|standard|deep] [--format text|json|slurm|nhc|npd|nagios] "
    "[--gpus LIST] [options]"
)
HELP = "Check this node before a job starts: by reading only, by measuring, or with DCGM."
EXAMPLE = """\
Examples:
  tocsin preflight                                    (quick: reads only, a few seconds)
  tocsin preflight --format slurm                     (in a Prolog: exit 1 only for a page)
  tocsin preflight --level standard --python /opt/train/bin/python
  tocsin preflight --level deep --format json         (dcgmi diag -r 3 where DCGM is installed)
  tocsin preflight --gpus 0,1                         (GPUs of the job; default $SLURM_JOB_GPUS)

What cannot be checked is unknown, never a failure. Results are stored by the running agent, and
measurements are compared with the node's own history and its peers: docs/preflight.md."""
EXIT_CODES = (
    "Exit codes: those of the format. text, json: 0 ok, 1 a problem, 2 unknown; slurm, nhc: 1 for "
    "a page, 0 for anything else; npd: 0 ok, 1 a page, 2 unknown; nagios: 0, 1 a ticket, 2 a "
    "page, 3 unknown. 2 the command line is wrong."
)

LEVELS = ("quick", "standard", "deep")
FORMS = ("text", "json", "slurm", "nhc", "npd", "nagios")


def options(parser: Parser) -> None:
    """How thorough, in whose words, on which GPUs."""
    parser.add_argument("--level", choices=LEVELS, default="quick", help="default: quick")
    parser.add_argument(
        "--format", dest="form", choices=FORMS, default="text", help="default: text"
    )
    parser.add_argument(
        "--gpus",
        default=None,
        metavar="LIST",
        help="indices of the GPUs that must be idle, such as 0,2-3 (default: $SLURM_JOB_GPUS; "
        "without it all, and a GPU in use is a ticket)",
    )
    parser.add_argument(
        "--python",
        default="python3",
        metavar="PROGRAM",
        help="Python with PyTorch for the level standard (default: python3)",
    )
    parser.add_argument(
        "--simulated", default="", metavar="DIR", help="check the simulated node in this directory"
    )
    parser.add_argument("--no-store", action="store_true", help="do not store the result")
    add_settings(parser, only=("path", "sources", "storage", "log"))


def run(args: argparse.Namespace) -> int:
    """Check, store, print."""
    from collector.cli.preflight_run import preflight  # noqa: PLC0415 - help needs no sources
    from collector.config.load import load  # noqa: PLC0415

    return preflight(args, load(inputs(args)).config)

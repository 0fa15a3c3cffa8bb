"""``tocsin check``: what the running agent knows of this node, in the words of a scheduler or
monitor; drains it where that is allowed.
"""

from __future__ import annotations

import argparse
import os
import sys

from collector import client
from collector.integrations.agent_client import asked

NAME = "check"
USAGE = (
    "check [--agent URL|SOCKET] [--ca FILE] [--cert FILE --key FILE] [--password-file FILE] "
    "[--format slurm|nhc|npd|nagios|json] [--maintenance] [--return] [--dry-run]"
)
HELP = (
    "Ask the running agent whether this node is healthy. As Slurm's HealthCheckProgram, drain "
    "it if the configuration allows."
)
EXAMPLE = """\
Examples:
  tocsin check                             (one line of JSON; exit 0 ok, 1 a problem, 2 unknown)
  tocsin check --format nagios             (exit 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN)
  tocsin check --format npd                (exit 0 OK, 1 a problem, 2 unknown)
  tocsin check --format nhc                (exit 1 for a page, 0 for anything else)
  tocsin check --format slurm --dry-run    (exit 0; prints what it would do)
  tocsin check --return                    (runs the burn-in check, then resumes the node)
  tocsin check --agent https://gpu07:9400 --ca ca.pem --cert me.pem --key me.key

The agent answers from memory; no device is accessed. If the agent is down or cannot read, the
state is unknown and nothing is done. gates.slurm in the agent's configuration sets what may be
drained, how many nodes and how often: docs/integrations.md."""
EXIT_CODES = "Exit codes: those of the format, as above; 2 the command line is wrong."

STORAGE_VARIABLE = "TOCSIN_STORAGE__PATH"
STORAGE = "/var/lib/tocsin"  # as storage.path
FORMS = ("slurm", "nhc", "npd", "nagios", "json")


def options(parser: argparse.ArgumentParser) -> None:
    """Whom to ask, and in whose words to say it.

    Settings are not read: that alone would take longer than the answer.
    """
    parser.add_argument(
        "--agent",
        default=os.environ.get(STORAGE_VARIABLE) or STORAGE,
        metavar="URL|SOCKET",
        help=(
            "the agent: its URL, its socket, or its storage path "
            f"(${STORAGE_VARIABLE}; default {STORAGE})"
        ),
    )
    parser.add_argument(
        "--format",
        dest="form",
        choices=FORMS,
        default="json",
        help="output format and exit codes (default: json)",
    )
    parser.add_argument(
        "--node",
        default="",
        metavar="NAME",
        help=(
            "this node's name in Slurm ($SLURMD_NODENAME; default: the one it was "
            "drained by, or the host's)"
        ),
    )
    parser.add_argument(
        "--maintenance",
        action="store_true",
        help=(
            "with --format slurm: begin and end maintenance with the maintenance reservations "
            "of this node"
        ),
    )
    parser.add_argument(
        "--return",
        dest="back",
        action="store_true",
        help="resume this node if it was drained here and the burn-in check passes",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with --format slurm or --return: only print what would be done",
    )
    client.options(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, say it, and return the format's exit code."""
    answer = asked(args.agent, client.access(args))
    if args.back or args.form == "slurm":
        from collector.cli import check_slurm  # noqa: PLC0415 - other formats need no controller

        return check_slurm.run(args, answer)
    from collector.integrations.formats import FORMATS  # noqa: PLC0415

    text, code = FORMATS[args.form](answer)
    sys.stdout.write(f"{text}\n")
    return code

"""Finds the subcommand and runs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from collector.cli import (
    ack,
    agent,
    check_config,
    compact,
    diff,
    explain,
    export,
    maintenance,
    nccl,
    query,
    read,
    replay,
    score,
    simulate,
    version,
)
from collector.config.given import ConfigError

# Exit codes of every command.
DONE, FAILED, WRONG_INPUT = 0, 1, 2

COMMANDS = (
    agent,
    ack,
    maintenance,
    read,
    simulate,
    query,
    explain,
    replay,
    nccl,
    compact,
    export,
    score,
    check_config,
    diff,
    version,
)

EXIT_CODES = (
    "Exit codes: 0 done; 1 it ran and failed, or found nothing to read; 2 the command line or the configuration is wrong."
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = argparse.ArgumentParser(
        prog="tocsin",
        description="Early warning for GPU clusters.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    whole.add_argument("-v", "--version", action="version", version=version.text())
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        sub = commands.add_parser(
            module.NAME,
            usage=f"tocsin {module.USAGE}",
            help=module.HELP,
            description=module.HELP,
            epilog=f"{module.EXAMPLE}\n\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.options(sub)
        sub.set_defaults(run=module.run)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return _run(argv)
    except BrokenPipeError:  # the reader of our output has seen enough: `tocsin read | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes at the end
        return FAILED


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = parser().parse_args(argv)
        code: int = args.run(args)
    except ConfigError as error:
        for problem in error.problems:
            print(f"tocsin: {problem}", file=sys.stderr)
        return WRONG_INPUT
    finally:
        sys.stdout.flush()
    return code

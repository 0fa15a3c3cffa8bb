"""Finds the subcommand and runs it. Only its own file is imported: a health check is asked on every node of a cluster."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from collector.config_error import ConfigError

# Exit codes of every command.
DONE, FAILED, WRONG_INPUT = 0, 1, 2

# Each is a file of this folder, dashes as underscores.
COMMANDS = (
    "agent",
    "ack",
    "maintenance",
    "check",
    "read",
    "simulate",
    "query",
    "explain",
    "replay",
    "nccl",
    "compact",
    "export",
    "score",
    "check-config",
    "diff",
    "version",
)

EXIT_CODES = (
    "Exit codes: 0 done; 1 it ran and failed, or found nothing to read; 2 the command line or the configuration is wrong."
)


def parser(only: str = "") -> argparse.ArgumentParser:
    """The command line: whole, or as far as one command needs it."""
    whole = argparse.ArgumentParser(
        prog="tocsin",
        description="Early warning for GPU clusters.",
        epilog=EXIT_CODES,
        allow_abbrev=False,
    )
    if not only:
        whole.add_argument("-v", "--version", action="version", version=_module("version").text())
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in [only] if only else COMMANDS:
        module = _module(name)
        sub = commands.add_parser(
            module.NAME,
            usage=f"tocsin {module.USAGE}",
            help=module.HELP,
            description=module.HELP,
            epilog=f"{module.EXAMPLE}\n\n{getattr(module, 'EXIT_CODES', EXIT_CODES)}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.options(sub)
        sub.set_defaults(run=module.run)
    return whole


def _module(name: str) -> Any:
    return importlib.import_module(f"collector.cli.{name.replace('-', '_')}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return _run(argv)
    except BrokenPipeError:  # the reader of our output has seen enough: `tocsin read | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes at the end
        return FAILED


def _run(argv: Sequence[str] | None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        args = parser(argv[0] if argv and argv[0] in COMMANDS else "").parse_args(argv)
        code: int = args.run(args)
    except ConfigError as error:
        for problem in error.problems:
            print(f"tocsin: {problem}", file=sys.stderr)
        return WRONG_INPUT
    finally:
        sys.stdout.flush()
    return code

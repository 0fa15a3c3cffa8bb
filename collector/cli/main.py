"""Finds the subcommand and runs it.

Only its own file is imported: a health check is asked on every node of a cluster.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from collector.cli.parser import WRONG_INPUT, Parser, suggestion
from collector.config.error import ConfigError

# Exit codes of every command.
DONE, FAILED, INTERRUPTED = 0, 1, 130

# Where each command is. Only the one that is asked for is imported.
COMMANDS: Mapping[str, str] = {
    "agent": "collector.cli.agent",
    "gateway": "gateway.command",
    "ack": "collector.cli.ack",
    "label": "history.labels.label_command",
    "precision": "history.labels.precision_command",
    "learn": "history.learning.learn_command",
    "nightly": "history.learning.nightly_command",
    "maintenance": "collector.cli.maintenance",
    "check": "collector.cli.check",
    "preflight": "collector.cli.preflight",
    "repair": "collector.cli.repair",
    "hint": "collector.cli.hint",
    "read": "collector.cli.read",
    "simulate": "simulator.command",
    "query": "collector.cli.query",
    "explain": "collector.cli.explain",
    "jobs": "collector.cli.jobs",
    "replay": "collector.cli.replay",
    "nccl": "collector.cli.nccl",
    "import": "history.command",
    "backtest": "history.backtest_command",
    "report": "history.report_command",
    "compact": "collector.cli.compact",
    "export": "collector.cli.export",
    "score": "evaluation.command",
    "check-config": "collector.cli.check_config",
    "diff": "collector.cli.diff",
    "helper": "collector.cli.helper",
    "completion": "collector.cli.completion",
    "version": "collector.cli.version",
}

VERSION_OPTIONS = ("-v", "--version")  # in place of a command

EXIT_CODES = (
    "Exit codes: 0 success; 1 failed, or nothing to read; 2 invalid command line or "
    "configuration; 130 interrupted by Ctrl-C."
)


def parser(only: str = "") -> Parser:
    """The command line: complete, or as far as one command needs it."""
    complete = Parser(
        prog="tocsin",
        usage="tocsin COMMAND [options]",
        description="Early warning for GPU clusters.",
        epilog=f"tocsin COMMAND --help describes a command. {EXIT_CODES}",
        allow_abbrev=False,
    )
    if not only:
        complete.add_argument(*VERSION_OPTIONS, action="version", version=_module("version").text())
    commands = complete.add_subparsers(
        title="commands", prog="tocsin", dest="command", metavar="COMMAND", required=True
    )
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
    return complete


def _module(name: str) -> Any:
    return importlib.import_module(COMMANDS[name])


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        print("tocsin: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough: `tocsin read | head`
        # or the interpreter complains when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _run(argv: Sequence[str]) -> int:
    first = argv[0] if argv else ""
    if first in VERSION_OPTIONS:  # the complete parser imports every command
        argv, first = ["version"], "version"
    try:
        if not argv:
            parser().print_help()
            return DONE
        if first not in COMMANDS and not first.startswith("-"):
            return _unknown(first)
        args = parser(first if first in COMMANDS else "").parse_args(argv)
        code: int = args.run(args)
    except ConfigError as error:
        for problem in error.problems:
            print(f"tocsin: {problem}", file=sys.stderr)
        return WRONG_INPUT
    finally:
        sys.stdout.flush()
    return code


def _unknown(name: str) -> int:
    hint = suggestion(name, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
    print("usage: tocsin COMMAND [options]", file=sys.stderr)
    print(f"tocsin: error: no command {name!r}{hint}", file=sys.stderr)
    return WRONG_INPUT

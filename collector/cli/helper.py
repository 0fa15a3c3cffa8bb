"""``tocsin helper``: answers what the agent may not read itself about other users' processes."""

from __future__ import annotations

import argparse
import ctypes
import pwd
import signal
from pathlib import Path

from collector.cli import logs
from collector.cli.parser import Parser
from collector.config.error import ConfigError
from collector.node.helper.protocol import SOCKET

NAME = "helper"
USAGE = "helper [--user USER]"
HELP = "Inspect other users' processes for an agent that may not; started by its service."
EXAMPLE = """\
Example:
  tocsin helper --user tocsin

It holds CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH in place of the agent, and answers few questions:
docs/security.md, "Privileges"."""

PR_SET_DUMPABLE = 4  # prctl(2); off: no process of its user may trace it


def options(parser: Parser) -> None:
    """Who may ask, and where."""
    parser.add_argument(
        "--user", default="tocsin", help="user of the agent, by name or number (default: tocsin)"
    )
    parser.add_argument("--socket", default=str(SOCKET), metavar="PATH", help="where to listen")


def run(args: argparse.Namespace) -> int:
    """Answer until it is stopped."""
    from collector.helper.server import Helper  # noqa: PLC0415 - no other command needs it

    user = _number(args.user)
    logs.set_up("info", "logfmt")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        helper = Helper(Path(args.socket), user)
    except OSError as error:
        raise ConfigError(f"--socket: {args.socket}: {error.strerror}") from error
    signal.signal(signal.SIGTERM, lambda *_: helper.close())
    helper.serve()
    return 0


def _number(user: str) -> int:
    if user.isascii() and user.isdecimal():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError as error:
        raise ConfigError(f"--user: there is no user {user!r}") from error

"""``tocsin completion``: a completion script for a shell, made from the parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from collector.cli.parser import Parser

NAME = "completion"
USAGE = "completion bash|zsh|fish"
HELP = "Print a completion script for a shell."
EXAMPLE = """\
Examples:
  source <(tocsin completion bash)                                    (in ~/.bashrc)
  tocsin completion zsh >"${fpath[1]}/_tocsin"
  tocsin completion fish >~/.config/fish/completions/tocsin.fish

The .deb and .rpm packages install all three."""

SHELLS = ("bash", "zsh", "fish")
# What a metavar stands for.
FILES = ("FILE", "FILE.svg", "FILE.zip", "THEIRS", "OURS")
FOLDERS = ("DIR",)


def options(parser: Parser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    from collector.cli.main import parser  # noqa: PLC0415 - of all commands

    sys.stdout.write(script(parser(), args.shell))
    return 0


def script(complete: Parser, shell: str) -> str:
    """The script of a shell: commands, options, their choices, files and folders."""
    import shtab  # noqa: PLC0415 - only here

    for action in _actions(complete):
        if action.help == argparse.SUPPRESS:
            continue
        if values := _values(action):
            action.choices = values
        elif kind := _kind(action):
            action.complete = kind  # type: ignore[attr-defined] # shtab's own attribute
    return str(shtab.complete(complete, shell)).rstrip() + "\n"


def _actions(parser: Parser) -> Iterator[argparse.Action]:
    yield from parser._actions  # noqa: SLF001 - argparse has no public way
    for below in parser.parsers():
        yield from _actions(below)


def _values(action: argparse.Action) -> tuple[str, ...]:
    """Values that the parser leaves to the configuration or the store to check."""
    from pipeline.store.query.questions import QUESTIONS  # noqa: PLC0415 - only here

    if action.dest == "question":
        return tuple(QUESTIONS)
    return tuple(getattr(getattr(action, "target", None), "choices", ()))


def _kind(action: argparse.Action) -> object:
    import shtab  # noqa: PLC0415

    path = getattr(getattr(action, "target", None), "path", ("",))
    if action.metavar in FOLDERS or path == ("storage", "path"):
        return shtab.DIRECTORY
    return shtab.FILE if action.metavar in FILES or path[0] == "path" else None

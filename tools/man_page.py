"""Writes the man page from the parser: `man_page.py >tocsin.1`, for the packages."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from collector.cli.main import EXIT_CODES, parser
from collector.cli.parser import Parser
from collector.config.load import DEFAULT_FILE, FILE_VARIABLE
from collector.version import VERSION

HEAD = """\
.TH TOCSIN 1 {date} "tocsin {version}" "User Commands"
.SH NAME
tocsin \\- early warning for GPU clusters
.SH SYNOPSIS
.B tocsin
.I COMMAND
.RI [ options ]
.SH DESCRIPTION
Reads GPUs, InfiniBand ports and the kernel log of a node, stores what it reads, detects faults, and
serves Prometheus on port 9400.
.SH OPTIONS
"""
EVERYWHERE = frozenset(("--help", "--help-settings"))  # options that each command has
SETTINGS = """\
.SH SETTINGS
Each setting is a key of the YAML file, an environment variable and an option; the last one given in
this order wins. Commands take those of the sections that they need.
"""
TAIL = """\
.SH FILES
.TP
.I {file}
Configuration; {variable} or
.B \\-\\-config
names another.
.SH SEE ALSO
.BR dcgmi (1),
.BR nvidia-smi (1),
.BR perfquery (8)
"""


def page(complete: Parser, date: str) -> str:
    """The whole page."""
    agent = next(sub for sub in complete.parsers() if sub.prog == "tocsin agent")
    return "".join(
        (
            HEAD.format(date=date, version=text(VERSION)),
            *_options(complete.own_groups()),
            ".SH COMMANDS\n",
            *(line for sub in complete.parsers() for line in _command(sub)),
            SETTINGS,
            *_options(agent.settings_groups(), titles=True),
            f".SH EXIT STATUS\n{text(EXIT_CODES.removeprefix('Exit codes: '))}\n",
            TAIL.format(file=text(str(DEFAULT_FILE)), variable=text(FILE_VARIABLE)),
        )
    )


def _command(sub: Parser) -> Iterator[str]:
    yield f".SS {text(sub.prog)}\n"
    yield f"{text(sub.description or '')}\n"
    usage = " ".join(sub.format_usage().split()).removeprefix("usage: ")
    yield f".PP\n.B {text(usage)}\n"
    yield from _options(sub.own_groups(), leave_out=EVERYWHERE)
    if sections := [group.title for group in sub.settings_groups()]:
        yield f".PP\nSettings: {text(', '.join(sections))}.\n"
    for block in filter(None, (sub.epilog or "").replace(EXIT_CODES, "").strip().split("\n\n")):
        # examples and lists are indented, and keep their lines
        yield f".PP\n.nf\n{text(block)}\n.fi\n" if "\n  " in block else f".PP\n{text(block)}\n"
    for below in sub.parsers():
        yield from _command(below)


def _options(
    groups: Iterable[Any], *, titles: bool = False, leave_out: frozenset[str] = frozenset()
) -> Iterator[str]:
    """A paragraph per argument or option that help shows, commands aside."""
    for group in groups:
        if titles:
            yield f".SS {text(group.title)}\n{text(group.description)}\n"
        formatter = parser("version")._get_formatter()  # noqa: SLF001 - it expands %(default)s
        for action in group._group_actions:  # noqa: SLF001 - argparse has no public way
            if not leave_out.isdisjoint(action.option_strings):
                continue
            if action.help == argparse.SUPPRESS or action.nargs == argparse.PARSER:
                continue
            shown = formatter._format_action_invocation(action)  # noqa: SLF001
            yield f".TP\n.B {text(shown)}\n{text(formatter._expand_help(action))}\n"  # noqa: SLF001


def text(plain: str) -> str:
    r"""As roff prints it, line by line.

    >>> print(text(".x a-b\\n"))
    \&.x a\-b\en
    """
    escaped = plain.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n")
    )


def main() -> None:
    """Print it, dated as the build says."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    sys.stdout.write(page(parser(), time.strftime("%Y-%m-%d", time.gmtime(seconds))))


if __name__ == "__main__":
    main()

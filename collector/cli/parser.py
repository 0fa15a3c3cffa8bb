"""The parser of every command: help on one screen, settings behind ``--help-settings``, and
suggestions for names that do not exist.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

WRONG_INPUT = 2
UNRECOGNIZED = "unrecognized arguments: "
LIKENESS = 0.6  # difflib's own default


def suggestion(name: str, known: Iterable[str]) -> str:
    """A phrase that names what was probably meant; empty where nothing is alike.

    >>> suggestion("qurey", ["query", "read"]), suggestion("--web.listen", ["--web.listen-address"])
    ('; did you mean query?', '; did you mean --web.listen-address?')
    """
    known = list(known)
    begun = [one for one in known if len(name) > 2 and one.startswith(name)]
    alike = begun[:1] or difflib.get_close_matches(name, known, 1, LIKENESS)
    return f"; did you mean {alike[0]}?" if alike else ""


class Parser(argparse.ArgumentParser):
    """As argparse's, with groups of settings that ``--help`` leaves out but for the usual ones."""

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._settings: list[Any] = []
        self._usual: list[argparse.Action] = []

    def add_settings_group(self, title: str, description: str) -> Any:
        """A group of options that only ``--help-settings`` shows."""
        if not self._settings:
            self.add_argument(
                "--help-settings",
                action=_HelpSettings,
                help="show all settings that this command takes as options, and exit",
            )
        group = self.add_argument_group(title, description)
        self._settings.append(group)
        return group

    def show_in_help(self, option: argparse.Action) -> None:
        """Show an option of a settings group in ``--help`` too."""
        self._usual.append(option)

    def own_groups(self) -> list[Any]:
        """Groups that ``--help`` shows."""
        return [group for group in self._action_groups if group not in self._settings]

    def settings_groups(self) -> list[Any]:
        """Groups that ``--help`` leaves out."""
        return list(self._settings)

    def format_help(self) -> str:
        """Usage, description, the command's own options and the usual settings, examples."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group in self.own_groups():
            _add(formatter, group)
        if self._usual:
            formatter.start_section("usual settings (all of them: --help-settings)")
            formatter.add_arguments(self._usual)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def format_settings(self) -> str:
        """The groups that ``--help`` leaves out."""
        formatter = self._get_formatter()
        for group in self._settings:
            _add(formatter, group)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """Usage and what is wrong, with the option that was probably meant."""
        command = self._command()
        if message.startswith(UNRECOGNIZED):
            words = message.removeprefix(UNRECOGNIZED).split()
            wrong = next((word for word in words if word.startswith("-")), "")
            message += suggestion(wrong.partition("=")[0], self._options()) if wrong else ""
        command.print_usage(sys.stderr)
        self.exit(WRONG_INPUT, f"{command.prog}: error: {message}\n")

    def _command(self) -> argparse.ArgumentParser:
        """The subcommand's parser, where there is only one; or this one."""
        below = list(self.parsers())
        return below[0] if len(below) == 1 else self

    def parsers(self) -> Iterator[Parser]:
        """Those of the subcommands."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - no public way
                yield from action.choices.values()

    def _options(self) -> Iterator[str]:
        for action in self._actions:
            if action.help != argparse.SUPPRESS:
                yield from action.option_strings
        for parser in self.parsers():
            yield from parser._options()  # noqa: SLF001 - of this class


class _HelpSettings(argparse.Action):
    """Prints the settings, and ends."""

    def __init__(self, option_strings: list[str], dest: str, **rest: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **rest)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Exit code 0, as ``--help``."""
        assert isinstance(parser, Parser)  # noqa: S101 - it is added by that class only
        sys.stdout.write(parser.format_settings())
        parser.exit()


def _add(formatter: argparse.HelpFormatter, group: Any) -> None:
    formatter.start_section(group.title)
    formatter.add_text(group.description)
    formatter.add_arguments(group._group_actions)  # noqa: SLF001 - as argparse does itself
    formatter.end_section()

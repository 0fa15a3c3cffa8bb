"""Command-line options made from the settings, and dcgm-exporter's own beside them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_origin

from collector.cli.parser import Parser
from collector.config import dcgm_flags, tree
from collector.config.dcgm_flags import DcgmFlag
from collector.config.load import DEFAULT_FILE, FILE_VARIABLE, Inputs
from collector.config.raw_setting import RawSetting
from collector.config.tree import Setting, settings
from collector.config.units import Seconds

# Short spellings beside the one made from the setting's path.
SHORT = {
    ("exposition", "compat"): "--compat",
    ("exposition", "hostname_label"): "--hostname-label",
    ("simulate", "profile"): "--simulate",
    ("simulate", "inject"): "--inject",
}

# Settings that --help shows; the others are behind --help-settings.
USUAL = {*SHORT, ("web", "listen_address"), ("storage", "path"), ("log", "level")}

STORE = ("storage", "path")  # relative on a command line: seen from the folder in which it is typed


class _Gather(argparse.Action):
    """Keeps what was given in the order it was given: (target, value, option as typed)."""

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,
        *,
        target: Setting | DcgmFlag,
        says: str | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(option_strings, dest, **rest)
        self.target = target
        self.says = says

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Append one."""
        namespace.given = [
            *(namespace.given or ()),
            (self.target, self.says or values, option_string),
        ]


def add_settings(parser: Parser, only: Sequence[str] = ()) -> None:
    """Options for all settings, or for those of some sections, and
    ``--config.file``, for short ``--config``.
    """
    parser.add_argument(
        "--config.file",
        "--config",
        dest="config_file",
        default="",
        metavar="FILE",
        help=f"YAML file (${FILE_VARIABLE}; default {DEFAULT_FILE})",
    )
    for path, section in tree.sections().items():
        rows = [s for s in settings().values() if s.path[:-1] == path]
        if rows and (not only or path[0] in only):
            about = " ".join((section.__doc__ or "").partition("\n\n")[0].split())
            group = parser.add_settings_group(".".join(path), about)
            for setting in rows:
                option = _add(group, setting)
                if setting.path in USUAL:
                    parser.show_in_help(option)


def add_dcgm(parser: Parser) -> None:
    """dcgm-exporter's options: each long one with one dash or two, as Go programs take them."""
    group = parser.add_settings_group("dcgm-exporter", "Its own flags, as they are.")
    for flag in dcgm_flags.FLAGS:
        shape: dict[str, Any] = (
            {"nargs": "?", "const": "true", "metavar": "BOOL"}
            if flag.kind == "switch"
            else {"metavar": flag.kind.upper()}
        )
        shape |= {"action": _Gather, "dest": "given", "target": flag}
        group.add_argument(*flag.names, help=_escaped(flag.help), **shape)
        group.add_argument(
            *(name[1:] for name in flag.names if name.startswith("--")),
            help=argparse.SUPPRESS,
            **shape,
        )


def inputs(args: argparse.Namespace) -> Inputs:
    """What a parsed command line says about settings, with this process's environment."""
    ours: dict[tree.Path, RawSetting] = {}
    dcgm: list[tuple[DcgmFlag, str, str]] = []
    for target, value, origin in args.given or ():
        if isinstance(target, DcgmFlag):
            dcgm.append((target, value, origin))
        else:
            ours[target.path] = RawSetting(
                target.path, _joined(target, ours.get(target.path), value), origin
            )
    return Inputs(args.config_file, os.environ, tuple(ours.values()), tuple(dcgm))


def _joined(setting: Setting, before: RawSetting | None, value: str) -> object:
    """A list takes one element per flag, a table one ``name=value``; of all others the last one
    holds, the store's folder as an absolute path.
    """
    if get_origin(setting.plain) is tuple:
        earlier = before.value if before is not None and isinstance(before.value, tuple) else ()
        return (*earlier, *((value,) if value else ()))
    if get_origin(setting.plain) is dict and before is not None:
        return f"{before.value},{value}"
    if setting.path == STORE and value and "://" not in value:
        return str(Path(value).absolute())
    return value


def _add(group: Any, setting: Setting) -> argparse.Action:
    names = [f"--{setting.flag}", *([SHORT[setting.path]] if setting.path in SHORT else [])]
    text = _escaped(
        f"{setting.help} Default: {shown(setting.default)}. (${setting.variable})".replace("`", "")
    )
    shape: dict[str, Any] = {"action": _Gather, "dest": "given", "target": setting}
    if setting.plain is not bool:
        option: argparse.Action = group.add_argument(
            *names, metavar=_metavar(setting), help=text, **shape
        )
        return option
    option = group.add_argument(*names, nargs="?", const="true", metavar="BOOL", help=text, **shape)
    off = [f"--no-{name[2:]}" for name in names]
    group.add_argument(*off, nargs=0, says="false", help=argparse.SUPPRESS, **shape)
    return option


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join(setting.choices)
    kinds: dict[Any, str] = {int: "N", Seconds: "DURATION", tuple: "TEXT", dict: "NAME=VALUE"}
    return kinds.get(get_origin(setting.plain) or setting.plain, "TEXT")


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def shown(value: object) -> str:
    """A value as it is written in the file; nothing is said as ``none``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value not in ("", {}) else "none"

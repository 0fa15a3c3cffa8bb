"""The settings as a table from path to type, default and description."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from collector.config.section import Section
from collector.config.settings import Config

Path = tuple[str, ...]


class Setting(NamedTuple):
    """One setting: its path (``("web", "listen_address")``), type with constraints, plain
    type, default and meaning.
    """

    path: Path
    type: Any
    plain: Any
    default: object
    help: str

    @property
    def name(self) -> str:
        """Dotted, as in the file: ``web.listen_address``."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """Its environment variable: ``TOCSIN_WEB__LISTEN_ADDRESS``."""
        return "TOCSIN_" + "__".join(self.path).upper()

    @property
    def flag(self) -> str:
        """Its flag without dashes: ``web.listen-address``; ``source.nvml`` switches a source."""
        path = ("source", *self.path[1:]) if self.path[0] == "sources" else self.path
        return ".".join(path[:-1] if path[-1] == "enabled" else path).replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """What it may be, empty where anything of its type goes."""
        return get_args(self.plain) if get_origin(self.plain) is Literal else ()


@cache
def settings() -> Mapping[Path, Setting]:
    """All settings in the order of the classes."""
    return MappingProxyType({s.path: s for s in _walk(Config, ())})


@cache
def sections() -> Mapping[Path, type[Section]]:
    """All groups of settings in the order of the classes."""
    return MappingProxyType(dict(_groups(Config, ())))


def _walk(section: type[Section], path: Path) -> list[Setting]:
    found: list[Setting] = []
    hints = get_type_hints(section, include_extras=True)
    for row in msgspec.structs.fields(section):
        hint = hints[row.name]
        if isinstance(hint, type) and issubclass(hint, Section):
            found += _walk(hint, (*path, row.name))
        else:
            default = (
                row.default if row.default_factory is msgspec.NODEFAULT else row.default_factory()
            )
            meta = next(m for m in get_args(hint) if isinstance(m, msgspec.Meta))
            found.append(
                Setting((*path, row.name), hint, _plain(hint), default, meta.description or "")
            )
    return found


def _plain(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _groups(section: type[Section], path: Path) -> list[tuple[Path, type[Section]]]:
    hints = get_type_hints(section, include_extras=True)
    below = [
        ((*path, name), hint)
        for name, hint in hints.items()
        if isinstance(hint, type) and issubclass(hint, Section)
    ]
    return [pair for child, hint in below for pair in ((child, hint), *_groups(hint, child))]

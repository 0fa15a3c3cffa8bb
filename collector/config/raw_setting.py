"""A setting as somebody gave it, with the words for where: errors name what the user typed."""

from __future__ import annotations

from typing import NamedTuple

from collector.config_error import ConfigError

__all__ = ["ConfigError", "Given"]


class Given(NamedTuple):
    """One value for one setting. ``text`` values (environment, flags) are read by the setting's type; others came typed from YAML."""

    path: tuple[str, ...]
    value: object
    origin: str
    text: bool = True

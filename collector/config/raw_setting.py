"""A setting as the user gave it, and where: errors name what the user typed."""

from __future__ import annotations

from typing import NamedTuple

from collector.config.error import ConfigError

__all__ = ["ConfigError", "RawSetting"]


class RawSetting(NamedTuple):
    """One value for one setting. ``text`` values (environment, flags) are read by the setting's
    type; others came typed from YAML.
    """

    path: tuple[str, ...]
    value: object
    origin: str
    text: bool = True

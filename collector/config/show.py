"""The configuration in force, as a YAML file that could be loaded again."""

from __future__ import annotations

from functools import reduce

import msgspec
import yaml

from collector.config.load import Loaded
from collector.config.tree import sections, settings
from collector.config.units import Seconds


def effective(loaded: Loaded) -> str:
    """The configuration as a YAML file; a comment says where each value
    that was given comes from.
    """
    lines: list[str] = []
    for path in sections():
        lines.append(f"{'  ' * (len(path) - 1)}{path[-1]}:")
        for setting in (s for s in settings().values() if s.path[:-1] == path):
            value = reduce(getattr, setting.path, loaded.config)
            origin = f"  # {loaded.origins[setting.path]}" if setting.path in loaded.origins else ""
            lines.append(f"{'  ' * len(path)}{setting.path[-1]}: {_yaml(value)}{origin}")
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    plain = str(value) if isinstance(value, Seconds) else msgspec.to_builtins(value)
    text = yaml.safe_dump(
        list(plain) if isinstance(plain, tuple) else plain,
        default_flow_style=True,
        width=1 << 20,
        allow_unicode=True,
    )
    return text.removesuffix("\n").removesuffix("\n...")

"""Durations as people write them: ``15s``, ``500ms``, ``1m30s``."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


class Seconds(float):
    """A duration in seconds that is written as it was meant.

    >>> Seconds.parse("1m30s") + 0.5, str(Seconds.parse("500ms")), str(Seconds(3600))
    (90.5, '500ms', '1h')
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: object) -> Seconds:
        """From ``15s``, ``500ms``, ``1m30s``, ``2h``, ``7d`` or ``0``;
        ValueError for anything else.
        """
        if isinstance(text, Seconds):
            return text
        if text in ("0", 0) and not isinstance(text, bool):
            return cls(0)
        if not isinstance(text, str) or not _WHOLE.fullmatch(text):
            raise ValueError(f"expected a duration such as 15s, 500ms or 1m30s, got {text!r}")
        return cls(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))

    def __str__(self) -> str:
        for unit in ("d", "h", "m", "s"):
            if self and (self / _UNITS[unit]).is_integer():
                return f"{self / _UNITS[unit]:.0f}{unit}"
        return f"{self * 1000:.15g}ms" if self else "0"

    __repr__ = __str__

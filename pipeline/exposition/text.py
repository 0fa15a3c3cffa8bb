"""The words of the text formats: escaping, series names, HELP and TYPE lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_VALUE = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})

_OPENMETRICS_TYPES = {"gauge": "gauge", "counter": "counter", "info": "info"}
_TEXT_TYPES = {"gauge": "gauge", "counter": "counter", "info": "gauge"}


def encode(text: str) -> bytes:
    """UTF-8; what is not a character (an undecodable byte of a file or log) becomes ``?`` so that
    no page is ever invalid.
    """
    return text.encode("utf-8", "replace")


def series(name: str, labels: Iterable[tuple[str, str]]) -> bytes:
    r"""A series as the text formats write it.

    >>> series("up", [("job", 'a"b')])
    b'up{job="a\\"b"}'
    >>> series("up", [])
    b'up'
    """
    inner = ",".join(f'{key}="{value.translate(_VALUE)}"' for key, value in labels)
    return encode(f"{name}{{{inner}}}" if inner else name)


@dataclass(frozen=True, slots=True)
class Family:
    """Name, type (gauge, counter, info, anything else is untyped) and HELP of one family."""

    name: str
    type: str
    help: str

    def header(self, *, openmetrics: bool) -> bytes:
        """HELP and TYPE lines, each ending in a newline.

        OpenMetrics names a counter without its ``_total``; one whose name lacks it may not
        be called a counter there.
        """
        return _header(self, openmetrics)

    def openmetrics_name(self) -> tuple[str, str]:
        """Family name and type in OpenMetrics.

        >>> Family("energy_joules_total", "counter", "").openmetrics_name()
        ('energy_joules', 'counter')
        >>> Family("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "").openmetrics_name()
        ('DCGM_FI_DEV_PCIE_REPLAY_COUNTER', 'unknown')
        """
        suffix = {"counter": "_total", "info": "_info"}.get(self.type, "")
        if self.name.endswith(suffix):
            return self.name.removesuffix(suffix), _OPENMETRICS_TYPES.get(self.type, "unknown")
        return self.name, "unknown"


@lru_cache(
    maxsize=4096
)  # more than both generations and the catalogue have; a reload may bring others
def _header(family: Family, openmetrics: bool) -> bytes:
    """Kept: a family's two lines are the same on every page."""
    if openmetrics:
        name, kind = family.openmetrics_name()
        return encode(f"# HELP {name} {family.help.translate(_VALUE)}\n# TYPE {name} {kind}\n")
    kind = _TEXT_TYPES.get(family.type, "untyped")
    return encode(
        f"# HELP {family.name} {family.help.translate(_HELP)}\n# TYPE {family.name} {kind}\n"
    )

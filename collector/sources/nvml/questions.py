"""What the catalogue's ``read`` strings ask of NVML (grammar: pipeline/catalog/gpu.py).

No numpy: the driver child reads this.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FIELD = re.compile(r"field (?P<id>\d+)(?: scope (?P<scope>link|\d+))?")
_GPM = re.compile(r"gpm (?P<id>\d+)")
_CALL = re.compile(r"(?P<function>nvml\w+)\((?P<arguments>[^)]*)\)(?P<path>(?:\.\w+|\[\d+\])*)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


class FieldValue(NamedTuple):
    """One entry of nvmlDeviceGetFieldValues."""

    id: int
    scope: int
    codec: str = ""


class Gpm(NamedTuple):
    """One metric of nvmlGpmMetricsGet."""

    id: int


class Call(NamedTuple):
    """One getter: arguments after the handle, then the way into its answer (members by
    name, elements by number).
    """

    function: str
    arguments: tuple[int, ...] = ()
    path: tuple[str | int, ...] = ()
    codec: str = ""


Way = FieldValue | Gpm | Call


def ways(read: str, link: int = -1) -> tuple[Way, ...]:
    """The ways to ask, in order; none for ``source``.

    ValueError where the text is not in the grammar.

    >>> ways("field 138 scope link | nvmlDeviceGetNvLinkErrorCounter(link, 2)", link=7)
    (FieldValue(id=138, scope=7, codec=''), Call(function='nvmlDeviceGetNvLinkErrorCounter', arguments=(7, 2), path=(), codec=''))
    """  # noqa: E501 - an example or a table
    return () if read in {"", "source"} else tuple(_way(text, link) for text in read.split(" | "))


def _way(text: str, link: int) -> Way:
    question, _, codec = text.partition(" as ")
    if match := _FIELD.fullmatch(question):
        scope = match["scope"] or "0"
        return FieldValue(int(match["id"]), link if scope == "link" else int(scope), codec)
    if match := _GPM.fullmatch(question):
        return Gpm(int(match["id"]))
    if match := _CALL.fullmatch(question):
        given = [a for a in match["arguments"].split(", ") if a]
        path = tuple(name or int(number) for name, number in _STEP.findall(match["path"]))
        return Call(
            match["function"], tuple(link if a == "link" else int(a) for a in given), path, codec
        )
    raise ValueError(f"the catalogue asks {text!r}, which is no question to NVML")

"""Structs, tuples and lists put together from the table's keys: ``f().gpu``, ``f()[1]``,
``f().length``, ``f()[0].pid``.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

_KEY = re.compile(r"^(?P<base>[^/]+/\w+\([^)]*\))(?P<path>[.\[].*)$")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")

Read = Callable[[str], float | int | str]


class Shape:
    """What one question's answer is made of: a leaf (``key``), or members by
    name and elements by number.

    >>> shapes = index_of(["0/f().length", "0/f()[0].pid", "0/g()[0]", "0/g()[1]", "0/h().gpu"])
    >>> (
    ...     len(shapes["0/f()"].read(lambda key: 2)),
    ...     shapes["0/g()"].read(len),
    ...     shapes["0/h()"].read(len).gpu,
    ... )
    (2, (8, 8), 9)
    """

    __slots__ = ("elements", "key", "members")

    def __init__(self) -> None:
        self.key = ""
        self.members: dict[str, Shape] = {}
        self.elements: dict[int, Shape] = {}

    def add(self, path: str, key: str) -> None:
        """Let the part at ``path`` (``.name``, ``[3]``, nested) be read from ``key``."""
        shape = self
        for name, number in _PART.findall(path):
            shape = (
                shape.members.setdefault(name, Shape())
                if name
                else shape.elements.setdefault(int(number), Shape())
            )
        shape.key = key

    def read(self, value: Read) -> Any:
        """The answer, its leaves read by ``value``: an object, a tuple (elements alone) or a list
        (elements and ``length``).
        """
        if self.key:
            return value(self.key)
        if "length" in self.members:
            count = int(self.members["length"].read(value))
            return [
                self.elements[i].read(value) if i in self.elements else SimpleNamespace()
                for i in range(count)
            ]
        if self.elements:
            return tuple(
                self.elements[i].read(value) if i in self.elements else 0
                for i in range(max(self.elements) + 1)
            )
        return SimpleNamespace(**{name: shape.read(value) for name, shape in self.members.items()})


def index_of(keys: Iterable[str]) -> dict[str, Shape]:
    """Shapes of all questions whose answers have parts, by the question's key."""
    shapes: dict[str, Shape] = {}
    for key in keys:
        if match := _KEY.match(key):
            shapes.setdefault(match["base"], Shape()).add(match["path"], key)
    return shapes


def fill(struct: ctypes.Structure, answer: Any) -> int:
    """Copy an answer's members into a caller's struct, as functions with an
    out-parameter do; 0 is success.
    """
    for name, *_ in struct._fields_:
        value = getattr(answer, name, None)
        if value is None:
            continue
        target = getattr(struct, name)
        if isinstance(value, tuple):
            for number, element in enumerate(value[: len(target)]):
                target[number] = element
        elif isinstance(target, ctypes.Array):
            raw = str(value).encode()[: len(target)]
            ctypes.memmove(target, raw, len(raw))
        else:
            setattr(struct, name, value.encode() if isinstance(value, str) else value)
    return 0

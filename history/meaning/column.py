"""A column that a series fills."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pipeline.catalog import Field, fields_of


@dataclass(frozen=True, slots=True)
class Column:
    """Field ``name`` of a kind of device; the value on the wire is ``native * times / per``."""

    kind: str
    name: str
    times: int = 1
    per: int = 1

    @property
    def field(self) -> Field:
        """The catalogue's row."""
        return _fields(self.kind)[self.name]


@cache
def _fields(kind: str) -> dict[str, Field]:
    return {field.name: field for field in fields_of(kind)}

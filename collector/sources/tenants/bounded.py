"""Values between the agent and its child, as MessagePack: every type is checked, every number and
length is bounded, and nothing can be constructed but the types that the caller named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

MAX_TEXT = 1 << 16  # characters: a line of a log, a path, a message
MAX_ITEMS = 1 << 17  # of one sequence: ranks of the largest jobs
_INT = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # of the store's columns


class BoundsError(ValueError):
    """Bytes, or a value, that are not of the type or exceed a bound."""


def pack(value: object, kind: Any) -> bytes:
    """A value of a type, as bytes. BoundsError.

    >>> unpack(pack(("a", -1), tuple[str, int]), tuple[str, int])
    ('a', -1)
    """
    try:
        checked = msgspec.convert(value, bounded(kind), from_attributes=True)
        return msgspec.msgpack.encode(checked)
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError) as error:
        raise BoundsError(f"no {kind}: {error}") from error


def unpack(data: bytes, kind: Any) -> Any:
    """The value of a type that bytes hold, as ``pack`` made them. BoundsError."""
    try:
        checked = msgspec.msgpack.decode(data, type=bounded(kind))
        return msgspec.convert(checked, kind, from_attributes=True)
    except (msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError) as error:
        raise BoundsError(f"no {kind}: {error}") from error


@cache
def bounded(kind: Any) -> Any:
    """The type with bounds for msgspec: a dataclass becomes a structure without names."""
    if kind is int:
        return _INT
    if kind is str:
        return Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        rows = [(each.name, bounded(hints[each.name])) for each in dataclasses.fields(kind)]
        name = getattr(kind, "__name__", "Row")
        return msgspec.defstruct(name, rows, array_like=True, frozen=True, gc=False)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is tuple and parts[-1:] == (...,):
        items: Any = tuple[bounded(parts[0]), ...]  # type: ignore[misc]
        return Annotated[items, msgspec.Meta(max_length=MAX_ITEMS)]
    if origin is tuple:
        return tuple[tuple(map(bounded, parts))]  # type: ignore[misc]
    if origin in (UnionType, Union):
        return Union[tuple(map(bounded, parts))]  # noqa: UP007 - of types that are computed
    if origin is Mapping:
        return Annotated[
            dict[bounded(parts[0]), bounded(parts[1])],  # type: ignore[misc]
            msgspec.Meta(max_length=MAX_ITEMS),
        ]
    return kind

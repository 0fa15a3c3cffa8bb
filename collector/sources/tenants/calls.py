"""The signature of a reader's method: what the agent sends, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from collector.sources.tenants.bounded import pack, unpack


class Signature(NamedTuple):
    """Types of the arguments by name, how many of them are positional, and the type returned."""

    arguments: Mapping[str, Any]
    positional: int
    returned: Any

    def packed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bytes, ...]:
        """The arguments of a call as bytes, in order. BoundsError."""
        values = {**dict(zip(self.arguments, args, strict=False)), **kwargs}
        return tuple(pack(values[name], kind) for name, kind in self.arguments.items())

    def unpacked(self, given: Sequence[bytes]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and other arguments of a call. BoundsError."""
        rows = zip(self.arguments.items(), given, strict=True)
        values = {name: unpack(data, kind) for (name, kind), data in rows}
        names = list(values)
        return (
            [values[name] for name in names[: self.positional]],
            {name: values[name] for name in names[self.positional :]},
        )


@cache
def signature(method: Callable[..., Any]) -> Signature:
    """Of a method without defaults, as its class has it."""
    hints = get_type_hints(method)
    returned = hints.pop("return")
    return Signature(hints, method.__code__.co_argcount - 1, returned)

"""What the parent knows of the targets of one driver child: which device each is,
and what its entries mean.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from collector.sources.nvml import wire
from collector.sources.nvml.wire import ENTRY, GarbageError, Message
from pipeline.catalog import fields_of

_MAX_TEXT, _MAX_OTHERS = 128, 8  # a GPU instance has up to 8 compute instances
_KINDS = frozenset({"gpu", "gpu_instance", "nvlink"})


@dataclass(slots=True)
class Target:
    """One GPU, instance or link of a child, with its slow facts and the columns of its entries.
    ``others``: further names of it, the UUIDs of its other compute instances.
    """

    gpu: int
    kind: str
    id: str
    facts: Mapping[str, str]
    columns: tuple[str, ...] = ()
    gpm: tuple[str, ...] = ()
    row: int = -1  # in the frame of its kind
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class Targets:
    """The targets of the child with this process id."""

    pid: int = 0
    known: dict[int, Target] = field(default_factory=dict)
    # UUID by index of those it has found, read or not
    gpus: dict[int, str] = field(default_factory=dict)

    def found(self, message: Message) -> str:
        """UUID of the GPU that a FOUND message is about. GarbageError where it has none."""
        identity = message.document().get("id")
        if not isinstance(identity, str) or not printable(identity):
            raise GarbageError(f"a GPU without a UUID: {identity!r:.200}")
        self.gpus[message.gpu] = printable(identity)
        return self.gpus[message.gpu]

    def note(self, message: Message) -> Target | None:
        """Learn from a DEVICE, GONE or LAYOUT message; the target where it is new or has new facts.

        GarbageError where it is nonsense.
        """
        number = message.number("target")
        document = message.document()
        if message.kind == wire.GONE:
            self.known.pop(number, None)
            return None
        if message.kind == wire.LAYOUT:
            target = self._get(number)
            target.columns, target.gpm = (
                _columns(target.kind, document, "columns"),
                _columns(target.kind, document, "gpm"),
            )
            return None
        kind, identity, facts = document.get("kind"), document.get("id"), document.get("facts")
        if (
            kind not in _KINDS
            or not isinstance(identity, str)
            or not identity
            or not isinstance(facts, dict)
        ):
            raise GarbageError(f"a device that is none: {document!r:.200}")
        others = document.get("others", [])
        if not isinstance(others, list) or not all(isinstance(one, str) for one in others):
            raise GarbageError(f"other names that are none: {others!r:.200}")
        plain = {str(name): printable(str(text)) for name, text in facts.items()}
        if number in self.known:
            self.known[number].facts = plain
        else:
            self.known[number] = Target(message.gpu, kind, printable(identity), plain)
        self.known[number].others = tuple(map(printable, others[:_MAX_OTHERS]))
        return self.known[number]

    def instances(self) -> dict[str, str]:
        """GPU instances by their other names."""
        return {name: target.id for target in self.known.values() for name in target.others}

    def values(self, message: Message) -> tuple[Target, tuple[str, ...], int, bytes]:
        """Target, GPM columns that came, unix time and entries of a VALUES message.

        GarbageError where they are not whole.
        """
        try:
            number, fields, metrics, time_ns = wire.VALUES_HEAD.unpack_from(message.body)
        except struct.error as error:
            raise GarbageError(f"values of {len(message.body)} bytes") from error
        target = self._get(number)
        entries = message.body[wire.VALUES_HEAD.size :]
        if (
            len(entries) != ENTRY.size * (fields + metrics)
            or fields != len(target.columns)
            or metrics not in {0, len(target.gpm)}
        ):
            raise GarbageError(
                f"{len(entries)} bytes of values for {len(target.columns)} columns of "
                f"{target.kind} {target.id}"
            )
        return target, target.gpm if metrics else (), time_ns, entries

    def _get(self, number: int) -> Target:
        if number not in self.known:
            raise GarbageError(f"target {number} was never described")
        return self.known[number]


def _columns(kind: str, document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = document.get(key)
    catalogue = {f.name for f in fields_of(kind)}
    if not isinstance(names, list) or not all(isinstance(n, str) and n in catalogue for n in names):
        raise GarbageError(f"{key} that the catalogue does not have: {names!r:.200}")
    return tuple(names)


def printable(text: str) -> str:
    r"""Text from the driver, fit for a label: printable, and not longer than 128 characters.

    >>> printable("H100\x00\x07 80GB")
    'H100 80GB'
    """
    return "".join(c for c in text[:_MAX_TEXT] if c.isprintable())

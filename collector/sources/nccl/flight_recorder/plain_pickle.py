"""Plain data out of a pickle by an interpreter of our own: no name is ever looked
up, nothing is ever called.

Real dumps are protocol 2 and hold dictionaries, lists, tuples, text, numbers and None
(torch/csrc/jit/serialization/pickler.cpp). An opcode that could do more is not known here.
``pickle.Unpickler`` with a refusing ``find_class`` would not do: its memo is an array that one
opcode grows to gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from collector.sources.nccl.sanitize import FormatError

# 2000 entries (PyTorch's default) of 30 stack frames each take 1 million opcodes and 0.1 million
# containers. What a hostile pickle can make of these bounds is half a gigabyte, so the agent reads
# dumps in a child of bounded memory.
MAX_OPCODES = 8_000_000
MAX_CONTAINERS = 1_000_000
MAX_DEPTH = 64  # marks that are open at once; dumps have 5
MAX_INT = 16  # bytes; dumps hold nanoseconds


class _Machine:
    """A stack, a memo by number, and the data."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.marks: list[int] = []
        self.containers = 0

    def take(self, n: int) -> bytes:
        piece = self.data[self.at : self.at + n]
        if n < 0 or len(piece) != n:
            raise FormatError("the pickle is cut off")
        self.at += n
        return piece

    def number(self, form: str) -> Any:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def contain(self, value: Any) -> None:
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise FormatError(f"the pickle has more than {MAX_CONTAINERS} containers")
        self.stack.append(value)

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise FormatError("the pickle takes from an empty stack")
        return self.stack.pop()

    def above_mark(self) -> list[Any]:
        if not self.marks:
            raise FormatError("the pickle misses a mark")
        begin = self.marks.pop()
        items = self.stack[begin:]
        del self.stack[begin:]
        return items

    def top(self, kind: type[list[Any] | dict[str, Any]]) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise FormatError(f"the pickle adds to something that is no {kind.__name__}")
        return self.stack[-1]

    def mark(self) -> None:
        if len(self.marks) >= MAX_DEPTH:
            raise FormatError(f"the pickle is nested deeper than {MAX_DEPTH}")
        self.marks.append(len(self.stack))

    def text(self, form: str) -> None:
        self.push(self.take(self.number(form)).decode(errors="replace"))

    def integer(self) -> None:
        size = self.number("<B")
        if size > MAX_INT:
            raise FormatError(f"the pickle has an integer of {size} bytes")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def tuple_of(self, n: int) -> None:
        self.contain(tuple(reversed([self.pop() for _ in range(n)])))

    def append(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def set_items(self, items: list[Any]) -> None:
        if len(items) % 2 or not all(type(key) is str for key in items[::2]):
            raise FormatError("the pickle has a dictionary whose keys are no text")
        self.top(dict).update(zip(items[::2], items[1::2], strict=True))

    def pair(self) -> list[Any]:
        value = self.pop()
        return [self.pop(), value]

    def put(self, number: int) -> None:
        if not self.stack:
            raise FormatError("the pickle remembers what is not there")
        self.memo[number] = self.stack[-1]

    def get(self, number: int) -> None:
        try:
            self.push(self.memo[number])
        except KeyError:
            raise FormatError("the pickle recalls what it never had") from None


# Opcodes and their arguments: Lib/pickletools.py of CPython.
_OPCODES: dict[int, Callable[[_Machine], None]] = {
    0x80: lambda m: _protocol(m.number("<B")),
    ord("\x95"): lambda m: _ignore(m.number("<Q")),  # FRAME: only a hint of how much to read
    ord("("): lambda m: m.mark(),
    ord("}"): lambda m: m.contain({}),
    ord("]"): lambda m: m.contain([]),
    ord(")"): lambda m: m.push(()),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("J"): lambda m: m.push(m.number("<i")),
    ord("K"): lambda m: m.push(m.number("<B")),
    ord("M"): lambda m: m.push(m.number("<H")),
    ord("G"): lambda m: m.push(m.number(">d")),
    0x8A: lambda m: m.integer(),
    ord("X"): lambda m: m.text("<I"),
    0x8C: lambda m: m.text("<B"),
    ord("t"): lambda m: m.contain(tuple(m.above_mark())),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("a"): lambda m: m.append([m.pop()]),
    ord("e"): lambda m: m.append(m.above_mark()),
    ord("s"): lambda m: m.set_items(m.pair()),
    ord("u"): lambda m: m.set_items(m.above_mark()),
    ord("q"): lambda m: m.put(m.number("<B")),
    ord("r"): lambda m: m.put(m.number("<I")),
    0x94: lambda m: m.put(len(m.memo)),
    ord("h"): lambda m: m.get(m.number("<B")),
    ord("j"): lambda m: m.get(m.number("<I")),
}
_STOP = ord(".")


def load(data: bytes) -> Any:
    """The value: dictionaries with text keys, lists, tuples, text, numbers, booleans and None.

    FormatError for anything else.

    What was put into a memo and taken out again is one object in two places, and may contain
    itself: readers walk shapes they know, never "everything".

    >>> import pickle
    >>> load(pickle.dumps({"a": [1, 2.5, None, ("x", True)]}, 2))
    {'a': [1, 2.5, None, ('x', True)]}
    """
    machine = _Machine(data)
    for _ in range(MAX_OPCODES):
        if machine.at >= len(data):
            raise FormatError("the pickle is cut off")
        opcode = data[machine.at]
        machine.at += 1
        if opcode == _STOP:
            if len(machine.stack) != 1 or machine.marks:
                raise FormatError("the pickle ends with more or less than one value")
            return machine.stack[0]
        act = _OPCODES.get(opcode)
        if act is None:
            raise FormatError(
                f"the pickle has opcode {opcode:#04x}, which plain data never needs: refused"
            )
        act(machine)
    raise FormatError(f"the pickle has more than {MAX_OPCODES} opcodes")


def _protocol(number: int) -> None:
    if number > 5:
        raise FormatError(f"pickle protocol {number} is not known")


def _ignore(_: int) -> None:
    """An argument that plain data has no use for."""

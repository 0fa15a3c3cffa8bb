"""Messages over a pipe: a kind, a length, and so many bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

_HEADER = struct.Struct("<BI")
MAX_REQUEST = 8 << 20  # 1024 processes with their environment take 2
MAX_ANSWER = 16 << 20  # a RAS report of 65,536 ranks takes 4

# Kinds. ASK: to the child, a method with its arguments. MARK: whom it is about to read. DONE: the
# value. FAILED: the method raised. READY: the reader is made, first of all.
ASK, MARK, DONE, FAILED, READY = range(1, 6)


class FrameError(ValueError):
    """The bytes are no message, or one that is too large."""


class Message(NamedTuple):
    """One message."""

    kind: int
    body: bytes


def framed(kind: int, body: bytes) -> bytes:
    """A message as bytes."""
    return _HEADER.pack(kind, len(body)) + body


class Frames:
    """Takes bytes as they come and returns the complete messages; keeps at most one message."""

    def __init__(self, max_bytes: int) -> None:
        self._most, self._rest = max_bytes, bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that end in this piece. FrameError."""
        self._rest += data
        found = []
        while len(self._rest) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._rest)
            end = _HEADER.size + length
            if length > self._most or not ASK <= kind <= READY:
                raise FrameError(f"a message of kind {kind} and {length} bytes")
            if len(self._rest) < end:
                break
            with memoryview(self._rest) as view:  # one copy in place of two
                found.append(Message(kind, bytes(view[_HEADER.size : end])))
            del self._rest[:end]
        return found


def read_message(read: Callable[[int], bytes], max_bytes: int) -> Message | None:
    """The next message of a blocking stream; None at its end. FrameError."""
    head = read(_HEADER.size)
    if len(head) < _HEADER.size:
        return None
    kind, length = _HEADER.unpack(head)
    if length > max_bytes:
        raise FrameError(f"a message of {length} bytes")
    body = read(length)
    return Message(kind, body) if len(body) == length else None

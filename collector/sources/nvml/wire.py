"""Messages from the driver child to its parent. No numpy: both sides read this.

A message is a header (magic, kind, GPU index, length) and a body: JSON, or for VALUES a fixed head
and raw entries of 40 bytes, as nvmlDeviceGetFieldValues and nvmlGpmMetricsGet fill them, so that
nothing is copied value by value on its way to the arrays.
"""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

_HEADER = struct.Struct("<IHHI")
_MAGIC = 0x4C4D564E  # "NVML"
MAX_BYTES = 1 << 20  # far above a GPU with 72 links and all fields; longer is garbage

# Kinds. FAILED: the library could not be opened or initialised. FOUND: a GPU has this UUID, so that
# a hang right after has a name. DEVICE: a target (GPU, instance, link) with its facts. GONE: a
# target went. TROUBLE: a GPU that is known but cannot be read. LAYOUT: which column each entry of a
# target's values is. READY: all devices were looked for. DONE: a sweep is over. MEMORY: what the
# processes of a GPU use.
FAILED, FOUND, DEVICE, GONE, TROUBLE, LAYOUT, VALUES, EVENT = range(1, 9)
PROCESSES, MEMORY, READY, DONE = range(9, 13)

# nvmlFieldValue_t: field id, scope, timestamp (us), latency (us), type, return code, value. A
# getter's answer is put in the same form.
ENTRY = struct.Struct("<IIqqii8s")
# target, field and getter entries, GPM entries, unix time of the reading in ns
VALUES_HEAD = struct.Struct("<IIIq")


class GarbageError(Exception):
    """What the child wrote is no message."""


class Message(NamedTuple):
    """One message: its kind, the index of the GPU it concerns (0xFFFF for none), its body."""

    kind: int
    gpu: int
    body: bytes

    def document(self) -> dict[str, Any]:
        """The body as a JSON object. GarbageError where it is none."""
        try:
            document = json.loads(self.body)
        except ValueError as error:
            raise GarbageError(f"a message of kind {self.kind} is no JSON: {error}") from error
        if not isinstance(document, dict):
            raise GarbageError(f"a message of kind {self.kind} holds a {type(document).__name__}")
        return document

    def number(self, key: str) -> int:
        """A whole number of the document, 0 where it is not there.

        GarbageError where it is something else.
        """
        value = self.document().get(key, 0)
        if not isinstance(value, int):
            raise GarbageError(f"{key} of a message of kind {self.kind} is {value!r}")
        return value


def pack(kind: int, gpu: int = 0xFFFF, body: bytes = b"") -> bytes:
    """One message; ``gpu`` is the index of the GPU it concerns, 0xFFFF for none."""
    return _HEADER.pack(_MAGIC, kind, gpu, len(body)) + body


def pack_document(kind: int, gpu: int = 0xFFFF, /, **document: Any) -> bytes:
    """One message with a JSON body."""
    return pack(kind, gpu, json.dumps(document).encode())


class Stream:
    """Puts messages together from what comes through the pipe, in any pieces."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now.

        GarbageError where the bytes cannot be a message; the stream is of no use then.
        """
        self._pending += data
        complete: list[Message] = []
        at = 0
        while len(self._pending) - at >= _HEADER.size:
            magic, kind, gpu, length = _HEADER.unpack_from(self._pending, at)
            if magic != _MAGIC or not FAILED <= kind <= DONE or length > MAX_BYTES:
                raise GarbageError(
                    f"bytes that are no message: {bytes(self._pending[at : at + 16])!r}"
                )
            if len(self._pending) - at < _HEADER.size + length:
                break
            body = bytes(self._pending[at + _HEADER.size : at + _HEADER.size + length])
            at += _HEADER.size + length
            complete.append(Message(kind, gpu, body))
        del self._pending[:at]
        return complete

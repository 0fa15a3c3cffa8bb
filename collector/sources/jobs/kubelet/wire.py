"""Protocol buffers as far as a reader needs them: fields of a message, in the order in which they
come (protobuf.dev, "Encoding").
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT = 10


class WireError(ValueError):
    """The bytes are no message."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    r"""Number and value of each field: integers as they are, everything else as bytes.

    WireError where the bytes end early or make no sense.

    >>> list(fields(b"\x08\x96\x01\x12\x02ok"))
    [(1, 150), (2, b'ok')]
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise WireError(f"field {number} has wire type {kind}")
        if at + length > len(message):
            raise WireError(f"field {number} is cut off")
        yield number, message[at : at + length]
        at += length


def inner(message: bytes, wanted: int) -> Iterator[bytes]:
    """The values of a field that is text or a message. WireError also where it is a number."""
    for number, value in fields(message):
        if number == wanted:
            if isinstance(value, int):
                raise WireError(f"field {number} is a number")
            yield value


def text(message: bytes, wanted: int) -> str:
    """The last value of a text field, "" where it is absent: proto3's rule for both.

    What is no UTF-8 becomes U+FFFD.
    """
    return next(reversed([value.decode(errors="replace") for value in inner(message, wanted)]), "")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(message[at : at + _MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise WireError("a number is cut off, or longer than ten bytes")
